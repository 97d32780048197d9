// The Core is a cache's engine together with what makes it safe from any
// thread: the strand its changes run on, the lock-free paths that need no
// strand, and what it does with readings between Start and Stop.
//
// Life: a Cache holds it. If leases are open when the Cache goes, the Core
// holds itself until the last of them is released.
#pragma once

#include <array>
#include <atomic>
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
#include "device/device.h"
#include "monitor/bounded_read.h"
#include "monitor/poller.h"
#include "spillway/cache.h"

namespace spillway {

class Core : public std::enable_shared_from_this<Core>, private Poller::Client {
 public:
  // What a cache is made of besides its options. Cache::Open fills it from the
  // device the options name; the simulator and scenarios bring their own.
  struct Parts {
    std::shared_ptr<Device> device;  // What the tier stands on, if anything.
    std::unique_ptr<Tier> tier;
    std::shared_ptr<PressureSource> pressure;
    std::unique_ptr<Strand> strand;      // Empty: a CombiningStrand.
    std::unique_ptr<Executor> executor;  // Empty: a ThreadExecutor.
    Bytes total = 0;                     // Of the card, to scale samples given by hand.
    Bytes reserve = 0;
    int hash_bits = 64;
    std::size_t moves_per_step = 4096;
  };
  static Result<std::shared_ptr<Core>> Open(const Options& options, Parts parts);
  static std::unique_ptr<Cache> Wrap(std::shared_ptr<Core> core);
  static Core* Of(Cache& cache) { return cache.core_.get(); }

  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() override;

  // The Cache has gone.
  void Close();

  Status Start();
  void Stop();

  Status Set(std::string_view key, const Source& source, const SetOptions& options);
  // False: a miss, and `lease`, which must be empty, stays so.
  bool Get(std::string_view key, Lease* lease);
  Status GetInto(std::string_view key, const Sink& sink, Operation* operation);
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
    PassSteps(Core* core, const std::optional<SampleValue>& sample,
              std::vector<Departure>* left = nullptr)
        : core_(core), sample_(sample), left_(left) {}
    Next next() const { return next_; }
    void Step();  // On the strand, until next() is kNothing.
    Engine::Progress progress() const { return progress_; }
    bool acted() const { return acted_; }  // Something has left.

   private:
    void Look();
    void Relieve();

    Core* const core_;
    const std::optional<SampleValue> sample_;
    Next next_ = Next::kLook;
    Engine::Progress progress_ = Engine::Progress::kDone;
    bool acted_ = false;
    std::vector<Departure>* const left_;
  };
  void Pass(const std::optional<SampleValue>& sample, std::vector<Departure>* left = nullptr);
  Applied Apply(std::optional<double> pressure);
  Reclaimed Reclaim(Bytes bytes, Duration within);
  // Moves time on without a pass.
  void Look();

  Engine& engine() { return *engine_; }
  const Engine& engine() const { return *engine_; }
  Strand& strand() const { return *strand_; }
  Executor& executor() { return *executor_; }
  Clock& clock() const { return *clock_; }
  Stats stats();
  std::string Explain(std::string_view key);
  void ForEach(const std::function<void(const Cache::EntryInfo&)>& visit);

  void Release(Slot* slot) noexcept {
    if (slot->word.Release() == LeaseWord::After::kReap) HandOverForReaping(slot);
  }
  const Record& RecordOf(const Slot* slot) const {
    return engine_->store().slots().record(engine_->store().slots().IdOf(slot));
  }

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
  Core(const Options& options, Parts parts, std::unique_ptr<Engine> engine);

  Slot* Find(std::uint64_t hash, std::string_view key, Index::Use use);
  // What Get does with what Find found, which may be null.
  bool Lend(Slot* slot, TimePoint tick, Lease* lease);
  // The same for one that is known to be good.
  void HandOut(Slot* slot, TimePoint tick, Lease* lease);
  bool Miss(Slot* expired);
  bool Expired(Slot* slot) const;
  static void Stamp(Slot* slot, TimePoint tick);
  void CountMiss();
  // From any thread: the strand will free it.
  void HandOverForReaping(Slot* slot) noexcept;
  void ReapAll();

  // On the poller's threads: one step of a pass at a time, so that other
  // devices are looked at in between.
  Next OnReading(const Result<Reading>& reading) override;
  Next Continue() override;
  void CountSource(SourceStats* stats);

  const Options options_;
  const std::shared_ptr<Clock> clock_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<PressureSource> pressure_;
  BoundedReader by_hand_;
  const Bytes total_;
  const std::unique_ptr<Strand> strand_;
  const std::unique_ptr<Executor> executor_;
  const std::unique_ptr<Engine> engine_;
  const Index& index_;  // The engine's: a hit has no time to ask its way there.

  struct ReapTask : Strand::Task {
    Core* core;
  } reap_task_;
  std::atomic<bool> reap_posted_{false};
  std::atomic<std::uint32_t> reap_head_{0};  // Slot number + 1, linked through Slot::next.
  std::shared_ptr<Core> self_;               // After Close, while leases are open. Strand only.

  std::mutex start_mutex_;
  std::unique_ptr<Poller::Watch> watch_;  // Guarded by start_mutex_.
  std::optional<PassSteps> pass_;         // The poller's.

  // The last good reading, and when it was.
  std::mutex reading_mutex_;
  std::optional<Reading> reading_;  // Guarded by reading_mutex_.
  TimePoint read_at_;               // Guarded by reading_mutex_.

  std::atomic<std::size_t> in_flight_{0};
  std::atomic<int> batches_{0};
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value{0};
  };
  std::array<Counter, 8> misses_;  // Striped by thread.
};

}  // namespace spillway
