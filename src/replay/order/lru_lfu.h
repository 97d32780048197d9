// SPDX-License-Identifier: Apache-2.0
// The two simplest orders: by last use, and by number of uses.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "replay/order/block_cache.h"
#include "replay/order/block_list.h"

namespace spillway {

// Evicts the least recently used block. Implemented directly instead of by ranking, for speed.
class LruBlocks final : public BlockCache {
 public:
  explicit LruBlocks(std::size_t capacity) : set_(capacity) {}
  std::string_view name() const override { return "lru"; }
  std::size_t Serve(const Visit& visit) override;
  bool Holds(BlockId block) const override { return set_.Holds(block); }
  std::size_t size() const override { return set_.size(); }
  std::size_t capacity() const override { return set_.capacity(); }
  std::uint64_t entered() const override { return set_.entered(); }

 private:
  BlockSet set_;
  BlockLinks links_;
  BlockLinks::List list_;  // Oldest first.
};

// Evicts the least often used block; of equals, the least recently used. Uses are counted since the
// block was first seen, also while it is not in the cache.
class LfuBlocks final : public RankedBlockCache {
 public:
  using RankedBlockCache::RankedBlockCache;
  std::string_view name() const override { return "lfu"; }

 protected:
  void Grow(std::size_t blocks) override;
  void Pin(BlockId block) override;
  BlockId Victim(BlockId newcomer) override;
  void Used(BlockId block, bool entered) override;

 private:
  BlockLinks links_;
  std::vector<std::uint32_t> uses_;
  std::map<std::uint32_t, BlockLinks::List> by_uses_;
};

}  // namespace spillway
