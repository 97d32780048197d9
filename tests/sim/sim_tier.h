// SPDX-License-Identifier: Apache-2.0
// A tier under observation: forwards all calls, keeps its own list of blocks, and can
// be told to refuse.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "device/testing/fake_device.h"
#include "sim/verdict.h"
#include "tier/tier.h"

namespace spillway::sim {

class SimTier final : public Tier {
 public:
  // `device`: the device under it, if any.
  SimTier(std::unique_ptr<Tier> tier, testing::FakeDevice* device, Verdict* verdict);

  std::string_view name() const override { return tier_->name(); }
  Bytes capacity() const override { return tier_->capacity(); }
  Result<std::byte*> Allocate(Bytes bytes) override;
  void Free(std::byte* block, Bytes bytes, bool backed = false) override;
  bool TakesInPlaceOf(const std::byte* block, Bytes bytes, Bytes instead) override;
  void SetClean(std::byte* block, Bytes bytes, bool backed) override;
  Bytes allocated() const override { return tier_->allocated(); }
  void ReleaseSpare() override { tier_->ReleaseSpare(); }
  Bytes held() const override { return tier_->held(); }
  Bytes clean() const override { return tier_->clean(); }
  Status Write(std::byte* block, const Source& source) override {
    return tier_->Write(block, source);
  }
  Status Read(const std::byte* block, Bytes bytes, const Sink& sink) const override {
    return tier_->Read(block, bytes, sink);
  }

  // The next `n` allocations are refused.
  void RefuseNext(std::uint64_t n) { refuse_ = n; }
  const std::uint64_t* refusals() const { return &refusals_; }

  // Checks that exactly the memory that blocks need is mapped, and that the clean bytes
  // are counted right.
  void CheckMemory() const;

 private:
  struct Block {
    Bytes bytes = 0;
    bool backed = false;
  };

  // Null: there is no such block, and the verdict is a failure.
  Block* Find(std::byte* block, Bytes bytes, bool backed, std::string_view done);
  Bytes CleanBytes() const;

  const std::unique_ptr<Tier> tier_;
  testing::FakeDevice* const device_;
  Verdict* const verdict_;
  std::map<std::byte*, Block> blocks_;  // Without the empty ones.
  std::uint64_t refuse_ = 0;
  std::uint64_t refusals_ = 0;
};

}  // namespace spillway::sim
