// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_tier.h"

#include <fmt/format.h>

namespace spillway::sim {

SimTier::SimTier(std::unique_ptr<Tier> tier, testing::FakeDevice* device, Verdict* verdict)
    : tier_(std::move(tier)), device_(device), verdict_(verdict) {}

Result<std::byte*> SimTier::Allocate(Bytes bytes) {
  if (refuse_ > 0) {
    --refuse_;
    ++refusals_;
    return Error{Code::kNoMemory, "the simulated tier was told to refuse"};
  }
  Result<std::byte*> block = tier_->Allocate(bytes);
  if (!block) {
    ++refusals_;
    return block;
  }
  if (bytes == 0) return block;
  const auto [at, fresh] = blocks_.emplace(*block, Block{bytes, false});
  const bool overlaps =
      !fresh || (std::next(at) != blocks_.end() && std::next(at)->first < *block + bytes) ||
      (at != blocks_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > *block);
  if (overlaps)
    verdict_->Fail(kOneOwner, fmt::format("a block of {} bytes was given to two owners", bytes));
  return block;
}

// The last thing asked before the block is freed: what was told to refuse refuses now.
bool SimTier::TakesInPlaceOf(const std::byte* block, Bytes bytes, Bytes instead) {
  const bool takes = refuse_ == 0 && tier_->TakesInPlaceOf(block, bytes, instead);
  if (refuse_ > 0) --refuse_;
  if (!takes) ++refusals_;
  return takes;
}

void SimTier::Free(std::byte* block, Bytes bytes, bool backed) {
  if (bytes > 0) {
    if (Find(block, bytes, backed, "freed") == nullptr) return;
    blocks_.erase(block);
  }
  tier_->Free(block, bytes, backed);
}

void SimTier::SetClean(std::byte* block, Bytes bytes, bool backed) {
  if (bytes > 0) {
    Block* const found = Find(block, bytes, !backed, backed ? "backed" : "no longer backed");
    if (found == nullptr) return;
    found->backed = backed;
  }
  tier_->SetClean(block, bytes, backed);
}

// Otherwise the tier would stop the program, or continue with wrong numbers.
SimTier::Block* SimTier::Find(std::byte* block, Bytes bytes, bool backed, std::string_view done) {
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || found->second.bytes != bytes) {
    verdict_->Fail(kOneOwner,
                   fmt::format("a block of {} bytes was {} that nobody holds", bytes, done));
    return nullptr;
  }
  if (found->second.backed != backed) {
    verdict_->Fail(kAccounting, fmt::format("a block of {} bytes was {} that was {}", bytes, done,
                                            backed ? "not backed" : "backed"));
    return nullptr;
  }
  return &found->second;
}

void SimTier::CheckMemory() const {
  if (device_ == nullptr) return;
  const Bytes chunk = device_->chunk_bytes();
  Bytes needed = 0;
  std::uintptr_t counted = 0;  // Chunks below this one.
  for (const auto& [block, held] : blocks_) {
    const Bytes bytes = held.bytes;
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(block) / chunk;
    const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(block) + bytes - 1) / chunk + 1;
    needed += (end - std::max(first, std::min(counted, end))) * chunk;
    counted = end;
    if (!device_->IsMapped(block, bytes)) {
      return verdict_->Fail(
          kOneOwner, fmt::format("a block of {} bytes stands on memory that is not there", bytes));
    }
  }
  const Bytes spare = device_->shared() ? 0 : chunk;
  const Bytes mapped = device_->counts().mapped;
  if (mapped < needed || mapped > needed + spare) {
    verdict_->Fail(kOneOwner, fmt::format("{} bytes are mapped, blocks need {}", mapped, needed));
  }
  if (tier_->clean() != CleanBytes()) {
    verdict_->Fail(kAccounting,
                   fmt::format("{} bytes count as clean, {} are", tier_->clean(), CleanBytes()));
  }
}

Bytes SimTier::CleanBytes() const {
  const Bytes chunk = device_->chunk_bytes();
  Bytes clean = 0;
  std::uintptr_t last = 0;  // The last chunk looked at; 0: none.
  bool last_clean = false;
  for (const auto& [block, held] : blocks_) {
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    for (std::uintptr_t c = at / chunk; c <= (at + held.bytes - 1) / chunk; ++c) {
      if (c != last) {
        clean += last_clean ? chunk : 0;
        last = c;
        last_clean = true;
      }
      last_clean = last_clean && held.backed;
    }
  }
  return clean + (last_clean ? chunk : 0);
}

}  // namespace spillway::sim
