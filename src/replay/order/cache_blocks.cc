// SPDX-License-Identifier: Apache-2.0
// The cache itself over blocks: engine, order and learned score as in the product, with one tier
// that only counts bytes and a manual clock. Each request does what a client would do: it leases
// the leading run, sets the missing blocks with their parents, and gives its hints for the end of
// its chain.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cache/core.h"
#include "replay/order/orders.h"
#include "spillway/testing.h"
#include "tier/virtual_tier.h"

namespace spillway {
namespace {

constexpr Bytes kBlockBytes = kMiB;

class CacheBlocks final : public BlockCache {
 public:
  CacheBlocks(std::string_view policy, std::size_t capacity, std::uint32_t block_tokens,
              const std::shared_ptr<testing::ManualClock>& clock, std::shared_ptr<Core> core)
      : name_(policy),
        capacity_(capacity),
        block_tokens_(block_tokens),
        clock_(clock),
        cache_(Core::Wrap(std::move(core))) {}

  std::string_view name() const override { return name_; }
  bool Holds(BlockId block) const override { return cache_->Contains(KeyOf(block)); }
  std::size_t size() const override { return cache_->size(); }
  std::size_t capacity() const override { return capacity_; }
  std::uint64_t entered() const override { return entered_; }

  std::size_t Serve(const Visit& visit) override {
    clock_->Set(TimePoint(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(visit.now_s))));
    keys_.clear();
    for (const BlockId& block : visit.chain) keys_.push_back(KeyOf(block));
    if (keys_.empty()) return 0;
    const GetOptions said = WhatIsSaid(visit);
    const bool all = cache_->Match(keys_) == keys_.size();
    // The leases pin these blocks until the request is over.
    const std::vector<Lease> run = all ? cache_->GetChain(keys_, said) : cache_->GetChain(keys_);
    // At most as many blocks as fit at once: setting more would evict the blocks they continue.
    const std::size_t most = std::min(keys_.size(), capacity_);
    for (std::size_t i = run.size(); i < most; ++i) {
      if (!Enter(i, said)) break;
    }
    return run.size();
  }

 private:
  // The bytes of the number itself.
  static std::string_view KeyOf(const BlockId& block) {
    return {reinterpret_cast<const char*>(&block), sizeof(block)};
  }

  GetOptions WhatIsSaid(const Visit& visit) {
    GetOptions said;
    if (visit.again) said.hint = *visit.again ? Hint::kAgain : Hint::kDone;
    if (visit.done) said.hint = Hint::kDone;
    if (visit.state != 0) said.step = step_ = fmt::format("state{}", visit.state);
    return said;
  }

  // False: there is no room besides what the request itself uses.
  bool Enter(std::size_t at, const GetOptions& said) {
    static constexpr char kByte = 0;  // The tier stores no bytes, so one is enough.
    SetOptions set;
    set.tokens = block_tokens_;
    if (at > 0) set.parent = keys_[at - 1];
    if (at + 1 == keys_.size()) {
      set.hint = said.hint;
      set.step = said.step;
    }
    if (!cache_->Set(keys_[at], Source(&kByte, kBlockBytes), set)) return false;
    ++entered_;
    return true;
  }

  const std::string name_;
  const std::size_t capacity_;
  const std::uint32_t block_tokens_;
  const std::shared_ptr<testing::ManualClock> clock_;
  const std::unique_ptr<Cache> cache_;
  std::vector<std::string_view> keys_;
  std::string step_;
  std::uint64_t entered_ = 0;
};

}  // namespace

Result<std::unique_ptr<BlockCache>> MakeCacheBlocks(std::string_view policy, std::size_t capacity,
                                                    std::uint32_t block_tokens) {
  const auto clock = std::make_shared<testing::ManualClock>();
  Options options;
  options.clock = clock;
  options.policy = policy;
  options.entries_max = std::uint64_t{capacity} + 1;
  options.ttl.reset();
  options.token_budget.reset();
  Core::Parts parts;
  parts.total = capacity * kBlockBytes;
  parts.tiers.device = std::make_unique<VirtualTier>(parts.total);
  Result<std::shared_ptr<Core>> core = Core::Open(options, std::move(parts));
  if (!core) return core.error();
  return std::unique_ptr<BlockCache>(
      std::make_unique<CacheBlocks>(policy, capacity, block_tokens, clock, std::move(*core)));
}

}  // namespace spillway
