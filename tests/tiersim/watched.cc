// SPDX-License-Identifier: Apache-2.0
#include "tiersim/watched.h"

#include <fmt/format.h>

namespace spillway::tiersim {

Result<std::byte*> WatchedTier::Allocate(Bytes bytes) {
  Result<std::byte*> block = tier_->Allocate(bytes);
  if (!block) ++refusals_;
  return block;
}

void WatchedTier::Free(std::byte* block, Bytes bytes, bool backed) {
  if (bytes > 0) gone_(block);
  tier_->Free(block, bytes, backed);
}

Status WatchedTier::Write(std::byte* block, const Source& source) {
  Status written = tier_->Write(block, source);
  const Bytes bytes = source.bytes();
  if (!written || damage_ == 0 || bytes == 0) return written;
  const Bytes at = (damage_ >> 8) % bytes;
  const bool torn = (damage_ & 2) != 0;
  for (Bytes i = at; i < (torn ? bytes : at + 1); ++i) block[i] ^= std::byte{0x40};
  damage_ = 0;
  return {};
}

Result<BlobId> WatchedDisk::Allocate(const BlobFacts& facts) {
  Result<BlobId> id = disk_->Allocate(facts);
  if (!id) {
    ++refusals_;
    return id;
  }
  watch_.taken(facts.meta);
  if (!blobs_.emplace(*id, facts.meta).second) {
    verdict_->Fail(sim::kOneOwner, fmt::format("blob {} was given to two owners", *id));
  }
  return id;
}

bool WatchedDisk::Forget(BlobId id) {
  const auto found = blobs_.find(id);
  if (found == blobs_.end()) {
    verdict_->Fail(sim::kOneOwner, fmt::format("blob {} was given up that nobody holds", id));
    return false;
  }
  watch_.gone(id, found->second, true);
  blobs_.erase(found);
  return true;
}

void WatchedDisk::Free(BlobId id) {
  if (Forget(id)) disk_->Free(id);
}

void WatchedDisk::Quarantine(BlobId id) {
  if (Forget(id)) disk_->Quarantine(id);
}

void WatchedDisk::Tombstone(BlobId id) {
  const auto found = blobs_.find(id);
  if (found == blobs_.end()) {
    return verdict_->Fail(sim::kOneOwner, fmt::format("blob {} was revoked that nobody holds", id));
  }
  watch_.gone(id, found->second, false);
  disk_->Tombstone(id);
}

Status WatchedDisk::Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
                         const std::atomic<bool>* cancelled) {
  ++reads_;
  if (!blobs_.contains(id)) {
    verdict_->Fail(sim::kOneOwner, fmt::format("blob {} was read that nobody holds", id));
  }
  return disk_->Read(id, expected, to, seal, cancelled);
}

void WatchedDisk::StartLoading(std::function<void(std::vector<Found>, bool done)> found) {
  disk_->StartLoading([this, found = std::move(found)](std::vector<Found> batch, bool done) {
    for (const Found& blob : batch) blobs_.emplace(blob.id, blob.facts.meta);
    found(std::move(batch), done);
  });
}

}  // namespace spillway::tiersim
