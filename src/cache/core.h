// The Core is a cache's engine together with what makes it safe from any
// thread: the strand its changes run on, the lock-free paths that need no
// strand, the mover, and what it does with readings between Start and Stop.
//
// Life: a Cache holds it. If leases are open when the Cache goes, or a move
// does not end, the Core holds itself until the last of them is released.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/strand.h"
#include "cache/engine.h"
#include "cache/giver.h"
#include "cache/tier_sense.h"
#include "cache/use_log.h"
#include "device/device.h"
#include "spillway/cache.h"

namespace spillway {

// Up to here a value is copied on the strand, in one event instead of two: the
// copy costs less than the second event.
inline constexpr Bytes kCopyOnStrandMax = 4 * kKiB;

// Where a set's bytes are: on the device as soon as one of them is.
inline Place WhereIs(const Source& source) {
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.place == Place::kDevice) return Place::kDevice;
  }
  return Place::kHost;
}
// Where a get wants to find the bytes: who has them copied does not care.
inline std::optional<Place> WhereOf(const GetOptions& options) {
  if (!options.into.fragments().empty()) return std::nullopt;
  return options.where;
}

class Core : public std::enable_shared_from_this<Core> {
 public:
  // What a cache is made of besides its options. Cache::Open fills it from the
  // device the options name; the simulator and scenarios bring their own.
  struct Parts {
    // What the tiers stand on, if anything.
    std::shared_ptr<Device> device;
    std::shared_ptr<Device> host;
    TierStack tiers;
    std::array<std::shared_ptr<PressureSource>, kTiers> pressure;  // By TierId.
    std::unique_ptr<Strand> strand;                                // Empty: a CombiningStrand.
    std::unique_ptr<Executor> executor;                            // Empty: a ThreadExecutor.
    std::unique_ptr<Mover> mover;  // Empty: a ThreadMover, if there is more than one tier.
    Bytes total = 0;               // Of the card, to scale samples given by hand.
    Bytes reserve = 0;
    int hash_bits = 64;
    std::size_t moves_per_step = 4096;
    std::int64_t unix_offset = 0;
    bool load = true;  // Look for what is on disk, at once.
  };
  static Result<std::shared_ptr<Core>> Open(const Options& options, Parts parts);
  static std::unique_ptr<Cache> Wrap(std::shared_ptr<Core> core);
  static Core* Of(Cache& cache) { return cache.core_.get(); }

  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  // The Cache has gone. An error says that the disk was not told all it had to
  // be, or that it hangs.
  Status Close();

  Status Start();
  void Stop();

  Status Set(std::string_view key, const Source& source, const SetOptions& options);
  // What is in memory; `lease` must be empty, and stays so but for a hit.
  enum class Found : std::uint8_t { kHit, kMiss, kBelow };
  // `is_use`: the log of uses has it; if not, the caller sees to that.
  Found Find(std::string_view key, Lease* lease, bool is_use = true);
  // And there; empty: in whatever memory.
  Found Find(std::string_view key, std::optional<Place> where, Lease* lease);
  Place PlaceOf(const std::byte* data) const;
  bool Get(std::string_view key, Lease* lease) { return Find(key, lease) == Found::kHit; }
  // Brings it up and waits for that. A miss: no lease. Errors: Deadline,
  // NotResident (wait 0), Unavailable, Busy, NoMemory.
  Status Fetch(std::string_view key, std::optional<Place> where, Duration wait, Lease* lease);
  // What Cache::Get does unless it was a hit.
  void NoHit(std::string_view key, Found found, Result<std::optional<Lease>>* got);
  // Whether the device's memory is its own: only it can read and write it.
  bool on_gpu() const { return on_gpu_; }
  // Empty: a lease on a device address can be had. Else why not.
  std::string_view why_no_address() const {
    if (!on_gpu_) return "the tier is on the cpu device; there is no GPU address";
    if (!device_->has_addresses()) {
      return "this GPU's memory is had by slabs, whose addresses are not lent; name fragments to "
             "copy into";
    }
    return {};
  }
  // From anywhere into `sink`, by way of `lease`.
  Status CopyOut(std::string_view key, const Lease& lease, const Sink& sink) const;
  // The same; where the device is lost under it, by way of another copy. `lease`
  // is empty afterwards if there is none: a miss.
  Status CopyOut(std::string_view key, const Sink& sink, Duration wait, Lease* lease);
  std::size_t Prefetch(const std::string_view* keys, std::size_t count);
  std::size_t GetMany(const std::string_view* keys, std::size_t count, Lease* leases);
  bool Erase(std::string_view key);
  void Clear();
  bool Contains(std::string_view key);
  bool Touch(std::string_view key);
  // Leases the run if `leases` is given; counts it in any case.
  std::size_t Match(const std::vector<std::string_view>& keys, std::vector<Lease>* leases);
  void Submit(Operation* operations, std::size_t count, Duration within, Completion done);

