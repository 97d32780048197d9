// The two orders the guard watches beside the score, as caches without bytes:
// last use, and how often. `spillway replay` offers the very same ones.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "policy/block_cache.h"
#include "policy/block_list.h"

namespace spillway {

// Least recently used first. Written out rather than ranked, for speed.
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

// Least often used first, counted since it was first seen and also while it was
// away; of equals the least recently used.
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
