// SPDX-License-Identifier: Apache-2.0
#include "tiersim/world.h"

#include <algorithm>

#include <fmt/format.h>

#include "cache/testing/group_counts.h"
#include "tier/arena_tier.h"
#include "tiersim/world_parts.h"

namespace spillway::tiersim {

World::World(const Options& options)
    : options_(options),
      plan_(Plan::Draw(options.seed)),
      rng_(options.seed * 2),
      verdict_(options.told),
      clock_(std::make_shared<testing::ManualClock>()),
      memory_files_(std::make_shared<testing::MemoryFiles>(64 * kMiB)),
      files_(std::make_shared<testing::FaultyFiles>(memory_files_)),
      ledger_(plan_.keys),
      fingerprint_(options.seed) {
  for (const TierId tier : kTierIds) {
    const TierPlan& one = plan_.tiers[IndexOf(tier)];
    curves_.emplace_back(one.shape, one.low, one.high, std::max(one.period, Duration(1)),
                         options.seed + IndexOf(tier));
  }
  Open();
}

World::~World() {
  dead_ = true;
  EndFaults();
  holdings_.clear();
  EndFlights();
  core_.reset();
}

std::unique_ptr<WatchedTier> World::OpenMemory(TierId tier, Core::Parts* parts) {
  const TierPlan& one = plan_.tiers[IndexOf(tier)];
  const bool top = tier == TierId::kDevice;
  auto device = std::make_shared<testing::FakeDevice>(
      testing::FakeDeviceOptions{.total = one.total,
                                 .chunk_bytes = plan_.chunk,
                                 .shared = top && plan_.shared,
                                 .name = std::string(Name(tier))});
  devices_[IndexOf(tier)] = device.get();
  ArenaTierOptions options;
  options.name = Name(tier);
  options.capacity = one.capacity;
  auto seen = std::make_unique<sim::SimTier>(
      std::move(ArenaTier::Open(device.get(), options).value()), device.get(), &verdict_);
  (top ? parts->device : parts->host) = std::move(device);
  auto watched = std::make_unique<WatchedTier>(
      std::move(seen), [this](const std::byte* block) { CheckNotMoving(block, kNoBlob); });
  memory_[IndexOf(tier)] = watched.get();
  return watched;
}

DiskOptions World::OptionsOfDisk() const {
  DiskOptions options;
  options.directory = "/disk/store";
  options.quota = plan_.tiers[2].capacity;
  options.min_free = 0;
  options.journal_slack = 64 * kKiB;
  options.files = files_;
  options.clock = clock_;
  options.background = false;
  return options;
}

// Starts our process; what an earlier one left on disk is still to be found.
void World::Open() {
  spillway::Options options = plan_.options;
  options.clock = clock_;
  options.key_group = &spillway::testing::GroupByLastByte;
  options.on_event = [this](const Event& event) { OnCacheEvent(event); };
  options.on_level = [this](const LevelChange& change) {
    for (const TierId tier : kTierIds) {
      if (Name(tier) == change.tier) level_since_[IndexOf(tier)] = change.at;
    }
    Mark(static_cast<std::uint64_t>(change.to) << 8);
  };

  Core::Parts parts;
  memory_ = {};
  devices_ = {};
  disk_ = nullptr;
  real_disk_ = nullptr;
  if (plan_.Has(TierId::kDevice)) parts.tiers.device = OpenMemory(TierId::kDevice, &parts);
  if (plan_.Has(TierId::kHost)) parts.tiers.host = OpenMemory(TierId::kHost, &parts);
  if (plan_.Has(TierId::kDisk)) {
    auto opened = DiskStore::Open(OptionsOfDisk());
    if (!opened) return Fail(sim::kAfterCrash, "the disk does not open: " + opened.error().message);
    real_disk_ = opened->get();
    auto watched = std::make_unique<WatchedDisk>(
        std::move(*opened), &verdict_,
        WatchedDisk::Watch{[this](BlobId id, const std::string& meta, bool freed) {
                             if (freed) CheckNotMoving(nullptr, id);
                             const SetNo set = std::strtoull(meta.c_str(), nullptr, 10);
                             if (!ledger_.Knows(set)) return;
                             SetInfo& info = ledger_.at(set);
                             info.freed_epoch = std::min(info.freed_epoch, epoch_);
                           },
                           [this](const std::string& meta) {
                             const SetNo set = std::strtoull(meta.c_str(), nullptr, 10);
                             if (!ledger_.Knows(set)) return;
                             ledger_.at(set).freed_epoch = ~std::uint64_t{0};
                             ledger_.at(set).synced = false;
                           },
                           [this] { return !loading_; }});
    disk_ = watched.get();
    parts.tiers.disk = std::move(watched);
    loading_ = true;
  }
  ways_ = {.device = parts.tiers.device.get(),
           .host = parts.tiers.host.get(),
           .disk = parts.tiers.disk.get()};
  parts.close_within = {};
  parts.load_within = {};
  parts.strand = std::make_unique<SimStrand>(this);
  parts.executor = std::make_unique<SimExecutor>(this);
  parts.transfer_queue = std::make_unique<SimTransferQueue>(this);
  parts.reserve = plan_.reserve;
  parts.hash_bits = plan_.hash_bits;
  parts.moves_per_step = plan_.moves_per_step;
  {
    const Waiting waiting(this);
    core_ = Core::Open(options, std::move(parts)).value();
    graph_ = plan_.graph ? std::make_shared<StepGraph>() : nullptr;
    if (graph_ != nullptr) core_->Attach(graph_, {});
  }
  ++life_;
  epoch_ = 0;
  disk_trouble_ = journal_trouble_ = false;
  failed_at_.fill(TimePoint(-std::chrono::hours(1)));
  level_since_ = {};
  waiting_ = {};
  touched_.clear();
  sampling_ = false;
  if (plan_.sampled) StartStop();
}

sim::Outcome World::Run() {
  for (std::uint64_t event = 1; event <= options_.events && !verdict_.failed(); ++event) {
    verdict_.event = event;
    Step();
    AfterEvent();
  }
  if (!verdict_.failed()) Calm();
  if (!verdict_.failed()) CloseDown();
  return {verdict_.failed(), fingerprint_, verdict_.event, most_live_};
}

void World::Step() {
  if (std::exchange(kill_next_, false)) return Crash(false);
  PassTime();
  const std::size_t waits = pending_.size() + transfers_.size();
  const bool crowded = waits >= 4 * plan_.clients + 100;
  if (waits > 0 && (crowded || rng_.Percent(plan_.queue_percent))) return RunSomething();
  if (ledger_.TakeRemoval() && rng_.Percent(plan_.gone_percent)) return WriteGone();
  Act(static_cast<Do>(rng_.ByWeight(plan_.weights, plan_.weights_sum)));
}

void World::PassTime() {
  if (faults_until_ != 0 && faults_until_ < verdict_.event) {
    faults_until_ = 0;
    files_->Heal();
    files_->FlipNothing();
  }
  if (!rng_.Percent(plan_.still_percent)) {
    clock_->Advance(Duration(
        static_cast<std::int64_t>(rng_.Below(2 * static_cast<std::uint64_t>(plan_.tick.count())))));
  }
  if (sampling_ && now() >= next_sample_) {
    next_sample_ = now() + plan_.options.sample_period;
    // Sources may also give no reading.
    if (unknown_until_ < verdict_.event || rng_.OneIn(3)) DoSample();
  }
}

void World::Act(Do what) {
  if (options_.verbose) {
    fmt::print("{} at {} ms: do {}\n", verdict_.event, now().time_since_epoch().count() / 1000000,
               static_cast<int>(what));
  }
  switch (what) {
    case Do::kSet:
      return DoSet();
    case Do::kGet:
      return DoGet(false);
    case Do::kGetInto:
      return DoGet(true);
    case Do::kGetNow:
      return DoGetNow();
    case Do::kRelease:
      return DoRelease();
    case Do::kErase:
      return DoErase();
    case Do::kClear:
      return DoClear();
    case Do::kTouch:
      return DoTouch();
    case Do::kContains:
      return DoContains();
    case Do::kMatch:
      return DoMatch();
    case Do::kPrefetch:
      return DoPrefetch();
    case Do::kGiveBack:
      return DoGiveBack();
    case Do::kSample:
      return DoSample();
    case Do::kTend:
      return DoTend();
    case Do::kLook:
      return DoLook();
    case Do::kStartStop:
      return StartStop();
    case Do::kDiskBackground:
      return DiskBackground();
    case Do::kStepClock:
      return clock_->Advance(plan_.tick * static_cast<std::int64_t>(rng_.LogBetween(10, 3000)));
    case Do::kStats:
      return DoStats();
    case Do::kTierRefuses:
      for (WatchedTier* tier : memory_) {
        if (tier != nullptr && rng_.Percent(60)) tier->seen().RefuseNext(rng_.Between(1, 12));
      }
      return;
    case Do::kFileFaults:
      return FileFaults();
    case Do::kBitRot:
      return BitRot();
    case Do::kSlowDisk:
      slow_until_ = verdict_.event + rng_.LogBetween(10, 600);
      return;
    case Do::kSourceFails:
      unknown_until_ = verdict_.event + rng_.LogBetween(5, 600);
      return;
    case Do::kRestart:
      return Restart();
    case Do::kCrash:
      return Crash(rng_.Percent(60));
    case Do::kGraph:
      return DoGraph();
    case Do::kHint:
      return DoHint();
    case Do::kDeadline:
      return DoChangeDeadline();
    case Do::kCount:
      return;
  }
}

void World::AfterEvent() {
  std::erase_if(flights_, [](const auto& flight) { return flight->done; });
  if (core_ == nullptr || verdict_.failed()) return;
  Compare();
  most_live_ = std::max(most_live_, ledger_.live());
  const std::uint64_t event = verdict_.event;
  if (event % 8 == 0 && !holdings_.empty()) {
    const Holding& holding = holdings_[event / 8 % holdings_.size()];
    CheckLease(holding.lease, holding.set, "while leased");
  }
  if (event % std::max<std::uint64_t>(48, ledger_.live()) == 0) Audit();
}

std::uint32_t World::SlotOf(KeyNo key) {
  const Index& index = store().index();
  return index.Lookup(index.HashOf(ledger_.key(key)), ledger_.key(key));
}

}  // namespace spillway::tiersim
