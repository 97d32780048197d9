// SPDX-License-Identifier: Apache-2.0
// The Core is a cache's engine together with what makes it safe on any thread: the
// strand that changes run on, the lock-free paths that need no strand, the transfer
// threads, and the sampling of pressure between Start and Stop.
//
// Lifetime: a Cache holds it. If leases are open when the Cache is destroyed, or a
// transfer does not end, the Core holds itself until the last of them is released.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/mutex.h"
#include "base/strand.h"
#include "cache/engine.h"
#include "cache/loss_log.h"
#include "cache/pressure_monitor.h"
#include "cache/reclaim_server.h"
#include "cache/use_log.h"
#include "device/device.h"
#include "spillway/cache.h"

namespace spillway {

// Values up to this size are copied on the strand, in one event instead of two: the
// copy costs less than a second event.
inline constexpr Bytes kCopyOnStrandMax = 4 * kKiB;

// Where a set's bytes are: on the device as soon as one fragment is.
inline Place WhereIs(const Source& source) {
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.place == Place::kDevice) return Place::kDevice;
  }
  return Place::kHost;
}
// Where a get wants the bytes. A get that has them copied takes them from anywhere.
inline std::optional<Place> WhereOf(const GetOptions& options) {
  if (!options.into.fragments().empty()) return std::nullopt;
  return options.where;
}

class Core : public std::enable_shared_from_this<Core> {
 public:
  // What a cache is made of besides its options. Cache::Open fills it from the
  // device the options name; the simulator and scenarios bring their own.
  struct Parts {
    // The devices under the tiers, if any.
    std::shared_ptr<Device> device;
    std::shared_ptr<Device> host;
    TierStack tiers;
    std::array<std::shared_ptr<PressureSource>, kTiers> pressure;  // By TierId.
    std::unique_ptr<Strand> strand;                                // Empty: a CombiningStrand.
    std::unique_ptr<Executor> executor;                            // Empty: a ThreadExecutor.
    std::unique_ptr<TransferQueue>
        transfer_queue;  // Empty: a ThreadTransferQueue, if there is more than one tier.
    Bytes total = 0;     // Of the card, to scale samples given by hand.
    Bytes reserve = 0;
    int hash_bits = 64;
    HashSeed hash_seed;  // Programs use a random one (Cache::Open).
    std::size_t moves_per_step = 4096;
    std::int64_t unix_offset = 0;
    // How long Close waits for transfers in flight, by the machine's clock: they are
    // cancelled and stop at the next piece; a disk that hangs is not waited for any longer.
    // Zero in simulated worlds, where nothing goes on by itself.
    Duration close_within = std::chrono::seconds(5);
    // How long a write waits for a disk that is being read in, by the machine's clock. Zero
    // in simulated worlds, for the same reason: then nothing waits for it.
    Duration load_within = std::chrono::seconds(10);
    bool load = true;           // Start to read in what is on disk, at once.
    bool tells_losses = false;  // Log last copies that are destroyed.
  };
  static Result<std::shared_ptr<Core>> Open(const Options& options, Parts parts);
  static std::unique_ptr<Cache> Wrap(std::shared_ptr<Core> core);
  static Core* Of(Cache& cache) { return cache.core_.get(); }

  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  // The Cache is being destroyed. Error: the disk could not record all it had to, or it
  // hangs.
  Status Close();

  Status Start();
  void Stop();

  Status Set(std::string_view key, const Source& source, const SetOptions& options);
  // Looks a value up in memory; `lease` must be empty, and is set only on a hit.
  enum class Found : std::uint8_t { kHit, kMiss, kBelow };
  // `is_use`: record it in the log of uses; if false, the caller does.
  Found Find(std::string_view key, Lease* lease, bool is_use = true);
  // The same, in `where`; empty: in any memory.
  Found Find(std::string_view key, std::optional<Place> where, Lease* lease);
  Place PlaceOf(const std::byte* data) const;
  bool Get(std::string_view key, Lease* lease) { return Find(key, lease) == Found::kHit; }
  // Brings the value up and waits for it. A miss: no lease. Errors: Deadline,
  // NotResident (wait is 0), Unavailable, Busy, NoMemory.
  Status Fetch(std::string_view key, std::optional<Place> where, Duration wait, Lease* lease);
  // The rest of Cache::Get after a lookup that was no hit.
  void NoHit(std::string_view key, Found found, Result<std::optional<Lease>>* got);
  // Whether only the device can read and write its memory.
  bool on_gpu() const { return on_gpu_; }
  // Empty: a device address can be leased. Otherwise the reason why not.
  std::string_view why_no_address() const {
    if (!on_gpu_) return "the tier is on the cpu device; there is no GPU address";
    if (!device_->has_addresses()) {
      return "this GPU's memory is allocated in slabs, whose addresses can't be leased; name "
             "fragments to copy into";
    }
    return {};
  }
  // Copies leased bytes from wherever they are into `sink`.
  Status CopyOut(std::string_view key, const Lease& lease, const Sink& sink) const;
  // The same; if the device is lost meanwhile, from a copy in another tier. `lease` is
  // empty afterwards if there is none: a miss.
  Status CopyOut(std::string_view key, const Sink& sink, Duration wait, Lease* lease);
  std::size_t Prefetch(const std::string_view* keys, std::size_t count);
  std::size_t GetMany(const std::string_view* keys, std::size_t count, Lease* leases);
  bool Erase(std::string_view key);
  void Clear();
  bool Contains(std::string_view key);
  bool Touch(std::string_view key);
  // Leases the run of matching keys if `leases` is given; returns its length in any
  // case.
  std::size_t Match(const std::vector<std::string_view>& keys, std::vector<Lease>* leases);
  void Submit(Operation* operations, std::size_t count, Duration within, Completion done);

