// Memory for the nodes of sets and maps, so that who only gives something back
// needs none: the pool is filled while things are taken, when to say no is an
// answer, and what is given back finds its nodes there.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "spillway/units.h"

namespace spillway {

// Cells of one size. Its containers must go before it.
class NodePool {
 public:
  NodePool() = default;
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;

  // From now on there are so many cells in all, used or not. Throws bad_alloc,
  // and then nothing has changed.
  void Reserve(std::size_t cells) {
    if (cells <= cells_) return;
    const std::size_t more = std::max(cells - cells_, kBlockMin);
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back(std::make_unique<Cell[]>(more));
    for (std::size_t i = 0; i < more; ++i) Give(&blocks_.back()[i]);
    cells_ += more;
  }
  void* Take() {
    if (free_ == nullptr) Reserve(2 * cells_ + 1);
    return std::exchange(free_, free_->next);
  }
  void Give(void* cell) {
    auto* const given = static_cast<Cell*>(cell);
    given->next = std::exchange(free_, given);
  }

  // As a red-black tree's node is: its links and colour, and two numbers.
  static constexpr std::size_t kCellBytes = 4 * sizeof(void*) + 2 * sizeof(Bytes);

 private:
  static constexpr std::size_t kBlockMin = 64;
  union alignas(std::max_align_t) Cell {
    Cell* next;
    std::byte bytes[kCellBytes];
  };

  std::vector<std::unique_ptr<Cell[]>> blocks_;
  Cell* free_ = nullptr;
  std::size_t cells_ = 0;
};

template <typename T>
class PoolAllocator {
 public:
  using value_type = T;

  explicit PoolAllocator(NodePool* pool) : pool_(pool) {}
  template <typename Other>
  // NOLINTNEXTLINE(google-explicit-constructor): containers make it their nodes'.
  PoolAllocator(const PoolAllocator<Other>& other) : pool_(other.pool()) {}

  T* allocate([[maybe_unused]] std::size_t count) {
    static_assert(sizeof(T) <= NodePool::kCellBytes);
    assert(count == 1);
    return static_cast<T*>(pool_->Take());
  }
  void deallocate(T* node, std::size_t) { pool_->Give(node); }

  NodePool* pool() const { return pool_; }
  friend bool operator==(const PoolAllocator& a, const PoolAllocator& b) {
    return a.pool_ == b.pool_;
  }

 private:
  NodePool* pool_;
};

// Begin to end of spans, and spans by length.
using SpanMap = std::map<Bytes, Bytes, std::less<>, PoolAllocator<std::pair<const Bytes, Bytes>>>;
using SpanSet =
    std::set<std::pair<Bytes, Bytes>, std::less<>, PoolAllocator<std::pair<Bytes, Bytes>>>;

}  // namespace spillway
