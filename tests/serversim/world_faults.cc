// SPDX-License-Identifier: Apache-2.0
// Pressure, time, what goes wrong, and what the cache announces.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "serversim/say.h"

namespace spillway::serversim {

// --- what the cache announces ---

void World::OnCacheEvent(const Event& event) {
  if (dead_ || verdict_.failed()) return;
  Say("    {} '{}' from {} ({}), {} bytes", Name(event.action), Shown(event.key), event.tier,
      Name(event.reason), event.bytes);
  Mark(event.generation ^ (static_cast<std::uint64_t>(event.action) << 60) ^
       (static_cast<std::uint64_t>(event.reason) << 50) ^ event.bytes << 20);
  if (event.action != Action::kDestroy && event.action != Action::kExpire) return;
  if (event.reason == Reason::kReplaced) {
    replaced_.emplace(event.key);
  } else {
    replaced_.erase(std::string(event.key));
  }
  // Those are told of by the commands that did it.
  if (event.reason == Reason::kErased || event.reason == Reason::kCleared) return;
  if ((event.reason == Reason::kCorrupt || event.reason == Reason::kLost) && !damaged_) {
    return Fail(sim::kValues, fmt::format("'{}' is said to be {}, and nothing was damaged",
                                          Shown(event.key), Name(event.reason)));
  }
  const server::DbKey of = server::DbKeyOf(event.key);
  left_.push_back(
      {{of.db, std::string(of.key)}, std::string(event.key), event.action, event.reason});
}

// Behind each event of the strand.
void World::AfterStrand() {
  if (dead_ || core_ == nullptr || verdict_.failed()) return;
  const Index& index = engine().store().index();
  for (const Gone& gone : std::exchange(left_, {})) {
    if (index.Lookup(index.HashOf(gone.cache_key), gone.cache_key) != kNoSlot) continue;
    const std::string wrong = model_.Left(gone.name, gone.action, gone.reason);
    if (!wrong.empty()) return Fail(sim::kWhoLeaves, wrong);
  }
  SeeLoaded();
}

// Called before each answer, too: the daemon may know it before the strand's event ends.
void World::SeeLoaded() {
  if (!loading_ || core_->loading()) return;
  Stats stats;
  engine().CountInto(&stats);
  loading_ = false;
  Say("the disk has been read in: {} entries", stats.entries);
  const std::string wrong = model_.Loaded();
  if (!wrong.empty()) Fail(sim::kAfterCrash, wrong);
}

// An old value makes way for a new one and for nothing else: not for one that is still
// to come, or that its command will not write.
void World::CheckReplaced() {
  const std::set<std::string> replaced = std::exchange(replaced_, {});
  if (dead_ || core_ == nullptr || damaged_) return;
  const Index& index = engine().store().index();
  for (const std::string& key : replaced) {
    if (index.Lookup(index.HashOf(key), key) != kNoSlot) continue;
    return Fail(sim::kWhoLeaves, fmt::format("'{}' was replaced by nothing", Shown(key)));
  }
}

// --- pressure and time ---

void World::PushPass(TierId tier, const std::optional<Core::SampleValue>& sample) {
  pool_.Push(tier, std::make_unique<Core::PassSteps>(core_.get(), tier, sample));
}

void World::DoSample() {
  for (const TierId tier : kTierIds) {
    if (!plan_.Has(tier)) continue;
    const TierPlan& one = plan_.tiers[IndexOf(tier)];
    Core::SampleValue sample;
    sample.total = one.total;
    const double ours =
        static_cast<double>(engine().store().held(tier)) / static_cast<double>(one.total);
    sample.pressure = std::min(1.0, curves_[IndexOf(tier)].At(now()) + ours);
    if (tier == TierId::kDisk) sample.pressure = std::min(*sample.pressure, 0.9);
    if (calm_) sample.pressure = 0.0;
    if (unknown_until_ >= verdict_.event && rng_.Percent(70)) sample = {};
    PushPass(tier, sample);
  }
}

void World::PassTime() {
  if (faults_until_ != 0 && faults_until_ < verdict_.event) {
    faults_until_ = 0;
    files_->Heal();
    files_->FlipNothing();
  }
  if (slow_until_ < verdict_.event) pool_.disk_delay = {};
  if (!rng_.Percent(plan_.still_percent)) {
    clock_->Advance(Duration(
        static_cast<std::int64_t>(rng_.Below(2 * static_cast<std::uint64_t>(plan_.tick.count())))));
  }
  if (plan_.sampled && now() >= next_sample_) {
    next_sample_ = now() + plan_.options.sample_period;
    DoSample();
  }
  if (now() >= next_tick_) {
    BeginEvent();
    Tick();
    core_->Tick();
    AfterEvent();
  }
}

// A while in which clients do nothing: what is ready runs first, as it would.
void World::JumpTime() {
  static_cast<void>(RunUntil([this] { return IsStill(); }, std::chrono::milliseconds(200)));
  const Duration jump = plan_.tick * static_cast<std::int64_t>(rng_.LogBetween(10, 2000));
  clock_->Advance(std::min<Duration>(jump, std::chrono::seconds(3)));
}

// --- what goes wrong ---

// Loading, if that is still to do; then the disk's housekeeping and a sync.
void World::DiskBackground() {
  if (real_disk_ == nullptr || (loading_ && now() < loads_at_)) return;
  real_disk_->RunBackground();
  if (loading_) return;  // What was found is adopted when its task has run.
  const Status synced = real_disk_->Sync();
  if (!synced || real_disk_->health() != BlobStore::Health::kGood) disk_trouble_ = true;
}

// All who wait for the disk are told at once; where it does not record their writes,
// when the bound is over.
void World::SettleOne() {
  const Status settled = cache_->FlushDeletes(std::chrono::seconds(1));
  if (!settled) {
    Say("not settled: {}", settled.error().message);
    disk_trouble_ = true;
    next_settle_ = now() + std::chrono::milliseconds(100);
  }
  std::vector<Waiting> late;
  for (Waiting& one : std::exchange(settling_, {})) {
    const bool is_late =
        settled || state_->not_durable || now() - one.since >= server::DeleteFlusher::kBound;
    (is_late ? late : settling_).push_back(std::move(one));
  }
  if (settled || !late.empty()) state_->not_durable = !settled;
  for (const Waiting& one : late) one.done(!!settled);
}

void World::FileFaults() {
  if (disk_ == nullptr || loading_) return;
  faults_until_ = verdict_.event + rng_.LogBetween(2, 200);
  disk_trouble_ = true;
  damaged_ = true;  // A failed sync loses what was written since the last.
  const std::uint64_t percent = rng_.OneOf<std::uint64_t>({5, 30, 100});
  const std::uint64_t salt = rng_.Next();
  const auto chance = [=](std::uint64_t number) { return sim::Mix(number ^ salt) % 100 < percent; };
  using testing::FileCall;
  switch (rng_.Below(5)) {
    case 0:
      files_->FlipOnRead(rng_.Below(Bytes{40'000} * 8));
      return;
    case 1:
      return files_->SetScript([=](FileCall call, std::uint64_t n, int) {
        return call == FileCall::kRead && chance(n) ? EIO : 0;
      });
    case 2:
      return files_->SetScript([=](FileCall call, std::uint64_t n, int) {
        return call == FileCall::kWrite && chance(n) ? EIO : 0;
      });
    case 3:
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

void World::EndFaults() {
  faults_until_ = slow_until_ = unknown_until_ = 0;
  loads_at_ = {};
  pool_.disk_delay = {};
  files_->Heal();
  files_->FlipNothing();
  for (tiersim::WatchedTier* tier : memory_) {
    if (tier != nullptr && core_ != nullptr) tier->seen().RefuseNext(0);
  }
}

}  // namespace spillway::serversim
