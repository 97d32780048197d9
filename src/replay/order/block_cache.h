// SPDX-License-Identifier: Apache-2.0
// A cache of blocks without bytes: which blocks would be in the cache, by some order. All orders
// that `spillway replay` compares implement this interface and keep its rules:
//
// - A request names a chain of blocks, root first. It hits the unbroken run of leading blocks that
//   are in the cache.
// - A request's blocks are pinned while it is served. Missing blocks are inserted root first, as
//   long as there is room or a block that may be evicted.
// - Of blocks used at the same time, the deepest is evicted first.
//
// Deterministic: no clock, no bytes, and the same visits give the same answers. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace spillway {

using BlockId = std::uint32_t;  // Dense, from 0: arrays are as long as the greatest.
inline constexpr BlockId kNoBlock = ~BlockId{0};
inline constexpr std::uint32_t kNeverAgain = ~std::uint32_t{0};

// One request.
struct Visit {
  std::span<const BlockId> chain;  // Each block occurs at most once.
  double now_s = 0;                // Never decreases.
  std::uint64_t session = 0;
  // What the session waits for afterwards, as the client says: a small number, or 0 for no
  // statement.
  std::uint32_t state = 0;
  std::optional<bool> again;  // A hint: the chain will be used again, or not.
  bool done = false;          // A hint: the whole session is over.
  // Only for orders that know the future: the number of this visit, from 0, and the number of the
  // visit that uses each block next (kNeverAgain: none). Empty for all others.
  std::uint32_t number = 0;
  std::span<const std::uint32_t> next_use;
};

// The interface of all orders. Not thread-safe.
class BlockCache {
 public:
  virtual ~BlockCache() = default;

  virtual std::string_view name() const = 0;
  // Serves a request. Returns the length of the leading run that was in the cache.
  virtual std::size_t Serve(const Visit& visit) = 0;
  virtual bool Holds(BlockId block) const = 0;
  // Blocks in the cache; never more than the capacity.
  virtual std::size_t size() const = 0;
  virtual std::size_t capacity() const = 0;
  // Blocks inserted since the beginning.
  virtual std::uint64_t entered() const = 0;
};

// The set of blocks in the cache, for implementations of BlockCache.
class BlockSet {
 public:
  explicit BlockSet(std::size_t capacity) : capacity_(capacity) {}

  bool Holds(BlockId block) const { return block < there_.size() && there_[block] != 0; }
  bool full() const { return size_ >= capacity_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  std::uint64_t entered() const { return entered_; }

  // Makes the arrays large enough for all blocks of `chain`. True: they grew.
  bool Fit(std::span<const BlockId> chain);
  std::size_t blocks() const { return there_.size(); }
  // How many blocks at the beginning of `chain` are in the set.
  std::size_t LeadingRun(std::span<const BlockId> chain) const;
  void Add(BlockId block) {
    there_[block] = 1;
    ++size_;
    ++entered_;
  }
  void Remove(BlockId block) {
    there_[block] = 0;
    --size_;
  }

 private:
  const std::size_t capacity_;
  std::vector<std::uint8_t> there_;
  std::size_t size_ = 0;
  std::uint64_t entered_ = 0;
};

// Common part of orders that rank single blocks by their past uses.
class RankedBlockCache : public BlockCache {
 public:
  explicit RankedBlockCache(std::size_t capacity) : set_(capacity) {}
  std::size_t Serve(const Visit& visit) override;
  bool Holds(BlockId block) const override { return set_.Holds(block); }
  std::size_t size() const override { return set_.size(); }
  std::size_t capacity() const override { return set_.capacity(); }
  std::uint64_t entered() const override { return set_.entered(); }

 protected:
  // Makes the arrays hold `blocks` blocks.
  virtual void Grow(std::size_t blocks) = 0;
  // A request with the chain `visit.chain` begins.
  virtual void Begin(const Visit& visit) { static_cast<void>(visit); }
  // `block` is in the cache and must not be evicted until Used is called for it.
  virtual void Pin(BlockId block) = 0;
  // Removes and returns the block to evict so that `newcomer` can be inserted. kNoBlock: none can
  // be evicted.
  virtual BlockId Victim(BlockId newcomer) = 0;
  // The request is over for `block`. `entered`: it was inserted by this request. Called deepest
  // first.
  virtual void Used(BlockId block, bool entered) = 0;

 private:
  BlockSet set_;
};

}  // namespace spillway
