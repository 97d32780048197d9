// SPDX-License-Identifier: Apache-2.0
// A World is one seed come to life: the real cache with several tiers on a simulated
// strand, executor, transfer queue, memory, disk and clock; clients that use it, others
// that want its memory, and faults. One thread, only simulated time, and no randomness
// but the seed's. Tasks, copies, transfers and steps of relief are in one pool, and the
// seed picks what runs next.
//
// Evictions are not predicted, as tests/sim does for one tier. What must hold for any
// eviction is checked: against the ledger of what was asked for, against a list of
// which entry holds which bytes, and against every event that is announced.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/batch.h"
#include "cache/core.h"
#include "cache/transfer.h"
#include "device/testing/fake_device.h"
#include "sim/curve.h"
#include "sim/rng.h"
#include "sim/value.h"
#include "sim/verdict.h"
#include "spillway/testing.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/testing/faulty_files.h"
#include "tier/disk/testing/memory_files.h"
#include "tiersim/ledger.h"
#include "tiersim/plan.h"
#include "tiersim/watched.h"

namespace spillway::tiersim {

class World {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::uint64_t events = 0;
    bool verbose = false;
    std::function<void(const sim::Verdict&)> told;
  };

  explicit World(const Options& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  sim::Outcome Run();
  const sim::Verdict& verdict() const { return verdict_; }

 private:
  class SimStrand;
  class SimExecutor;
  class SimTransferQueue;
  class OnStrand;
  class Waiting;

  // One operation in flight.
  struct Flight {
    World* world = nullptr;
    Operation operation;
    std::optional<sim::Value> value;
    std::vector<std::byte> sink;
    std::string meta;
    KeyNo key = 0;
    SetNo set = 0;
    SetNo ended = 0;  // The set it replaced or erased.
    bool committed = false;
    std::uint64_t begun = 0;  // Event number.
    TimePoint deadline;
    bool done = false;
  };
  struct Holding {
    spillway::Lease lease;
    SetNo set = 0;
    std::uint64_t life = 0;
  };
  struct Pending {
    enum class Kind : std::uint8_t { kTask, kCopy, kMove, kPass };
    Kind kind = Kind::kTask;
    Strand::Task* task = nullptr;
    std::unique_ptr<Core::PassSteps> pass{};
  };
  struct PendingTransfer {  // A transfer that has not run.
    Transfer* move = nullptr;
    TimePoint ready;
  };

  // world.cc
  void Open();
  std::unique_ptr<WatchedTier> OpenMemory(TierId tier, Core::Parts* parts);
  DiskOptions OptionsOfDisk() const;
  void Step();
  void PassTime();
  void Act(Do what);
  void AfterEvent();
  void Mark(std::uint64_t what) { fingerprint_ = sim::Mix(fingerprint_ ^ what); }
  void Fail(int invariant, const std::string& what) {
    if (!dead_) verdict_.Fail(invariant, what);
  }
  TimePoint now() const { return clock_->Now(); }
  Engine& engine() { return core_->engine(); }
  Store& store() { return core_->engine().store(); }
  std::uint32_t SlotOf(KeyNo key);

  // world_tasks.cc: runs pending tasks.
  void Posted(Strand::Task* task);
  void RunOnStrand(Strand::Task* task);
  void RunPending(std::size_t at);
  void RunTransferAt(std::size_t at, bool faults);
  Transfer* TakeMove(std::size_t at);
  void RunBatchWith(Transfer* first);
  void Carried(Transfer* transfer);
  void RunAllTransfers();
  void RunSomething();
  void Settle();
  void StartMove(Transfer* transfer);
  void SeeWritten();
  void CheckNotMoving(const std::byte* block, BlobId blob);
  void SeeAdopted();
  void SeeAdoptedAndGone(const Event& event);

  // world_clients.cc
  void WriteGone();
  KeyNo KeyToWrite();
  KeyNo AnyKey() { return static_cast<KeyNo>(rng_.Below(plan_.keys.size())); }
  void LookIfOverdue(KeyNo key);
  Flight& NewFlight(KeyNo key, Operation::Kind kind);
  void Submit(Flight& flight);
  void Completed(Flight& flight);
  void SetCompleted(Flight& flight);
  // What it replaced, erased or found removed must not come back.
  void EndedForGood(const Flight& flight);
  void GetCompleted(Flight& flight);
  void CheckRefusal(const Flight& flight);
  void DoSet();
  void DoGet(bool into);
  void DoGetNow();
  void DoErase();
  void DoClear();
  void DoTouch();
  void DoChangeDeadline();
  void DoContains();
  void DoMatch();
  void DoPrefetch();
  void DoRelease();
  void ReleaseAt(std::size_t at);
  void Hold(spillway::Lease lease, SetNo set);
  bool CheckLease(const spillway::Lease& lease, SetNo set, std::string_view when);

  // world_pressure.cc
  Core::SampleValue SampleOf(TierId tier);
  void PushPass(TierId tier, const std::optional<Core::SampleValue>& sample);
  void DoSample();
  void DoGiveBack();
  void DoTend();
  void DoLook();
  void LookNow();
  void StartStop();
  void DiskBackground();
  void FileFaults();
  void BitRot();
  void DoStats();

  // world_events.cc: what the cache announces.
  void OnCacheEvent(const Event& event);
  void JudgeLeft(const Event& event, TierId tier, SetNo set);
  void JudgeDestroyed(const Event& event, TierId tier, SetNo set);
  // Whether the tier is healthy, known, not in EMERGENCY and has free room, and does
  // take it. `after_rest`: soon, if not in the moment after a failed copy.
  bool CouldTake(TierId tier, Bytes size, bool after_rest);
  bool IsEmergencyAbove(TierId tier);
  Bytes FreeRoom(TierId tier);
  std::uint64_t Refusals() const;

  // world_graph.cc: clients' predictions, and evictions by them.
  void DoGraph();
  void BeginRun(const std::string& run);
  void DoHint();
  void JudgeWorkflow(const Event& event, TierId tier, SetNo set);
  bool MustBeProtected(TierId tier, SetNo set);
  bool IsWanted(SetNo set);

  // world_audit.cc: accounts, by brute force.
  void Compare();
  void Audit();
  void CheckEmpty(std::string_view when);

  // world_ends.cc
  void EndFaults();
  void Calm();
  void EndFlights();
  void Restart();
  void FlushFirst();
  void Crash(bool power);
  using Listing = std::map<std::string, SetNo>;
  Listing ListDisk();
  void RotJournal(std::set<SetNo>* required);
  void JudgeDeadline(SetNo set);
  void Reopen(bool clean, bool power, const std::set<SetNo>& known,
              const std::set<SetNo>& required);
  void CloseDown();

  const Options options_;
  const Plan plan_;
  sim::Rng rng_;
  sim::Verdict verdict_;
  std::shared_ptr<testing::ManualClock> clock_;
  std::vector<sim::Curve> curves_;  // By TierId.
  std::shared_ptr<testing::MemoryFiles> memory_files_;
  std::shared_ptr<testing::FaultyFiles> files_;
  Ledger ledger_;

  // One life of our process.
  std::uint64_t life_ = 0;
  std::shared_ptr<Core> core_;
  std::shared_ptr<StepGraph> graph_;
  std::array<WatchedTier*, 2> memory_{};
  std::array<testing::FakeDevice*, 2> devices_{};
  WatchedDisk* disk_ = nullptr;
  DiskStore* real_disk_ = nullptr;
  TransferPaths ways_;
  bool loading_ = false;
  std::map<SetNo, TimePoint> listed_deadlines_;  // As ListDisk found them.
  Listing found_;                                // On disk when this life began, not adopted yet.
  std::set<KeyNo> touched_;                      // Set or erased since, while loading.
  std::uint64_t epoch_ = 0;                      // Good syncs.
  bool disk_trouble_ = false;                    // The result of a sync may be wrong.
  bool journal_trouble_ = false;                 // Records may have been damaged.
  bool kill_next_ = false;
  bool writes_gone_ = false;
  std::array<TimePoint, kTiers> failed_at_{};
  std::array<TimePoint, kTiers> level_since_{};
  std::array<std::size_t, kTiers * kTiers> waiting_{};

  std::vector<Pending> pending_;
  std::vector<PendingTransfer> transfers_;
  std::set<const Transfer*> under_way_;  // Run or not, and not ended.
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Holding> holdings_;
  bool dead_ = false;  // What happens now is ignored.
  bool on_strand_ = false;
  bool waiting_now_ = false;  // The caller of Post waits for the task.
  bool closing_ = false;
  bool calm_ = false;  // After the last event: nothing is slow.
  const Strand::Task* copying_ = nullptr;
  Flight* submitting_ = nullptr;
  Flight* running_ = nullptr;  // The flight whose task is on the strand.
  std::map<const Strand::Task*, Flight*> tasks_;

  // What is being done; events are judged by it.
  bool giving_back_ = false;
  bool clearing_ = false;
  bool no_set_ = false;  // What runs admits nothing, except sets that wait for room.
  std::uint64_t refusals_before_ = 0;
  bool damaged_ = false;  // Something on disk may be damaged.
  bool sampling_ = false;
  TimePoint next_sample_;
  std::uint64_t unknown_until_ = 0;  // Event number, as the next.
  std::uint64_t faults_until_ = 0;
  std::uint64_t slow_until_ = 0;

  std::uint64_t fingerprint_ = 0;
  std::size_t most_live_ = 0;
};

}  // namespace spillway::tiersim
