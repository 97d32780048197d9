// SPDX-License-Identifier: Apache-2.0
// A World is one seed come to life: the real cache on a simulated strand, executor,
// card and clock, clients that use it, neighbours that want its memory, and faults. One
// thread, only simulated time, and no randomness but the seed's. Everything pending -
// admissions, copies, commits, reaps, readings, steps of relief - is in one queue, and
// the seed picks what runs next.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/batch.h"
#include "cache/core.h"
#include "device/testing/fake_device.h"
#include "device/testing/sim_card.h"
#include "sim/coverage.h"
#include "sim/judge.h"
#include "sim/model.h"
#include "sim/plan.h"
#include "sim/rng.h"
#include "sim/sim_tier.h"
#include "sim/value.h"
#include "sim/verdict.h"
#include "spillway/testing.h"

namespace spillway::sim {

class World {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::uint64_t events = 0;
    bool verbose = false;
    Coverage* coverage = nullptr;
    std::function<void(const Verdict&)> told;
  };

  explicit World(const Options& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Outcome Run();
  const Verdict& verdict() const { return verdict_; }

 private:
  class SimStrand;
  class SimExecutor;
  class Waiting;
  // What happens to a posted task: it is queued, or it runs at once because a call
  // waits for it: a tick, a query, or a call of which the judge has been told.
  enum class Inline : std::uint8_t { kNo, kLook, kQuiet, kTold };

  // One operation of a batch in flight.
  struct Item {
    Newcomer newcomer;
    std::optional<Value> value;
    std::uint32_t key = 0;
    std::string agent;
    std::string meta;
    std::vector<std::byte> sink;
    std::optional<Code> bad;  // Must be refused by the argument checks.
    bool posts = false;       // Is posted to the strand.
    EntryNo reservation = kNobody;
    enum class Stage : std::uint8_t { kBegun, kAdmitted, kCopied, kEnded } stage = Stage::kBegun;
  };
  struct Flight {
    std::vector<Operation> operations;
    std::vector<Item> items;
    TimePoint deadline;
    bool hurried = false;
    std::size_t begun = 0;  // Items whose task has been seen.
    std::uint32_t completions = 0;
    bool in_use = false;
  };
  struct Holding {
    spillway::Lease lease;
    EntryNo entry = kNobody;
  };
  struct Neighbour {
    std::unique_ptr<testing::SimCard::Process> process;
    Bytes held = 0;
  };
  // A pending task: it belongs to an item of a flight, or is the reaper.
  struct Pending {
    enum class Kind : std::uint8_t { kTask, kReap, kPass, kClear };
    Kind kind = Kind::kTask;
    Strand::Task* task = nullptr;
    std::size_t flight = 0;
    std::size_t item = 0;
    std::unique_ptr<std::vector<Eviction>> left{};  // Of a pass by hand.
    std::unique_ptr<Core::PassSteps> pass{};
    std::optional<Core::SampleValue> sample{};
    bool from_sampler = false;
  };

  // world.cc
  void Open();
  void Step();
  void Act(Do what);
  void PassTime();
  void AfterEvent();
  void Note(sim::Act act);
  void Mark(std::uint64_t what) { fingerprint_ = Mix(fingerprint_ ^ what); }
  bool leased() const { return !holdings_.empty(); }
  TimePoint now() const { return clock_->Now(); }

  // world_tasks.cc: runs pending tasks.
  void Posted(Strand::Task* task);
  void RunPending(std::size_t at);
  void RunItem(const Pending& pending);
  void RunPass(Pending pending);
  void OnCacheEvent(const Event& event);
  void EndInlineLook(bool more);
  void CheckEnded(std::size_t flight);
  void EndFlight(Flight& flight);
  void Drain();

  // world_writes.cc, world_reads.cc: what clients do.
  std::uint32_t AnyKey();
  bool Overdue(std::uint32_t key) const;
  std::size_t NewFlight(std::size_t items);
  void FillSet(Flight& flight, std::size_t at);
  void FillBadSet(Flight& flight, std::size_t at);
  void FillOther(Flight& flight, std::size_t at, Operation::Kind kind);
  void Submit(std::size_t flight);
  void CheckSubmitted(Flight& flight, std::size_t at);
  void SetNow();
  void EraseNow();
  void DoSet(bool bad);
  void DoErase();
  void DoBatch();
  void DoGet(bool hold);
  void DoGetMany();
  void DoTouch();
  void DoContains();
  void DoMatch(bool lease);
  void DoRelease();
  void ReleaseAt(std::size_t at);
  void Hold(spillway::Lease lease, EntryNo entry);
  EntryNo CheckGot(std::uint32_t key, const spillway::Lease& lease);
  void DoStats();
  std::vector<std::uint32_t> AnyChain();

  // world_faults.cc: what others do, and faults.
  Result<Reading> ReadSource();
  void PushPass(const std::optional<Core::SampleValue>& sample, bool from_sampler);
  void DeliverSample();
  void LookNow();
  void Tick();
  void HurriedRelief();
  void StartStop();
  void RefuseMap();
  void Lie();
  void StepClock();
  void SetNeighbour(Neighbour& neighbour, Bytes target);
  // The fault lasts for so many events, or ended not longer ago.
  void Trouble(Fault fault, std::uint64_t events = 64) {
    fault_until_[static_cast<std::size_t>(fault)] = verdict_.event + events;
  }
  bool In(Fault fault) const {
    return fault_until_[static_cast<std::size_t>(fault)] >= verdict_.event;
  }
  void EndRefusals();
  void SetLockStuck(bool stuck);
  void NeighbourMoves();
  void NeighbourDies();
  void CheckCard(bool reaped);
  void Crash();
  void AttachGraph();
  void TellGraph();
  void EndFaults();
  void Liveness();
  void CloseDown();

  const Options options_;
  const Plan plan_;
  Rng rng_;
  Verdict verdict_;
  Curve curve_;
  std::shared_ptr<testing::ManualClock> clock_;
  std::unique_ptr<testing::SimCard> card_;  // None: the tier only counts bytes.
  std::array<Neighbour, 3> neighbours_;

  // One life of our process.
  Model model_;
  std::shared_ptr<Core> core_;
  std::unique_ptr<Judge> judge_;
  std::shared_ptr<StepGraph> graph_;  // If the plan has one.
  testing::FakeDevice* device_ = nullptr;
  SimTier* tier_ = nullptr;
  std::vector<Pending> pending_;
  std::deque<Flight> flights_;
  std::size_t flights_in_use_ = 0;
  std::size_t flights_hurried_ = 0;
  std::vector<Holding> holdings_;
  bool dead_ = false;  // What happens now is ignored.
  Inline inline_ = Inline::kNo;
  bool inline_look_ = false;
  std::optional<std::size_t> submitting_;
  std::optional<std::pair<std::size_t, std::size_t>> running_;  // Flight and item.
  std::size_t running_posted_ = 0;
  std::vector<std::size_t> done_flights_;
  std::uint64_t events_heard_ = 0;
  std::array<std::uint64_t, kReasons> heard_by_reason_{};
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;

  bool sampling_ = false;
  bool sampler_busy_ = false;
  TimePoint next_reading_;
  std::optional<Reading> lie_;
  bool lock_stuck_ = false;
  std::array<std::uint64_t, kFaults> fault_until_{};  // Event number.

  std::uint64_t sets_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::size_t most_live_ = 0;
};

}  // namespace spillway::sim
