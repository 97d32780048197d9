// SPDX-License-Identifier: Apache-2.0
#include "sim/world.h"

#include <algorithm>

#include <fmt/format.h>

#include "cache/testing/group_counts.h"
#include "sim/world_strand.h"
#include "tier/arena_tier.h"
#include "tier/virtual_tier.h"

namespace spillway::sim {

World::World(const Options& options)
    : options_(options),
      plan_(Plan::Draw(options.seed)),
      rng_(options.seed * 2),
      verdict_(options.told),
      curve_(plan_.shape, plan_.low, plan_.high, plan_.curve_period, options.seed),
      clock_(std::make_shared<testing::ManualClock>()),
      model_(plan_.keys),
      fingerprint_(options.seed) {
  if (plan_.real_bytes) card_ = std::make_unique<testing::SimCard>(plan_.card);
  Open();
}

World::~World() {
  dead_ = true;
  holdings_.clear();
  Drain();
  core_.reset();
}

// Starts our process: nothing is left of an earlier one.
void World::Open() {
  spillway::Options options = plan_.options;
  options.clock = clock_;
  options.key_group = &spillway::testing::GroupByLastByte;
  options.on_event = [this](const Event& event) { OnCacheEvent(event); };

  Core::Parts parts;
  std::unique_ptr<Tier> tier;
  device_ = nullptr;
  if (plan_.real_bytes) {
    auto device = std::make_unique<testing::FakeDevice>(testing::FakeDeviceOptions{
        .chunk_bytes = plan_.chunk, .shared = plan_.shared, .card = card_.get()});
    device_ = device.get();
    ArenaTierOptions tier_options;
    tier_options.capacity = plan_.capacity;
    tier = std::move(ArenaTier::Open(device_, tier_options).value());
    parts.device = std::move(device);
  } else {
    tier = std::make_unique<VirtualTier>(plan_.capacity);
  }
  auto seen = std::make_unique<SimTier>(std::move(tier), device_, &verdict_);
  tier_ = seen.get();
  parts.tiers.device = std::move(seen);
  parts.close_within = {};
  parts.load_within = {};
  parts.strand = std::make_unique<SimStrand>(this);
  parts.executor = std::make_unique<SimExecutor>(this);
  parts.total = plan_.card;
  parts.reserve = plan_.reserve;
  parts.hash_bits = plan_.hash_bits;
  parts.moves_per_step = plan_.moves_per_step;
  core_ = Core::Open(options, std::move(parts)).value();

  Judge::Setting setting;
  setting.options = plan_.options;
  setting.capacity = plan_.options.unlimited ? Tier::kUnlimited : tier_->capacity();
  setting.tier_capacity = tier_->capacity();
  setting.reserve = plan_.reserve;
  setting.moves_per_step = plan_.moves_per_step;
  setting.has_bytes = plan_.real_bytes;
  setting.refusals = tier_->refusals();
  setting.lock_stuck = &lock_stuck_;
  judge_ = std::make_unique<Judge>(setting, &model_, &verdict_);
  sampling_ = false;
  sampler_busy_ = false;
  hits_ = misses_ = 0;
  heard_by_reason_ = {};
  if (plan_.graph) AttachGraph();
  if (plan_.sampled) StartStop();
}

Outcome World::Run() {
  for (std::uint64_t event = 1; event <= options_.events && !verdict_.failed(); ++event) {
    verdict_.event = event;
    Step();
    AfterEvent();
  }
  if (!verdict_.failed()) Liveness();
  if (!verdict_.failed()) CloseDown();
  return {verdict_.failed(), fingerprint_, verdict_.event, most_live_};
}

void World::Step() {
  PassTime();
  const bool crowded = pending_.size() >= 4 * plan_.clients + 64;
  if (!pending_.empty() && (crowded || rng_.Percent(plan_.queue_percent))) {
    return RunPending(rng_.Below(pending_.size()));
  }
  Act(static_cast<Do>(rng_.ByWeight(plan_.weights, plan_.weights_sum)));
}

void World::PassTime() {
  if (lock_stuck_ && !In(Fault::kNeighbour)) SetLockStuck(false);
  if (fault_until_[static_cast<std::size_t>(Fault::kMemory)] + 1 == verdict_.event) EndRefusals();
  if (!rng_.Percent(plan_.still_percent)) {
    clock_->Advance(Duration(
        static_cast<std::int64_t>(rng_.Below(2 * static_cast<std::uint64_t>(plan_.tick.count())))));
  }
  if (sampling_ && !sampler_busy_ && !In(Fault::kHung) && now() >= next_reading_) DeliverSample();
}

void World::Act(Do what) {
  if (options_.verbose)
    fmt::print("{} at {} ns: do {}\n", verdict_.event, now().time_since_epoch().count(),
               static_cast<int>(what));
  switch (what) {
    case Do::kSet:
      return DoSet(false);
    case Do::kGet:
      return DoGet(true);
    case Do::kRead:
      return DoGet(false);
    case Do::kGetMany:
      return DoGetMany();
    case Do::kTouch:
      return DoTouch();
    case Do::kContains:
      return DoContains();
    case Do::kRelease:
      return DoRelease();
    case Do::kErase:
      return DoErase();
    case Do::kClear:
      pending_.push_back({.kind = Pending::Kind::kClear});
      return;
    case Do::kMatch:
      return DoMatch(false);
    case Do::kChain:
      return DoMatch(true);
    case Do::kBatch:
      return DoBatch();
    case Do::kBadSet:
      return DoSet(true);
    case Do::kLook:
      return LookNow();
    case Do::kTick:
      return Tick();
    case Do::kHurriedRelief:
      return HurriedRelief();
    case Do::kStats:
      return DoStats();
    case Do::kStartStop:
      return StartStop();
    case Do::kRefuseMap:
      return RefuseMap();
    case Do::kSourceFails:
      return Trouble(Fault::kFailed, rng_.LogBetween(5, 600));
    case Do::kSourceHangs:
      return Trouble(Fault::kHung, rng_.LogBetween(5, 1200));
    case Do::kSourceLies:
      return Lie();
    case Do::kClockSteps:
      return StepClock();
    case Do::kNeighbour:
      return NeighbourMoves();
    case Do::kNeighbourDies:
      return NeighbourDies();
    case Do::kCrash:
      return Crash();
    case Do::kGraph:
      return TellGraph();
    case Do::kCount:
      return;
  }
}

void World::AfterEvent() {
  for (const std::size_t flight : done_flights_) EndFlight(flights_[flight]);
  done_flights_.clear();
  judge_->Compare(core_->engine());
  most_live_ = std::max(most_live_, model_.live().size());
  Mark(model_.bytes() ^ (static_cast<std::uint64_t>(judge_->pressure().level()) << 60));

  const std::uint64_t event = verdict_.event;
  if (event % 8 == 0) {
    if (!holdings_.empty()) {
      const Holding& holding = holdings_[event / 8 % holdings_.size()];
      judge_->CheckLease(holding.entry, holding.lease, "while leased");
    }
    if (card_ != nullptr) CheckCard(false);
  }
  const std::uint64_t every = std::max<std::uint64_t>(48, model_.live().size() / 2);
  if (event % every == 0) {
    judge_->CompareAll(core_->engine(), now());
    tier_->CheckMemory();
  }
}

void World::Note(sim::Act act) {
  if (options_.coverage == nullptr) return;
  const Level level = judge_->pressure().level();
  bool wrong = false;
  const auto count = [&](Fault fault) {
    wrong = true;
    options_.coverage->Count(level, act, fault, leased());
  };
  if (flights_hurried_ > 0) count(Fault::kHurry);
  for (std::size_t fault = 1; fault < kFaults; ++fault) {
    if (fault_until_[fault] >= verdict_.event) count(static_cast<Fault>(fault));
  }
  if (!wrong) options_.coverage->Count(level, act, Fault::kNone, leased());
}

}  // namespace spillway::sim
