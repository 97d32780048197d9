// SPDX-License-Identifier: Apache-2.0
// ARC: one list of blocks used once and one of blocks used again. Each remembers blocks it evicted;
// a hit on these moves the border between the two lists.
#include <algorithm>

#include "replay/order/block_list.h"
#include "replay/order/orders.h"

namespace spillway {
namespace {

class Arc final : public RankedBlockCache {
 public:
  using RankedBlockCache::RankedBlockCache;
  std::string_view name() const override { return "arc"; }

 protected:
  void Grow(std::size_t blocks) override {
    links_.Grow(blocks);
    where_.resize(blocks);
  }
  void Pin(BlockId block) override { Move(block, kNowhere); }

  BlockId Victim(BlockId newcomer) override {
    const bool was_often = where_[newcomer] == kOftenGone;
    Adapt(where_[newcomer]);
    const auto once = static_cast<double>(lists_[kOnce].size);
    const bool from_once = once > 0 && (once > target_ || (was_often && once >= target_));
    Where from = from_once ? kOnce : kOften;
    if (lists_[from].empty()) from = from == kOnce ? kOften : kOnce;
    const BlockId block = lists_[from].first;
    if (block == kNoBlock) return kNoBlock;
    Move(block, from == kOnce ? kOnceGone : kOftenGone);
    Trim(newcomer);
    return block;
  }

  void Used(BlockId block, bool entered) override {
    const bool fresh = entered && where_[block] == kNowhere;
    Move(block, fresh ? kOnce : kOften);
  }

 private:
  enum Where : std::uint8_t { kNowhere, kOnce, kOften, kOnceGone, kOftenGone };

  void Adapt(Where newcomer) {
    const auto once = static_cast<double>(std::max<std::size_t>(1, lists_[kOnceGone].size));
    const auto often = static_cast<double>(std::max<std::size_t>(1, lists_[kOftenGone].size));
    if (newcomer == kOnceGone) {
      target_ = std::min(static_cast<double>(capacity()), target_ + std::max(1.0, often / once));
    } else if (newcomer == kOftenGone) {
      target_ = std::max(0.0, target_ - std::max(1.0, once / often));
    }
  }

  // Remembers at most as many blocks as the cache holds; never the one being inserted.
  void Trim(BlockId newcomer) {
    for (const Where gone : {kOnceGone, kOftenGone}) {
      while (lists_[gone].size > capacity()) {
        BlockId oldest = lists_[gone].first;
        if (oldest == newcomer) oldest = links_.after(oldest);
        if (oldest == kNoBlock) break;
        Move(oldest, kNowhere);
      }
    }
  }

  void Move(BlockId block, Where to) {
    if (where_[block] != kNowhere) links_.Remove(&lists_[where_[block]], block);
    where_[block] = to;
    if (to != kNowhere) links_.PushLast(&lists_[to], block);
  }

  BlockLinks links_;
  BlockLinks::List lists_[5];
  std::vector<Where> where_;
  double target_ = 0;  // The target size of the list of blocks used once.
};

}  // namespace

std::unique_ptr<BlockCache> MakeArc(std::size_t capacity) {
  return std::make_unique<Arc>(capacity);
}

}  // namespace spillway
