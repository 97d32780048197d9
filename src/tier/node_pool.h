// SPDX-License-Identifier: Apache-2.0
// A pool of nodes for sets and maps, so that freeing a block never needs
// memory. The pool is filled while blocks are allocated, when NoMemory is still
// a possible answer; a later free finds the nodes it needs there.
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

// Cells of one size. Containers that use it must be destroyed before it.
class NodePool {
 public:
  NodePool() = default;
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;

  // Makes the number of cells at least `cells`, counting used ones. If it
  // throws bad_alloc, nothing has changed.
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

  // The size of a red-black tree node: its links and colour, and two numbers.
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

// Lets a standard container take its nodes from a NodePool, one at a time.
template <typename T>
class PoolAllocator {
 public:
  using value_type = T;

  explicit PoolAllocator(NodePool* pool) : pool_(pool) {}
  template <typename Other>
  // NOLINTNEXTLINE(google-explicit-constructor): containers rebind it to their node type.
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

// Spans, begin to end; and spans ordered by length.
using SpanMap = std::map<Bytes, Bytes, std::less<>, PoolAllocator<std::pair<const Bytes, Bytes>>>;
using SpanSet =
    std::set<std::pair<Bytes, Bytes>, std::less<>, PoolAllocator<std::pair<Bytes, Bytes>>>;

}  // namespace spillway