  // One pass of the policy. `sample` empty: no sample, only time (a tick).
  struct SampleValue {
    std::optional<double> pressure;  // Empty: the reading failed.
    Bytes total = 0;
    std::optional<Bytes> held = {};  // See Reading.
  };
  // A reading that failed, or makes no sense, is none.
  static SampleValue ValueOf(const Result<Reading>& reading);
  // A pass is several events of the strand: time, then the sample, then relief
  // bit by bit. Pass runs them one after another; others may come in between,
  // and the simulator sees to it that they do.
  class PassSteps {
   public:
    enum class Next : std::uint8_t { kLook, kRelieve, kNothing };

    // `left`, if any: gets what leaves.
    PassSteps(Core* core, TierId tier, const std::optional<SampleValue>& sample,
              std::vector<Departure>* left = nullptr)
        : core_(core), tier_(tier), sample_(sample), left_(left) {}
    Next next() const { return next_; }
    void Step();  // On the strand, until next() is kNothing.
    Engine::Progress progress() const { return progress_; }
    bool acted() const { return acted_; }  // Something has left.

   private:
    void Look();
    void Relieve();

    Core* const core_;
    const TierId tier_;
    const std::optional<SampleValue> sample_;
    Next next_ = Next::kLook;
    Engine::Progress progress_ = Engine::Progress::kDone;
    bool acted_ = false;
    std::vector<Departure>* const left_;
  };
  // Of the top tier; those below follow it.
  void Pass(const std::optional<SampleValue>& sample, std::vector<Departure>* left = nullptr);
  Applied Apply(std::optional<double> pressure);
  Reclaimed Reclaim(Bytes bytes, Duration within);
  Reclaimed ReclaimUntil(Bytes bytes, std::chrono::steady_clock::time_point until);
  // What of it can go now. `more`: some is on its way, call again in a moment.
  Reclaimed ReclaimSome(Bytes bytes, bool* more);
  // Moves time on without a pass.
  void Look();

  void Attach(std::shared_ptr<StepGraph> graph, Cache::AgentOrder order);
  std::shared_ptr<StepGraph> step_graph();
  Mode mode();
  void Advise(std::string_view key, const Advice& advice);

  Engine& engine() { return *engine_; }
  const Engine& engine() const { return *engine_; }
  Strand& strand() const { return *strand_; }
  Executor& executor() { return *executor_; }
  Clock& clock() const { return *clock_; }
  Stats stats();
  std::string Explain(std::string_view key);
  void ForEach(const std::function<void(const Cache::EntryInfo&)>& visit);
  bool Visit(std::string_view key, const std::function<void(const Cache::EntryInfo&)>& visit);
  std::vector<Cache::Passage> Journey(std::string_view key, std::size_t most);
  std::vector<Cache::UnderWay> MovesUnderWay(std::size_t most);
  // Memory was given back because somebody asked for it.
  void GaveBack(Bytes bytes, Duration took);

  void Release(Slot* slot) noexcept {
    if (slot->word.Release() == LeaseWord::After::kReap) HandOverForReaping(slot);
  }
  const Record& RecordOf(const Slot* slot) const {
    return engine_->store().slots().record(engine_->store().slots().IdOf(slot));
  }

  // "device", "host" or "disk", if the cache has it.
  std::optional<TierId> TierNamed(std::string_view name) const;
  // Sets a new key beside the strand, where that can be (Inlet). False: nothing
  // has changed, and it takes an event.
  bool SetBeside(std::string_view key, std::uint64_t hash, const Source& source,
                 const SetOptions& options);
  bool WriteBeside(std::uint32_t reservation, const Source& source);
  // Writes the value of a reservation, on the caller's thread. After an error
  // it is aborted.
  Status Fill(std::uint32_t reservation, const Source& source);
  // Between Start and Stop there is work for quiet times, too.
  bool started() const { return started_.load(std::memory_order_relaxed); }
  // The engine's answer, as a lease.
  void HandOver(Slot* leased, const std::byte* data, Lease* lease);

  // Not on the strand: waits until what was set anew or erased can't come back
  // from disk after a kill. Unavailable: it can.
  Status Settle(Duration within);
  // The same for a write, which waits for a while and is done in any case.
  void SettleWrite();
  bool needs_settling() const { return engine_->store().disk()->needs_settling(); }

