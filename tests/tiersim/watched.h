// Tiers seen through glass: who holds which bytes, and whether anything is
// given back that a move still reads or writes. Below them things go wrong.
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

// Memory. What is told of a block or blob that goes: the watcher objects if a
// move is under way on it.
class WatchedTier final : public Tier {
 public:
  using Gone = std::function<void(const std::byte*)>;
  WatchedTier(std::unique_ptr<sim::SimTier> tier, Gone gone)
      : tier_(std::move(tier)), gone_(std::move(gone)) {}

  std::string_view name() const override { return tier_->name(); }
  Bytes capacity() const override { return tier_->capacity(); }
  Result<std::byte*> Allocate(Bytes bytes) override;
  void Free(std::byte* block, Bytes bytes, bool backed = false) override;
  void SetBacked(std::byte* block, Bytes bytes, bool backed) override {
    tier_->SetBacked(block, bytes, backed);
  }
  Bytes allocated() const override { return tier_->allocated(); }
  void ReleaseSpare() override { tier_->ReleaseSpare(); }
  Bytes held() const override { return tier_->held(); }
  Bytes clean() const override { return tier_->clean(); }
  Status Write(std::byte* block, const Source& source) override;
  Status Read(const std::byte* block, Bytes bytes, const Sink& sink) const override {
    // Core::CopyOut asks the device for whatever is lent, also from other tiers.
    ScatterFromHost(block, bytes, sink);
    return {};
  }

  // The next write arrives changed: torn from some byte on, or one bit of it.
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
    // A blob is given up or, if only its key has gone, revoked; `meta` is that
    // of its facts.
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
  void Revoke(BlobId id) override;
  Status Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
               const std::atomic<bool>* cancelled) override {
    return disk_->Write(id, facts, seal, source, cancelled);
  }
  Status Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
              const std::atomic<bool>* cancelled) override;
  void StartLoading(std::function<void(std::vector<Found>, bool done)> found) override;
  // While loading, settling waits in real time for what the seed decides: not
  // here, and nothing is concluded from it.
  bool needs_settling() const override {
    return health() != Health::kLoading && watch_.settles() && disk_->needs_settling();
  }
  bool Settle(Duration within) override { return disk_->Settle(within); }
  bool has_unseen() const override { return disk_->has_unseen(); }
  void RevokeUnseen() override { disk_->RevokeUnseen(); }
  std::string unsettled_why() const override { return disk_->unsettled_why(); }
  Status Sync() override { return disk_->Sync(); }
  Status Close() override { return disk_->Close(); }

  // Whose they are, by what their facts' meta says.
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
