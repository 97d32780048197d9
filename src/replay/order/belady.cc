// SPDX-License-Identifier: Apache-2.0
// Belady's order: evicts the block with the farthest next use, deeper blocks first. It must know
// the future; no order that does not can be better on blocks.
//
// Blocks of a request that are next used by the same later request form a run: they wait together
// and return together.
#include <queue>
#include <tuple>

#include "replay/order/orders.h"

namespace spillway {
namespace {

class Belady final : public BlockCache {
 public:
  explicit Belady(std::size_t capacity) : set_(capacity) {}
  std::string_view name() const override { return "belady"; }
  bool Holds(BlockId block) const override { return set_.Holds(block); }
  std::size_t size() const override { return set_.size(); }
  std::size_t capacity() const override { return set_.capacity(); }
  std::uint64_t entered() const override { return set_.entered(); }

  std::size_t Serve(const Visit& visit) override {
    const auto chain = visit.chain;
    if (set_.Fit(chain)) parents_.resize(set_.blocks(), kNoBlock);
    const std::size_t run = set_.LeadingRun(chain);
    std::size_t there = run;
    for (; there < chain.size(); ++there) {
      if (set_.full() && !MakeRoom(visit.number)) break;
      set_.Add(chain[there]);
      parents_[chain[there]] = there == 0 ? kNoBlock : chain[there - 1];
    }
    for (std::size_t from = 0; from < there;) {
      std::size_t to = from + 1;
      while (to < there && visit.next_use[to] == visit.next_use[from]) ++to;
      runs_.push({visit.next_use[from], to, chain[to - 1], to - from});
      from = to;
    }
    return run;
  }

 private:
  struct Run {
    std::uint32_t next_use;
    std::size_t depth;
    BlockId deepest;
    std::size_t count;
    bool operator<(const Run& other) const {
      return std::tie(next_use, depth) < std::tie(other.next_use, other.depth);
    }
  };

  // A run whose next use is not in the future is pinned or has been pushed again with a new next
  // use.
  bool MakeRoom(std::uint32_t number) {
    while (!runs_.empty() && runs_.top().count == 0) runs_.pop();
    if (runs_.empty() || runs_.top().next_use <= number) return false;
    Run last = runs_.top();
    runs_.pop();
    set_.Remove(last.deepest);
    last.deepest = parents_[last.deepest];
    --last.depth;
    if (--last.count > 0) runs_.push(last);
    return true;
  }

  BlockSet set_;
  std::vector<BlockId> parents_;
  std::priority_queue<Run> runs_;
};

}  // namespace

std::unique_ptr<BlockCache> MakeBelady(std::size_t capacity) {
  return std::make_unique<Belady>(capacity);
}

}  // namespace spillway