  // A graph is told something, on whichever thread.
  void HearOf(StepGraph* graph);

  // Border checks that need no state.
  Status CheckSource(std::string_view key, const Source& source, const SetOptions& options) const;
  // Bounds what Submit may have under way.
  bool TakeTicket();
  void GiveTicket() { in_flight_.fetch_sub(1, std::memory_order_relaxed); }
  // Batches run on our strand and our executor's thread, neither of which may
  // be the one that destroys us: Close waits for them. BatchEnds is the last
  // that a batch does with us.
  void BatchBegins() { batches_.fetch_add(1, std::memory_order_relaxed); }
  void BatchEnds() noexcept;

 private:
  Core(const Options& options, Parts&& parts, std::unique_ptr<Engine>&& engine);

  Slot* FindSlot(std::uint64_t hash, std::string_view key, Index::Use use);
  // What Find does with what FindSlot found, which may be null.
  Found Lend(Slot* slot, TimePoint tick, Lease* lease, bool is_use = true);
  // The same for one that is known to be good.
  void HandOut(Slot* slot, const std::byte* data, TimePoint tick, Lease* lease, bool is_use = true);
  Found Miss(Slot* expired);
  Found NotInMemory(Slot* slot);
  // Where it was found in a place it was not wanted in.
  Found FindElsewhere(Place where, Lease* lease);
  bool Expired(Slot* slot) const;
  static void Stamp(Slot* slot, TimePoint tick);
  void NoteHit(const Slot& slot) const;
  void CountMiss();
  // From any thread: the strand will free it.
  void HandOverForReaping(Slot* slot) noexcept;
  void ReapAll();

  static void OnMove(Strand::Task* task);
  struct WaitingGet;
  bool Await(WaitingGet* get, Duration wait);
  std::size_t FetchMany(const std::string_view* keys, const std::vector<std::size_t>& which,
                        Lease* leases);
  void WaitForMoves();
  void StartLoading();
  void AwaitEarly();
  void FreeEarly();
  Status CloseDisk(bool hangs, std::unique_ptr<BlobStore> disk);
  struct FoundBatch;
  void AdoptFound();
  Result<std::uint32_t> WaitForRoom(const NewEntry& entry);
  void LetGoOfSelf();
  void StopSensing();

  const Options options_;
  const std::shared_ptr<Clock> clock_;
  const std::shared_ptr<Device> device_;
  const bool on_gpu_;
  const std::shared_ptr<Device> host_;
  const Bytes total_;
  const std::unique_ptr<Strand> strand_;
  std::unique_ptr<Executor> executor_;  // This and the mover are constant once open.
  std::unique_ptr<Mover> mover_;
  std::unique_ptr<UseLog> uses_;  // From Open to Close; null: nothing is recorded.
  const std::unique_ptr<Engine> engine_;
  const Index& index_;  // The engine's: a hit has no time to ask its way there.

  struct ReapTask : Strand::Task {
    Core* core;
  } reap_task_;
  struct InletGate final : Strand::Gate {
    Core* core = nullptr;
    void Shut() override { core->engine_->ShutInlet(*core->clock_); }
    void Reopen() override { core->engine_->ReopenInlet(); }
  } gate_;
  CombiningStrand* guarded_ = nullptr;  // The strand, where sets may be beside it.
  std::atomic<bool> reap_posted_{false};
  ReapTask follow_task_;  // The graph was told something.
  std::atomic<bool> follow_posted_{false};
  std::atomic<std::uint32_t> reap_head_{0};  // Slot number + 1, linked through Slot::next.
  std::shared_ptr<Core> self_;               // After Close, while leases are open. Strand only.

  mutable std::mutex give_back_mutex_;
  GiveBackStats give_back_;  // Guarded by give_back_mutex_.
  std::mutex start_mutex_;
  std::array<std::unique_ptr<TierSense>, kTiers> senses_;  // Constant; what they watch is not.
  std::atomic<bool> started_{false};
  FoundBatch* found_first_ = nullptr;  // Not adopted yet; strand only.
  FoundBatch* found_last_ = nullptr;
  std::atomic<bool> loading_{false};     // A miss may still be found on disk.
  std::atomic<bool> loads_late_{false};  // Somebody has waited for that in vain.

  std::atomic<bool> said_unsettled_{false};

  std::atomic<std::size_t> in_flight_{0};
  std::atomic<int> batches_{0};
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value{0};
  };
  std::array<Counter, 8> misses_;  // Striped by thread.
  std::unique_ptr<Giver> giver_;   // From Open to Close; its thread uses all the rest.
};

}  // namespace spillway
