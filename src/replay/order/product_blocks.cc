// SPDX-License-Identifier: Apache-2.0
// The product's own orders over blocks: the code that ranks entries in the cache, at PRESSURE, with
// blocks in place of entries.
#include <chrono>

#include "policy/order.h"
#include "policy/ranking.h"
#include "replay/order/orders.h"

namespace spillway {
namespace {

constexpr RankMark kIdleMark = 1;
constexpr RankMark kOrderMark = 2;

class ProductBlocks final : public BlockCache, private FactReader {
 public:
  ProductBlocks(bool documented, std::size_t capacity, std::uint32_t block_tokens)
      : name_(documented ? "documented" : "hybrid"),
        block_tokens_(block_tokens),
        set_(capacity),
        idle_(KeyByLastUse, this, kIdleMark) {
    const Ranked ranked{this, &idle_, kOrderMark};
    order_ = documented ? MakeDocumentedOrder(ranked) : MakeHybridOrder(ranked);
  }

  std::string_view name() const override { return name_; }
  bool Holds(BlockId block) const override { return set_.Holds(block); }
  std::size_t size() const override { return set_.size(); }
  std::size_t capacity() const override { return set_.capacity(); }
  std::uint64_t entered() const override { return set_.entered(); }

  std::size_t Serve(const Visit& visit) override {
    if (set_.Fit(visit.chain)) blocks_.resize(set_.blocks());
    const std::size_t run = set_.LeadingRun(visit.chain);
    ++request_;
    const TimePoint now{
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(visit.now_s))};
    for (const BlockId block : visit.chain) {
      blocks_[block].pinned_by = request_;
      if (set_.Holds(block)) Use(block, now);
    }
    for (std::size_t i = run; i < visit.chain.size(); ++i) {
      if (set_.full() && !MakeRoom()) break;
      Enter(visit.chain[i], i == 0 ? kNoBlock : visit.chain[i - 1], now);
    }
    for (const BlockId block : aside_) Rank(block);
    aside_.clear();
    for (const BlockId block : visit.chain) {
      if (set_.Holds(block)) Rank(block);
    }
    return run;
  }

 private:
  struct Block {
    Facts facts;
    BlockId parent = kNoBlock;
    std::uint64_t pinned_by = 0;
    RankMarks marks = 0;
  };

  bool Read(EntryId id, Facts* facts) const override {
    if (!set_.Holds(id.slot)) return false;
    *facts = blocks_[id.slot].facts;
    return true;
  }
  RankMarks* Marks(EntryId id) const override {
    return set_.Holds(id.slot) ? const_cast<RankMarks*>(&blocks_[id.slot].marks) : nullptr;
  }

  void Use(BlockId block, TimePoint now) {
    ++blocks_[block].facts.access_count;
    blocks_[block].facts.last_use = now;
  }

  void Enter(BlockId id, BlockId parent, TimePoint now) {
    Block& block = blocks_[id];
    block.facts = {.tokens = block_tokens_,
                   .bytes = block_tokens_,
                   .access_count = 1,
                   .last_use = now,
                   .place = ++places_,
                   .children = 0};
    block.parent = parent;
    block.marks = 0;
    if (parent != kNoBlock) ++blocks_[parent].facts.children;
    set_.Add(id);
  }

  bool MakeRoom() {
    for (;;) {
      const std::optional<EntryId> next = order_->Next(Level::kPressure);
      if (!next) return false;
      const BlockId id = next->slot;
      if (blocks_[id].pinned_by == request_) {
        aside_.push_back(id);
        continue;
      }
      order_->OnRemove(*next);
      idle_.Left(*next);
      set_.Remove(id);
      const BlockId parent = blocks_[id].parent;
      if (parent != kNoBlock && --blocks_[parent].facts.children == 0) Rank(parent);
      return true;
    }
  }

  // Adds a leaf to the order. If there is no memory for it, it is not evicted.
  void Rank(BlockId id) {
    const Block& block = blocks_[id];
    if (block.facts.children > 0) return;
    static_cast<void>(order_->OnInsert({id, 0}, block.facts));
  }

  const std::string_view name_;
  const std::uint32_t block_tokens_;
  BlockSet set_;
  std::vector<Block> blocks_;
  std::vector<BlockId> aside_;  // Pinned blocks that the order returned; added again afterwards.
  Ranking idle_;
  std::unique_ptr<Order> order_;
  std::uint64_t request_ = 0;
  std::uint64_t places_ = 0;
};

}  // namespace

std::unique_ptr<BlockCache> MakeProductBlocks(std::string_view name, std::size_t capacity,
                                              std::uint32_t block_tokens) {
  return std::make_unique<ProductBlocks>(name == "documented", capacity, block_tokens);
}

}  // namespace spillway
