// SPDX-License-Identifier: Apache-2.0
// What others do, faults, and what must hold when they are over.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sim/world_strand.h"

namespace spillway::sim {

// --- readings ---

Result<Reading> World::ReadSource() {
  if (lie_) return *std::exchange(lie_, std::nullopt);
  if (In(Fault::kFailed)) return Error{Code::kUnavailable, "the simulated source does not answer"};
  if (plan_.real_card) {
    SetNeighbour(neighbours_[0],
                 static_cast<Bytes>(curve_.At(now()) * static_cast<double>(plan_.card)));
    Result<Reading> reading = device_->ReadMemory();
    CheckCard(true);
    return reading;
  }
  const auto total = static_cast<double>(plan_.card);
  double used = curve_.At(now()) * total;
  if (plan_.foreign) used += static_cast<double>(model_.bytes());
  return Reading{plan_.card, plan_.card - static_cast<Bytes>(std::min(used, total))};
}

void World::PushPass(const std::optional<Core::SampleValue>& sample, bool from_sampler) {
  Pending pending{.kind = Pending::Kind::kPass};
  if (!from_sampler) pending.left = std::make_unique<std::vector<Eviction>>();
  pending.pass =
      std::make_unique<Core::PassSteps>(core_.get(), TierId::kDevice, sample, pending.left.get());
  pending.sample = sample;
  pending.from_sampler = from_sampler;
  pending_.push_back(std::move(pending));
}

void World::DeliverSample() {
  sampler_busy_ = true;
  PushPass(Core::ValueOf(ReadSource()), true);
}

void World::LookNow() {
  bool more = true;
  while (more && !verdict_.failed()) {
    judge_->BeginLook(now());
    more = core_->engine().Tick(now());
    judge_->EndLook(more);
  }
  Note(sim::Act::kLook);
}

// A pass by hand (Apply), or one that only advances time.
void World::Tick() {
  if (pending_.size() > 64) return;
  std::optional<Core::SampleValue> sample;
  if (!rng_.OneIn(3)) sample = Core::ValueOf(ReadSource());
  PushPass(sample, false);
}

void World::HurriedRelief() {
  judge_->BeginRelief(now(), true);
  judge_->EndRelief(core_->engine().Relieve(TierId::kDevice, now(), [] { return true; }));
  Note(sim::Act::kRelief);
}

void World::StartStop() {
  sampling_ = !sampling_;
  const Duration period = sampling_ ? plan_.options.sample_period : Duration::zero();
  core_->engine().ExpectSamplesEvery(TierId::kDevice, period, now());
  judge_->pressure().ExpectSamplesEvery(period, now());
  if (!sampling_) {
    core_->engine().ForgetPressure();
    judge_->pressure().Forget();
  }
}

// --- faults ---

void World::RefuseMap() {
  Trouble(Fault::kMemory, rng_.LogBetween(10, 300));
  const bool lasting = rng_.OneIn(4);
  if (device_ == nullptr) return tier_->RefuseNext(lasting ? rng_.LogBetween(1, 40) : 1);
  device_->FailMapAt(rng_.LogBetween(1, 30), lasting);
}

void World::EndRefusals() {
  tier_->RefuseNext(0);
  if (device_ != nullptr) device_->ClearMapFault();
}

void World::Lie() {
  Trouble(Fault::kLied);
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  lie_ = rng_.OneOf<Reading>({{0, 0},
                              {0, plan_.card},
                              {plan_.card, 2 * plan_.card + 1},
                              {plan_.card, kMost},
                              {kMost, kMost},
                              {kMost, 0},
                              {kMost, kMost / 3},
                              {1, 0},
                              {1, 1},
                              {plan_.card, 0}});
  if (!sampling_) Tick();
}

void World::StepClock() {
  Trouble(Fault::kClock, 300);
  clock_->Advance(plan_.tick * static_cast<std::int64_t>(rng_.LogBetween(100, 2'000'000)));
}

// --- neighbours on the card ---

void World::CheckCard(bool reaped) {
  Bytes living = device_ == nullptr ? 0 : device_->counts().mapped;
  for (const Neighbour& neighbour : neighbours_) living += neighbour.held;
  const Bytes shares = card_->SharesHeld();
  if (shares > card_->total()) {
    return verdict_.Fail(kAccounting, fmt::format("{} bytes of the card are held, it has {}",
                                                  shares, card_->total()));
  }
  if (shares < living) {
    return verdict_.Fail(kAccounting, fmt::format("{} bytes of the card are used, {} accounted for",
                                                  living, shares));
  }
  if (reaped && !lock_stuck_ && shares != living) {
    verdict_.Fail(kAfterCrash, fmt::format("{} bytes of the card are used, but {} are held: "
                                           "somebody's share did not return",
                                           living, shares));
  }
}

void World::SetNeighbour(Neighbour& neighbour, Bytes target) {
  if (neighbour.process == nullptr) {
    if (lock_stuck_) return;
    neighbour.process = card_->Join();
  }
  Ledger& ledger = neighbour.process->ledger();
  if (target < neighbour.held) {
    ledger.Give(neighbour.held - target);
    neighbour.held = target;
    return;
  }
  Bytes free = card_->total() - device_->counts().mapped;
  for (const Neighbour& other : neighbours_) free -= std::min(free, other.held);
  const Bytes wanted = target - neighbour.held;
  if (lock_stuck_) return;
  const bool got = ledger.Take(wanted).has_value();
  if (got != (wanted <= free)) {
    verdict_.Fail(got ? kAccounting : kAfterCrash,
                  fmt::format("a neighbour wants {} of {} free bytes and is {}", wanted, free,
                              got ? "given them" : "refused"));
  }
  if (got) neighbour.held = target;
}

// A neighbour is stopped while it holds the card's lock: no process can take memory or
// clean up, all can give memory back.
void World::SetLockStuck(bool stuck) {
  lock_stuck_ = stuck;
  card_->SetLockStuck(stuck);
}

void World::NeighbourMoves() {
  if (card_ == nullptr) return;
  Trouble(Fault::kNeighbour);
  if (rng_.OneIn(20)) return SetLockStuck(true);
  Neighbour& neighbour = neighbours_[rng_.Below(neighbours_.size())];
  // Often exactly what is free, sometimes more than there is.
  Bytes free = card_->total() - std::min(card_->total(), card_->SharesHeld());
  Bytes target = rng_.Below(neighbour.held + free + 1);
  if (rng_.OneIn(8)) target = neighbour.held + free + rng_.Below(plan_.chunk);
  if (rng_.OneIn(4)) target = neighbour.held + free;
  if (rng_.OneIn(3)) target = 0;
  SetNeighbour(neighbour, target);
}

void World::NeighbourDies() {
  if (card_ == nullptr) return;
  Neighbour& neighbour = neighbours_[rng_.Below(neighbours_.size())];
  if (neighbour.process == nullptr) return;
  Trouble(Fault::kNeighbour);
  neighbour.process->Kill();
  neighbour = Neighbour();
  if (rng_.OneIn(2)) {
    (void)device_->ReadMemory().has_value();
    CheckCard(true);
  }
}

// --- the end of our process, and a new start ---

void World::Crash() {
  if (lock_stuck_) SetLockStuck(false);
  Trouble(Fault::kCrash, 500);
  if (device_ != nullptr) device_->Kill();
  // The remains of the dead process are destroyed without being observed: nothing of it
  // reaches the card.
  dead_ = true;
  holdings_.clear();
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                [](const Pending& p) { return p.pass != nullptr; }),
                 pending_.end());
  Drain();
  core_.reset();
  dead_ = false;
  for (Flight& flight : flights_) EndFlight(flight);
  done_flights_.clear();
  model_.Forget();
  Open();
  if (card_ != nullptr) CheckCard(true);
  const Store& store = core_->engine().store();
  if (store.entries() != 0 || store.bytes() != 0 || core_->engine().level() != Level::kRelaxed) {
    verdict_.Fail(kAfterCrash, "a cache opened anew is not empty");
  }
}

