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
  const auto [at, fresh] = blocks_.emplace(*block, bytes);
  const bool overlaps =
      !fresh || (std::next(at) != blocks_.end() && std::next(at)->first < *block + bytes) ||
      (at != blocks_.begin() && std::prev(at)->first + std::prev(at)->second > *block);
  if (overlaps)
    verdict_->Fail(kOneOwner, fmt::format("a block of {} bytes was given to two owners", bytes));
  return block;
}

void SimTier::Free(std::byte* block, Bytes bytes) {
  if (bytes > 0) {
    const auto found = blocks_.find(block);
    if (found == blocks_.end() || found->second != bytes) {
      verdict_->Fail(kOneOwner,
                     fmt::format("a block of {} bytes was freed that nobody holds", bytes));
      return;  // The tier would stop the program.
    }
    blocks_.erase(found);
  }
  tier_->Free(block, bytes);
}

void SimTier::CheckMemory() const {
  if (device_ == nullptr) return;
  const Bytes chunk = device_->chunk_bytes();
  Bytes needed = 0;
  std::uintptr_t counted = 0;  // Chunks below this one.
  for (const auto& [block, bytes] : blocks_) {
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
}

}  // namespace spillway::sim
