// SPDX-License-Identifier: Apache-2.0
// W-TinyLFU: new blocks enter a window of a hundredth of the capacity. To move on to the main part,
// a block must have been used more often of late than the block it would replace. Counts go up to
// 15 and are halved after ten times as many uses as the capacity. They are exact; the original uses
// a sketch.
#include <algorithm>

#include "replay/order/block_list.h"
#include "replay/order/orders.h"

namespace spillway {
namespace {

constexpr std::uint8_t kCountMax = 15;

class TinyLfu final : public RankedBlockCache {
 public:
  explicit TinyLfu(std::size_t capacity)
      : RankedBlockCache(capacity),
        window_room_(std::max<std::size_t>(1, capacity / 100)),
        protected_room_((capacity - std::min(capacity, window_room_)) * 4 / 5) {}
  std::string_view name() const override { return "w-tinylfu"; }

 protected:
  void Grow(std::size_t blocks) override {
    links_.Grow(blocks);
    where_.resize(blocks);
    was_.resize(blocks);
    counts_.resize(blocks);
  }
  void Pin(BlockId block) override {
    was_[block] = where_[block];
    Move(block, kNowhere);
  }

  BlockId Victim(BlockId) override {
    const Where main = lists_[kProbation].empty() ? kProtected : kProbation;
    const BlockId settled = lists_[main].first;
    const BlockId candidate = lists_[kWindow].first;
    BlockId victim = settled;
    if (settled == kNoBlock) {
      victim = candidate;
    } else if (candidate != kNoBlock && lists_[kWindow].size >= window_room_) {
      if (counts_[candidate] > counts_[settled]) {
        Move(candidate, kProbation);
      } else {
        victim = candidate;
      }
    }
    if (victim != kNoBlock) Move(victim, kNowhere);
    return victim;
  }

  void Used(BlockId block, bool entered) override {
    counts_[block] =
        std::min<std::uint8_t>(kCountMax, static_cast<std::uint8_t>(counts_[block] + 1));
    if (++uses_ >= 10 * capacity()) Halve();
    if (entered || was_[block] == kWindow) {
      Move(block, kWindow);
    } else {
      Move(block, kProtected);
      while (lists_[kProtected].size > protected_room_) Move(lists_[kProtected].first, kProbation);
    }
    // While there is room, no block needs to be better than another.
    if (size() >= capacity()) return;
    while (lists_[kWindow].size > window_room_) Move(lists_[kWindow].first, kProbation);
  }

 private:
  enum Where : std::uint8_t { kNowhere, kWindow, kProbation, kProtected };

  void Halve() {
    for (std::uint8_t& count : counts_) count = static_cast<std::uint8_t>(count / 2);
    uses_ = 0;
  }
  void Move(BlockId block, Where to) {
    if (where_[block] != kNowhere) links_.Remove(&lists_[where_[block]], block);
    where_[block] = to;
    if (to != kNowhere) links_.PushLast(&lists_[to], block);
  }

  const std::size_t window_room_;
  const std::size_t protected_room_;
  BlockLinks links_;
  BlockLinks::List lists_[4];
  std::vector<Where> where_;
  std::vector<Where> was_;
  std::vector<std::uint8_t> counts_;
  std::size_t uses_ = 0;
};

}  // namespace

std::unique_ptr<BlockCache> MakeTinyLfu(std::size_t capacity) {
  return std::make_unique<TinyLfu>(capacity);
}

}  // namespace spillway