// --- after the last event ---

void World::EndFaults() {
  fault_until_ = {};
  lie_.reset();
  if (lock_stuck_) SetLockStuck(false);
  EndRefusals();
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.process != nullptr) SetNeighbour(neighbour, 0);
  }
}

void World::Liveness() {
  EndFaults();
  Drain();
  if (verdict_.failed()) return;
  if (flights_in_use_ > 0) return verdict_.Fail(kLiveness, "operations wait for ever");
  while (!holdings_.empty() && !verdict_.failed()) ReleaseAt(holdings_.size() - 1);
  Drain();
  if (model_.zombie_sums().entries + model_.reserved_sums().entries > 0) {
    return verdict_.Fail(kLiveness, "dead generations or reservations stay");
  }
  // Low pressure for the time of dwell makes any level RELAXED.
  const Duration step =
      sampling_ ? plan_.options.sample_period
                : std::max<Duration>(std::chrono::milliseconds(1), plan_.options.dwell / 8);
  const TimePoint begun = now();
  for (bool waited = false; !waited && !verdict_.failed(); clock_->Advance(step)) {
    waited = now() - begun >= plan_.options.dwell;
    PushPass(Core::SampleValue{0.0, plan_.card}, false);
    Drain();
  }
  if (core_->engine().level() != Level::kRelaxed) {
    return verdict_.Fail(kLiveness,
                         fmt::format("pressure has been 0 for all of dwell, the level is {}",
                                     Name(core_->engine().level())));
  }
  if (sampling_) StartStop();
  pending_.push_back({.kind = Pending::Kind::kClear});
  Drain();
  judge_->CompareAll(core_->engine(), now());
  tier_->CheckMemory();
  if (tier_->allocated() != 0) verdict_.Fail(kAccounting, "an empty cache holds memory");
}

