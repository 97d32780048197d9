// SPDX-License-Identifier: Apache-2.0
// LRU-2: ranks by the use before the last one. Blocks used only once are evicted first, oldest
// first. Uses are remembered without limit.
#include <set>
#include <utility>

#include "replay/order/block_list.h"
#include "replay/order/orders.h"

namespace spillway {
namespace {

class Lru2 final : public RankedBlockCache {
 public:
  using RankedBlockCache::RankedBlockCache;
  std::string_view name() const override { return "lru-2"; }

 protected:
  void Grow(std::size_t blocks) override {
    links_.Grow(blocks);
    uses_.resize(blocks);
  }
  void Pin(BlockId block) override { TakeOut(block); }

  BlockId Victim(BlockId) override {
    BlockId block = once_.first;
    if (block == kNoBlock && !twice_.empty()) block = twice_.begin()->second;
    if (block != kNoBlock) TakeOut(block);
    return block;
  }

  void Used(BlockId block, bool) override {
    uses_[block] = {uses_[block].last, ++now_};
    if (uses_[block].before == 0) {
      links_.PushLast(&once_, block);
    } else {
      twice_.emplace(uses_[block].before, block);
    }
  }

 private:
  struct Uses {
    std::uint64_t before = 0;
    std::uint64_t last = 0;
  };

  void TakeOut(BlockId block) {
    if (uses_[block].before == 0) {
      links_.Remove(&once_, block);
    } else {
      twice_.erase({uses_[block].before, block});
    }
  }

  BlockLinks links_;
  BlockLinks::List once_;
  std::set<std::pair<std::uint64_t, BlockId>> twice_;
  std::vector<Uses> uses_;
  std::uint64_t now_ = 0;
};

}  // namespace

std::unique_ptr<BlockCache> MakeLru2(std::size_t capacity) {
  return std::make_unique<Lru2>(capacity);
}

}  // namespace spillway
