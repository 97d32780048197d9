// SPDX-License-Identifier: Apache-2.0
// S3-FIFO: a small queue for new blocks (a tenth of the capacity), a main queue for blocks used
// again while in the small one, and a memory of blocks evicted from the small one.
#include <algorithm>

#include "replay/order/block_list.h"
#include "replay/order/orders.h"

namespace spillway {
namespace {

constexpr std::uint8_t kUsesMax = 3;

class S3Fifo final : public RankedBlockCache {
 public:
  using RankedBlockCache::RankedBlockCache;
  std::string_view name() const override { return "s3-fifo"; }

 protected:
  void Grow(std::size_t blocks) override {
    links_.Grow(blocks);
    blocks_.resize(blocks);
  }
  void Begin(const Visit&) override { ++request_; }
  // A pinned block keeps its place in the queue; scans skip it.
  void Pin(BlockId block) override { blocks_[block].pinned_by = request_; }

  BlockId Victim(BlockId) override {
    const std::size_t small_room = std::max<std::size_t>(1, capacity() / 10);
    BlockId found = kNoBlock;
    if (lists_[kSmall].size >= small_room) found = ScanSmall();
    if (found == kNoBlock) found = ScanMain();
    if (found == kNoBlock) found = ScanSmall();
    return found;
  }

  void Used(BlockId block, bool entered) override {
    Block& one = blocks_[block];
    if (entered) {
      Move(block, one.where == kGone ? kMain : kSmall);
      one.uses = 0;
    } else {
      one.uses = std::min<std::uint8_t>(kUsesMax, static_cast<std::uint8_t>(one.uses + 1));
    }
  }

 private:
  enum Where : std::uint8_t { kNowhere, kSmall, kMain, kGone };
  struct Block {
    std::uint64_t pinned_by = 0;
    Where where = kNowhere;
    std::uint8_t uses = 0;
  };

  // Scans the queue once. kNoBlock: all blocks are pinned or moved on.
  BlockId ScanSmall() {
    for (std::size_t looks = lists_[kSmall].size; looks > 0; --looks) {
      if (const BlockId found = LookAtSmall(); found != kNoBlock) return found;
    }
    return kNoBlock;
  }
  // Scans as often as a block can have been used, plus once.
  BlockId ScanMain() {
    for (std::size_t looks = (kUsesMax + 1) * lists_[kMain].size; looks > 0; --looks) {
      if (const BlockId found = LookAtMain(); found != kNoBlock) return found;
    }
    return kNoBlock;
  }

  BlockId LookAtSmall() {
    const BlockId block = lists_[kSmall].first;
    if (block == kNoBlock) return kNoBlock;
    Block& one = blocks_[block];
    if (one.pinned_by == request_) {
      Move(block, kSmall);
      return kNoBlock;
    }
    if (one.uses > 0) {
      one.uses = 0;
      Move(block, kMain);
      return kNoBlock;
    }
    Move(block, kGone);
    while (lists_[kGone].size > capacity()) Move(lists_[kGone].first, kNowhere);
    return block;
  }

  BlockId LookAtMain() {
    const BlockId block = lists_[kMain].first;
    if (block == kNoBlock) return kNoBlock;
    Block& one = blocks_[block];
    const bool pinned = one.pinned_by == request_;
    if (pinned || one.uses > 0) {
      if (!pinned) --one.uses;
      Move(block, kMain);
      return kNoBlock;
    }
    Move(block, kNowhere);
    return block;
  }

  void Move(BlockId block, Where to) {
    Block& one = blocks_[block];
    if (one.where != kNowhere) links_.Remove(&lists_[one.where], block);
    one.where = to;
    if (to != kNowhere) links_.PushLast(&lists_[to], block);
  }

  BlockLinks links_;
  BlockLinks::List lists_[4];
  std::vector<Block> blocks_;
  std::uint64_t request_ = 0;
};

}  // namespace

std::unique_ptr<BlockCache> MakeS3Fifo(std::size_t capacity) {
  return std::make_unique<S3Fifo>(capacity);
}

}  // namespace spillway