// The cache is destroyed while leases are open: leased bytes stay readable, and the
// last release frees everything.
void World::CloseDown() {
  const std::size_t at = NewFlight(4);
  for (std::size_t i = 0; i < 4; ++i) FillSet(flights_[at], i);
  Submit(at);
  Drain();
  if (verdict_.failed()) return;
  for (std::uint32_t key = 0; key < plan_.keys.size() && holdings_.size() < 2; ++key) {
    const EntryNo entry = model_.VisibleOf(key, now());
    if (entry == kNobody) continue;
    spillway::Lease lease;
    core_->Get(model_.key(key), &lease);
    holdings_.push_back({std::move(lease), entry});
    model_.Lease(entry, now());
  }
  dead_ = true;  // Events are ignored from now on.
  {
    const Waiting waiting(this, Inline::kQuiet);
    (void)core_->Close();
  }
  dead_ = false;
  std::weak_ptr<Core> last = core_;
  core_.reset();
  for (const Holding& holding : holdings_)
    judge_->CheckLease(holding.entry, holding.lease, "after close");
  if (last.expired() == holdings_.empty() || verdict_.failed()) {
    holdings_.clear();
  } else {
    verdict_.Fail(kLeases, fmt::format("the cache was closed with {} leases, and {}",
                                       holdings_.size(), last.expired() ? "is gone" : "stays"));
  }
  dead_ = true;
  while (!pending_.empty()) {
    const std::shared_ptr<Core> running = last.lock();
    RunPending(0);
  }
  if (!last.expired()) verdict_.Fail(kLiveness, "a closed cache without leases does not end");
  device_ = nullptr;
  if (card_ == nullptr) return;
  (void)card_->Join();  // A process that joins cleans up after dead ones.
  CheckCard(true);
}

// --- the step graph ---

// Its runs want none of our keys: so evictions are by last use, under another name, and
// in NORMAL entries need not be idle for long.
void World::AttachGraph() {
  StepGraphOptions options;
  options.run_idle_max = std::chrono::hours(24 * 365);
  graph_ = std::make_shared<StepGraph>(options);
  const Waiting waiting(this, Inline::kQuiet);
  core_->Attach(graph_, {});
}

void World::TellGraph() {
  const Waiting waiting(this, Inline::kQuiet);
  const bool live = graph_->attached();
  if (live) {
    (void)graph_->EndRun("run", RunState::kFinished, now());
  } else {
    (void)graph_->BeginRun("run", {}, now());
    (void)graph_->AddStep("run", {"step", "somebody"}, now());
    (void)graph_->Bind("run", "somebody", "nobody's key", KeyKind::kFixed, now());
  }
  judge_->Attached(!live);
}

}  // namespace spillway::sim
