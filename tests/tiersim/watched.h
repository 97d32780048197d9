// SPDX-License-Identifier: Apache-2.0
// Tiers under observation: which entry holds which bytes, and whether anything is freed
// that a transfer still reads or writes. Faults happen below them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/host_copy.h"
#include "sim/sim_tier.h"
#include "sim/verdict.h"
#include "tier/blob_store.h"
#include "tier/tier.h"

namespace spillway::tiersim {

// A memory tier. The watcher is told of every block or blob that is freed, and objects
// if a transfer uses it.
class WatchedTier final : public Tier {
 public:
  using Gone = std::function<void(const std::byte*)>;
  WatchedTier(std::unique_ptr<sim::SimTier> tier, Gone gone)
      : tier_(std::move(tier)), gone_(std::move(gone)) {}

  std::string_view name() const override { return tier_->name(); }
  Bytes capacity() const override { return tier_->capacity(); }
  Result<std::byte*> Allocate(Bytes bytes) override;
  void Free(std::byte* block, Bytes bytes, bool backed = false) override;
  bool TakesInPlaceOf(const std::byte* block, Bytes bytes, Bytes instead) override {
    return tier_->TakesInPlaceOf(block, bytes, instead);
  }
  void SetClean(std::byte* block, Bytes bytes, bool backed) override {
    tier_->SetClean(block, bytes, backed);
  }
  Bytes allocated() const override { return tier_->allocated(); }
  void ReleaseSpare() override { tier_->ReleaseSpare(); }
  Bytes held() const override { return tier_->held(); }
  Bytes clean() const override { return tier_->clean(); }
  Status Write(std::byte* block, const Source& source) override;
  Status Read(const std::byte* block, Bytes bytes, const Sink& sink) const override {
    // Core::CopyOut asks the device for all leased bytes, also for those of other
    // tiers.
    ScatterFromHost(block, bytes, sink);
    return {};
  }

  // The next write arrives damaged: torn from some byte on, or with one bit flipped.
  void DamageNext(std::uint64_t how) { damage_ = how | 1; }
  void DamageNothing() { damage_ = 0; }
  std::uint64_t refusals() const { return refusals_; }
  sim::SimTier& seen() { return *tier_; }

 private:
  const std::unique_ptr<sim::SimTier> tier_;
  const Gone gone_;
  std::uint64_t damage_ = 0;
  std::uint64_t refusals_ = 0;
};

class WatchedDisk final : public BlobStore {
 public:
  struct Watch {
    // A blob is freed or, if only its key is gone, revoked; `meta` is that of its
    // facts.
    std::function<void(BlobId id, const std::string& meta, bool freed)> gone;
    std::function<void(const std::string& meta)> taken;
    std::function<bool()> settles;
  };
  WatchedDisk(std::unique_ptr<BlobStore> disk, sim::Verdict* verdict, Watch watch)
      : disk_(std::move(disk)), verdict_(verdict), watch_(std::move(watch)) {}

  std::string_view name() const override { return disk_->name(); }
  Bytes capacity() const override { return disk_->capacity(); }
  Bytes allocated() const override { return disk_->allocated(); }
  Bytes held() const override { return disk_->held(); }
  Health health() const override { return disk_->health(); }
  std::string why() const override { return disk_->why(); }
  BlobStoreStats stats() const override { return disk_->stats(); }
  Result<BlobId> Allocate(const BlobFacts& facts) override;
  void Free(BlobId id) override;
  void Quarantine(BlobId id) override;
  void Tombstone(BlobId id) override;
  void ChangeDeadline(BlobId id, std::optional<std::int64_t> expires_unix_ns) override {
    disk_->ChangeDeadline(id, expires_unix_ns);
  }
  Status Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
               const std::atomic<bool>* cancelled) override {
    return disk_->Write(id, facts, seal, source, cancelled);
  }
  Status Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
              const std::atomic<bool>* cancelled) override;
  void WriteBatch(std::span<BlobWrite> writes) override { disk_->WriteBatch(writes); }
  void VerifyBatch(std::span<BlobWrite> writes) override { disk_->VerifyBatch(writes); }
  bool is_out_of_space() const override { return disk_->is_out_of_space(); }
  void StartLoading(std::function<void(std::vector<Found>, bool done)> found) override;
  // While loading, settling would wait in real time for what the seed decides: not
  // here, and no conclusion is drawn from it.
  bool has_pending_deletes() const override {
    return health() != Health::kLoading && watch_.settles() && disk_->has_pending_deletes();
  }
  bool FlushDeletes(Duration within) override { return disk_->FlushDeletes(within); }
  bool has_unseen() const override { return disk_->has_unseen(); }
  void TombstoneUnseen() override { disk_->TombstoneUnseen(); }
  std::string pending_why() const override { return disk_->pending_why(); }
  Status Sync() override { return disk_->Sync(); }
  Status Close() override { return disk_->Close(); }

  // Their owners, by the meta of their facts.
  const std::map<BlobId, std::string>& blobs() const { return blobs_; }
  std::uint64_t refusals() const { return refusals_; }
  std::uint64_t reads() const { return reads_; }
  BlobStore& inner() { return *disk_; }

 private:
  bool Forget(BlobId id);

  const std::unique_ptr<BlobStore> disk_;
  sim::Verdict* const verdict_;
  const Watch watch_;
  std::map<BlobId, std::string> blobs_;
  std::uint64_t refusals_ = 0;
  std::uint64_t reads_ = 0;
};

}  // namespace spillway::tiersim
