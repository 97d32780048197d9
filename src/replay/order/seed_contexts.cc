// SPDX-License-Identifier: Apache-2.0
// The rules of the small program that Spillway grew from, with the same capacity in bytes: a
// session's whole context is one entry, nothing is shared, and when there is no room the quarter of
// the entries with the most tokens per access is evicted.
#include <algorithm>
#include <unordered_map>

#include "replay/order/orders.h"

namespace spillway {
namespace {

class SeedContexts final : public BlockCache {
 public:
  explicit SeedContexts(std::size_t capacity, std::uint32_t block_tokens)
      : capacity_(capacity), block_tokens_(block_tokens) {}
  std::string_view name() const override { return "seed"; }
  bool Holds(BlockId block) const override { return block < copies_.size() && copies_[block] > 0; }
  std::size_t size() const override { return size_; }
  std::size_t capacity() const override { return capacity_; }
  std::uint64_t entered() const override { return entered_; }

  std::size_t Serve(const Visit& visit) override {
    const auto chain = visit.chain;
    std::size_t run = 0;
    std::uint64_t uses = 1;
    if (const auto found = contexts_.find(visit.session); found != contexts_.end()) {
      const Context& context = found->second;
      while (run < chain.size() && run < context.chain.size() && context.chain[run] == chain[run]) {
        ++run;
      }
      uses = context.uses + 1;
      Drop(found);
    }
    if (chain.size() > capacity_ || chain.empty()) return run;
    while (size_ + chain.size() > capacity_) DropQuarter();
    Keep(visit, uses);
    entered_ += chain.size() - run;
    return run;
  }

 private:
  struct Context {
    std::vector<BlockId> chain;
    std::uint64_t uses;
    std::uint64_t place;
  };
  using Contexts = std::unordered_map<std::uint64_t, Context>;

  void Keep(const Visit& visit, std::uint64_t uses) {
    for (const BlockId block : visit.chain) {
      if (block >= copies_.size()) copies_.resize(std::size_t{block} * 2 + 1);
      ++copies_[block];
    }
    size_ += visit.chain.size();
    contexts_.emplace(visit.session,
                      Context{{visit.chain.begin(), visit.chain.end()}, uses, ++places_});
  }

  void Drop(Contexts::iterator at) {
    for (const BlockId block : at->second.chain) --copies_[block];
    size_ -= at->second.chain.size();
    contexts_.erase(at);
  }

  void DropQuarter() {
    std::vector<Contexts::iterator> all;
    all.reserve(contexts_.size());
    for (auto it = contexts_.begin(); it != contexts_.end(); ++it) all.push_back(it);
    const auto weight = [this](const Context& context) {
      return static_cast<double>(context.chain.size() * block_tokens_) /
             static_cast<double>(context.uses);
    };
    std::ranges::sort(all, [&](const auto& a, const auto& b) {
      const double x = weight(a->second);
      const double y = weight(b->second);
      return x != y ? x > y : a->second.place < b->second.place;
    });
    const std::size_t count = std::max<std::size_t>(1, all.size() / 4);
    for (std::size_t i = 0; i < count; ++i) Drop(all[i]);
  }

  const std::size_t capacity_;
  const std::uint32_t block_tokens_;
  Contexts contexts_;
  std::vector<std::uint32_t> copies_;
  std::size_t size_ = 0;
  std::uint64_t entered_ = 0;
  std::uint64_t places_ = 0;
};

}  // namespace

std::unique_ptr<BlockCache> MakeSeedContexts(std::size_t capacity, std::uint32_t block_tokens) {
  return std::make_unique<SeedContexts>(capacity, block_tokens);
}

}  // namespace spillway