  // A sample for one pass of the policy. A pass without one is a tick: only time
  // advances.
  struct SampleValue {
    std::optional<double> pressure;  // Empty: the reading failed.
    Bytes total = 0;
    std::optional<Bytes> held = {};  // See Reading.
  };
  // A reading that failed or makes no sense gives a failed sample.
  static SampleValue ValueOf(const Result<Reading>& reading);
  // A pass is several events on the strand: a tick, then the sample, then relief in
  // slices. Pass runs them one after another. Other events may run in between, and the
  // simulator makes sure that they do.
  class PassSteps {
   public:
    enum class Next : std::uint8_t { kTick, kRelieve, kNothing };

    // `left`, if given, collects what is evicted.
    PassSteps(Core* core, TierId tier, const std::optional<SampleValue>& sample,
              std::vector<Eviction>* left = nullptr)
        : core_(core), tier_(tier), sample_(sample), left_(left) {}
    Next next() const { return next_; }
    void Step();  // On the strand, until next() is kNothing.
    Engine::Progress progress() const { return progress_; }
    bool acted() const { return acted_; }  // Something was evicted.

   private:
    void Tick();
    void Relieve();

    Core* const core_;
    const TierId tier_;
    const std::optional<SampleValue> sample_;
    Next next_ = Next::kTick;
    Engine::Progress progress_ = Engine::Progress::kDone;
    bool acted_ = false;
    std::vector<Eviction>* const left_;
  };
  // `sample` is of the top tier; the tiers below get a tick.
  void Pass(const std::optional<SampleValue>& sample, std::vector<Eviction>* left = nullptr);
  Applied Apply(std::optional<double> pressure);
  Reclaimed Reclaim(Bytes bytes, Duration within);
  Reclaimed ReclaimUntil(Bytes bytes, std::chrono::steady_clock::time_point until);
  // Frees what can be freed now. `more`: more is being copied down; call again in a
  // moment.
  Reclaimed ReclaimSome(Bytes bytes, bool* more);
  // Advances time without a pass.
  void Tick();

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
  std::vector<DeviceProcess> Processes() const;  // Any thread.
  std::string Explain(std::string_view key);
  void ForEach(const std::function<void(const Cache::EntryInfo&)>& visit);
  bool Visit(std::string_view key, const std::function<void(const Cache::EntryInfo&)>& visit);
  std::vector<Cache::Transition> History(std::string_view key, std::size_t most);
  std::vector<Cache::InFlight> TransfersInFlight(std::size_t most);
  // Records that memory was given back because it was asked for.
  void GaveBack(Bytes bytes, Duration took);

  void Release(Slot* slot) noexcept {
    if (slot->word.Release() == LeaseWord::After::kReap) HandOverForReaping(slot);
  }
  const Record& RecordOf(const Slot* slot) const {
    return engine_->store().slots().record(engine_->store().slots().IdOf(slot));
  }

  // "device", "host" or "disk", if the cache has it.
  std::optional<TierId> TierNamed(std::string_view name) const;
  // Writes the value of a reservation, on the caller's thread. After an error the
  // reservation has been aborted.
  Status Fill(std::uint32_t reservation, const Source& source);
  // Between Start and Stop background work is done, too.
  bool started() const { return started_.load(std::memory_order_relaxed); }
  // Makes a lease of the engine's answer.
  void HandOver(Slot* leased, const std::byte* data, Lease* lease);

  // Not on the strand: waits until what was set again or erased can't come back from
  // disk after a kill. Unavailable: it still can.
  Status FlushDeletes(Duration within);
  // The same after a write, which is done in any case: waits up to ten seconds while the
  // disk is read in, and one second for the disk to record the write.
  void FlushAfterWrite();
  // Waits until the disk has been read in; false: it takes longer.
  bool AwaitLoading(Duration within);
  // A miss may still be found on disk.
  bool loading() const { return loading_.load(std::memory_order_acquire); }
  bool has_pending_deletes() const { return engine_->store().disk()->has_pending_deletes(); }

