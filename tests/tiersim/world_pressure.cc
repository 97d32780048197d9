// SPDX-License-Identifier: Apache-2.0
// Pressure, time, background work, and faults.
#include <cerrno>

#include <fmt/format.h>

#include "tiersim/world_parts.h"

namespace spillway::tiersim {

// What others and we hold, as a share of the total.
Core::SampleValue World::SampleOf(TierId tier) {
  const TierPlan& one = plan_.tiers[IndexOf(tier)];
  Core::SampleValue sample;
  sample.total = one.total;
  const double ours = static_cast<double>(store().held(tier)) / static_cast<double>(one.total);
  sample.pressure = std::min(1.0, curves_[IndexOf(tier)].At(now()) + ours);
  if (tier == TierId::kDisk) sample.pressure = std::min(*sample.pressure, 0.99);
  if (unknown_until_ >= verdict_.event && rng_.Percent(70)) sample = {};
  return sample;
}

void World::PushPass(TierId tier, const std::optional<Core::SampleValue>& sample) {
  Pending pending{.kind = Pending::Kind::kPass, .task = nullptr};
  pending.pass = std::make_unique<Core::PassSteps>(core_.get(), tier, sample);
  pending_.push_back(std::move(pending));
}

void World::DoSample() {
  for (const TierId tier : kTierIds) {
    if (plan_.Has(tier) && rng_.Percent(70)) PushPass(tier, SampleOf(tier));
  }
}

void World::DoGiveBack() {
  TierId tier = kTierIds[rng_.Below(kTiers)];
  while (!plan_.Has(tier)) tier = kTierIds[rng_.Below(kTiers)];
  const Bytes wanted = rng_.LogBetween(1, plan_.tiers[IndexOf(tier)].capacity);
  const Bytes before = store().held(tier);
  const std::size_t live = ledger_.live();
  bool more = false;
  giving_back_ = true;
  Bytes freed = 0;
  {
    const OnStrand here(this);
    freed = engine().GiveBack(tier, wanted, now(), &more);
  }
  giving_back_ = false;
  Mark(freed);
  if (tier != TierId::kDisk && before - std::min(before, store().held(tier)) != freed) {
    Fail(sim::kAccounting, fmt::format("{} bytes are said to be given back, {} are", freed,
                                       before - store().held(tier)));
  }
  if (ledger_.live() != live) Fail(sim::kWhoLeaves, "giving back destroyed something");
}

void World::DoTend() {
  const OnStrand here(this);
  engine().RunBackground(now());
}

void World::DoLook() { LookNow(); }

void World::LookNow() {
  const Waiting waiting(this);
  core_->Tick();
}

void World::StartStop() {
  const Waiting waiting(this);
  sampling_ = !sampling_;
  if (sampling_) {
    (void)core_->Start();
    next_sample_ = now();
  }
  for (const TierId tier : kTierIds) {
    if (!plan_.Has(tier)) continue;
    const OnStrand here(this);
    engine().ExpectSamplesEvery(tier, sampling_ ? plan_.options.sample_period : Duration::zero(),
                                now());
  }
  if (!sampling_) core_->Stop();
}

// Loading, if it is not done yet; then the disk's housekeeping and a sync.
void World::DiskBackground() {
  if (real_disk_ == nullptr) return;
  real_disk_->RunBackground();
  if (loading_) return;  // What was found is adopted when its task has run.
  const Status synced = real_disk_->Sync();
  if (!synced || real_disk_->health() != BlobStore::Health::kGood) {
    disk_trouble_ = true;
    return;
  }
  ++epoch_;
  for (KeyNo key = 0; key < plan_.keys.size(); ++key) {
    const SetNo set = ledger_.current(key);
    if (set == 0) continue;
    SetInfo& info = ledger_.at(set);
    info.synced = Has(store().slots().record(info.slot).copies, TierId::kDisk);
  }
}

void World::FileFaults() {
  if (disk_ == nullptr || loading_) return;
  faults_until_ = verdict_.event + rng_.LogBetween(2, 200);
  disk_trouble_ = true;
  damaged_ = true;  // A failed sync loses what was written since the last one.
  const std::uint64_t percent = rng_.OneOf<std::uint64_t>({5, 30, 100});
  const std::uint64_t salt = rng_.Next();
  const auto chance = [=](std::uint64_t number) { return sim::Mix(number ^ salt) % 100 < percent; };
  using testing::FileCall;
  switch (rng_.Below(6)) {
    case 0:
      files_->FlipOnRead(rng_.Below(Bytes{40000} * 8));
      return;
    case 1:
      files_->FlipOnWrite(rng_.Below(Bytes{40000} * 8));
      journal_trouble_ = true;
      return;
    case 2:
      return files_->SetScript([=](FileCall call, std::uint64_t n, int) {
        return call == FileCall::kRead && chance(n) ? EIO : 0;
      });
    case 3:
      return files_->SetScript([=](FileCall call, std::uint64_t n, int) {
        return call == FileCall::kWrite && chance(n) ? EIO : 0;
      });
    case 4:
      return files_->SetScript([=](FileCall call, std::uint64_t n, int) {
        return (call == FileCall::kWrite || call == FileCall::kAllocate) && chance(n) ? ENOSPC : 0;
      });
    default:
      if (!rng_.OneIn(4)) return;  // After it the disk takes nothing more.
      return files_->SetScript([=](FileCall call, std::uint64_t n, int) {
        return call == FileCall::kSync && chance(n) ? EIO : 0;
      });
  }
}

void World::BitRot() {
  if (disk_ == nullptr) return;
  FileFacts facts;
  if (memory_files_->Stat("/disk/store/blobs", &facts) != 0 || facts.bytes == 0) return;
  const Bytes within = std::min(facts.bytes, plan_.tiers[2].capacity);
  damaged_ = true;
  for (std::uint64_t i = rng_.Between(1, 6); i > 0; --i) {
    memory_files_->FlipBit("/disk/store/blobs", rng_.Below(within),
                           static_cast<int>(rng_.Below(8)));
  }
}

void World::DoStats() {
  Stats stats;
  {
    const Waiting waiting(this);
    stats = core_->stats();
    if (core_->Explain(ledger_.key(AnyKey())).empty()) Fail(sim::kValues, "explain has no answer");
  }
  const auto leases = static_cast<std::uint64_t>(
      std::count_if(holdings_.begin(), holdings_.end(),
                    [&](const Holding& holding) { return holding.life == life_; }));
  if (stats.entries != ledger_.live() || stats.leases < leases) {
    Fail(sim::kAccounting, fmt::format("stats: {} entries, {} leases; it should be {}, {}",
                                       stats.entries, stats.leases, ledger_.live(), leases));
  }
}

}  // namespace spillway::tiersim