  // Subscribes to changes of a graph, which may come from any thread.
  void OnGraphChanged(StepGraph* graph);

  // Checks of arguments that need no state.
  Status CheckSource(std::string_view key, const Source& source, const SetOptions& options) const;
  // Bounds the operations of Submit that are in flight. False: there are too many.
  bool TakeTicket();
  void GiveTicket() { in_flight_.fetch_sub(1, std::memory_order_relaxed); }
  // Batches run on our strand and our executor's thread, and neither may be the thread
  // that destroys the Core: Close waits for all batches. BatchEnds must be the last
  // call of a batch.
  void BatchBegins() { batches_.fetch_add(1, std::memory_order_relaxed); }
  void BatchEnds() noexcept;

 private:
  Core(const Options& options, Parts&& parts, std::unique_ptr<Engine>&& engine);

  Slot* FindSlot(std::uint64_t hash, std::string_view key, Index::Use use);
  // Turns the result of FindSlot, which may be null, into a lease.
  Found Lend(Slot* slot, TimePoint tick, Lease* lease, bool is_use = true);
  // The same for a slot that is known to be readable.
  void HandOut(Slot* slot, const std::byte* data, TimePoint tick, Lease* lease, bool is_use = true);
  Found Miss(Slot* expired);
  Found NotInMemory(Slot* slot);
  // The value was found, but not in `where`: leases the copy there, if there is one.
  Found FindElsewhere(Place where, Lease* lease);
  bool Expired(Slot* slot) const;
  static void Stamp(Slot* slot, TimePoint tick);
  void NoteHit(const Slot& slot) const;
  void CountMiss();
  // On any thread: the strand will free the slot.
  void HandOverForReaping(Slot* slot) noexcept;
  void ReapAll();

  static void OnTransfer(Strand::Task* task);
  struct WaitingGet;
  bool Await(WaitingGet* get, Duration wait);
  std::size_t FetchMany(const std::string_view* keys, const std::vector<std::size_t>& which,
                        Lease* leases);
  void AwaitTransfers();
  void StartLoading();
  void AwaitEarly();
  void FreeEarly();
  Status CloseDisk(bool hangs, std::unique_ptr<BlobStore> disk);
  struct FoundBatch;
  void AdoptFound();
  Result<std::uint32_t> WaitForRoom(const NewEntry& entry);
  void ReleaseSelf();
  void StopSensing();

  const Options options_;
  const std::shared_ptr<Clock> clock_;
  const std::shared_ptr<Device> device_;
  const bool on_gpu_;
  const std::shared_ptr<Device> host_;
  const Bytes total_;
  const Duration close_within_;
  const Duration load_within_;
  const std::unique_ptr<Strand> strand_;
  std::unique_ptr<Executor> executor_;  // This and the transfer queue are constant once open.
  std::unique_ptr<TransferQueue> transfer_queue_;
  std::optional<LossLog> losses_;  // Strand only. Empty: losses are only counted.
  std::unique_ptr<UseLog> uses_;   // From Open to Close; null: nothing is recorded.
  const std::unique_ptr<Engine> engine_;
  const Index& index_;  // The engine's; saves a hit the way through it.

  struct ReapTask : Strand::Task {
    Core* core;
  } reap_task_;
  std::atomic<bool> reap_posted_{false};
  ReapTask follow_task_;  // The graph has changed.
  std::atomic<bool> follow_posted_{false};
  std::atomic<std::uint32_t> reap_head_{0};  // Slot number + 1, linked through Slot::next.
  std::shared_ptr<Core> self_;               // After Close, while leases are open. Strand only.

  mutable Mutex give_back_mutex_;
  GiveBackStats give_back_ SPILLWAY_GUARDED_BY(give_back_mutex_);
  Mutex start_mutex_;
  std::array<std::unique_ptr<PressureMonitor>, kTiers>
      monitors_;  // Constant; what they watch is not.
  std::atomic<bool> started_{false};
  FoundBatch* found_first_ = nullptr;  // Found on disk, not adopted yet; strand only.
  FoundBatch* found_last_ = nullptr;
  std::atomic<bool> loading_{false};     // A missing key may still be found on disk.
  std::atomic<bool> loads_late_{false};  // A wait for that has timed out.

  std::atomic<bool> said_pending_{false};

  std::atomic<std::size_t> in_flight_{0};
  std::atomic<int> batches_{0};
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value{0};
  };
  std::array<Counter, 8> misses_;  // Striped by thread.
  std::unique_ptr<ReclaimServer>
      reclaim_server_;  // From Open to Close; its thread uses all the rest.
};

}  // namespace spillway
