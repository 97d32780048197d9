// SPDX-License-Identifier: Apache-2.0
#include "cache/flush.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <new>
#include <ranges>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutant.h"
#include "cache/core.h"

namespace spillway {

namespace {

// How many transfers run at once: a few large values keep the disk busy; small ones are
// written in batches of several hundred (`ThreadTransferQueue`) by each of two threads.
constexpr std::size_t kFew = 32;
constexpr std::size_t kMost = 1024;
constexpr Bytes kBytesOfMany = 32 * kMiB;
// After this many failed writes a value is given up, while others go on.
constexpr int kAttempts = 3;
// If everything given to the disk has failed for this long, it will not recover. A full
// file system is tried again after a second (DiskStore), a failing one after a quarter
// of that (Engine::FinishDown).
constexpr Duration kFailingFor = std::chrono::seconds(3);
constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);
// For transfers that are in flight when the time is over and have been cancelled.
constexpr int kLooksAtTheEnd = 500;

}  // namespace

// Used on the strand, except for its constructor.
class Flusher {
 public:
  explicit Flusher(Engine* engine) : engine_(*engine), store_(engine->store()) {}

  bool has_disk() const { return store_.disk() != nullptr; }

  // Lists the entries that only memory holds, the most valuable first.
  void Begin() {
    in_flight_.reserve(kMost);
    List(Unwritten());
  }

  // Starts the transfers that may run now. False: nothing is left to do or to wait for.
  bool Step(TimePoint now, TimePoint time) {
    Collect(time);
    if (!gave_up_) GiveUpIfDown();
    why_busy_ = {};
    while (!gave_up_ && HasNext() && MayStart(items_[Next()].id)) {
      const std::size_t at = Next();
      const Going going = Start(&items_[at], now);
      if (going == Going::kBusy && !MutantOn(Mutant::kBusyNotAskedAgain)) break;
      again_.empty() ? void(++next_) : again_.pop_front();
      if (going != Going::kYes) continue;
      in_flight_.push_back(at);
      bytes_in_flight_ += SizeOf(items_[at].id);
    }
    return !in_flight_.empty() || (!gave_up_ && (HasNext() || ListMore()));
  }

  // Stops transfers in flight at their next piece and starts no more. False: none is in
  // flight any more.
  bool CallOff() {
    gave_up_ = true;
    Collect(failing_since_);
    for (const std::size_t at : in_flight_) {
      Transfer* const transfer = TransferOf(items_[at].id);
      if (transfer->to > transfer->from) transfer->cancelled.store(true, std::memory_order_relaxed);
    }
    return !in_flight_.empty();
  }

  // The progress so far.
  Flushed SoFar() const {
    Flushed flushed;
    flushed.entries = written_.entries;
    flushed.bytes = written_.bytes;
    flushed.entries_left = items_.size() - std::min(items_.size(), done_);
    flushed.bytes_left = total_bytes_ - std::min(total_bytes_, done_bytes_);
    flushed.why_busy = why_busy_;
    return flushed;
  }

  // The entries that only memory holds now, by cause.
  Flushed Left() const {
    Flushed flushed;
    for (const Wanted& each : Unwritten()) {
      ++flushed.entries_left;
      flushed.bytes_left += SizeOf(each.id);
    }
    std::vector<bool> counted(store_.slots().high_water());
    for (const Item& item :
         items_ | std::views::reverse) {  // Of an item listed twice, the last one counts.
      if (!IsUnwritten(item.id) || counted[item.id.slot]) continue;
      counted[item.id.slot] = true;
      const Cause cause = item.cause != Cause::kTime ? item.cause : gave_up_for_;
      if (cause == Cause::kTime) continue;
      Flushed::Count& count = cause == Cause::kNoRoom ? flushed.no_room : flushed.failed;
      ++count.entries;
      count.bytes += SizeOf(item.id);
    }
    flushed.why_busy = why_busy_;
    flushed.why_failed = why_failed_;
    return flushed;
  }

 private:
  enum class Going : std::uint8_t { kYes, kNo, kBusy };
  enum class Cause : std::uint8_t { kTime, kNoRoom, kFailed };
  struct Wanted {
    EntryId id;
    std::int64_t last_use = 0;
    std::uint32_t worth = 0;  // Its place in the eviction order, from 1 on; 0: none.
  };
  struct Item {
    EntryId id;
    Cause cause = Cause::kTime;  // Why it is left, if it is.
    std::uint8_t failures = 0;
    bool to_disk = false;  // The transfer in flight is ours.
  };

  Bytes SizeOf(EntryId id) const { return store_.slots().slot(id.slot).size; }

  bool IsUnwritten(EntryId id) const {
    if (!store_.IsLive(id)) return false;
    const TierMask copies = store_.slots().record(id.slot).copies;
    return copies != 0 && !Has(copies, TierId::kDisk);
  }

  std::vector<Wanted> Unwritten() const {
    std::vector<Wanted> all;
    for (std::uint32_t slot = 0; slot < store_.slots().high_water(); ++slot) {
      const EntryId id = store_.IdOf(slot);
      if (!IsUnwritten(id)) continue;
      const bool on_device = Has(store_.slots().record(slot).copies, TierId::kDevice);
      const TierId tier = on_device ? TierId::kDevice : TierId::kHost;
      all.push_back({id, KeyByLastUse(store_.FactsOf(slot, tier)), 0});
    }
    return all;
  }

  void List(std::vector<Wanted> all) {
    std::vector<std::uint32_t> worth(store_.slots().high_water());
    std::uint32_t place = 0;
    for (const std::uint32_t slot : engine_.EvictionSlots()) worth[slot] = ++place;
    for (Wanted& each : all) each.worth = worth[each.id.slot];
    // Entries that are not in the eviction order are sorted by last use, the latest
    // first.
    std::ranges::sort(all, [](const Wanted& a, const Wanted& b) {
      if (a.worth != b.worth) return a.worth > b.worth;
      return a.last_use != b.last_use ? a.last_use > b.last_use : a.id.slot < b.id.slot;
    });
    items_.reserve(items_.size() + all.size());
    PutParentsFirst(all);
  }

  // Lists entries that only memory holds since the last list: set meanwhile, or dropped
  // by the disk tier while it was busy. False: there are none.
  bool ListMore() {
    std::vector<bool> refused(store_.slots().high_water());
    for (const Item& item : items_) {
      if (item.cause != Cause::kTime && store_.IsLive(item.id)) refused[item.id.slot] = true;
    }
    std::vector<Wanted> all = Unwritten();
    std::erase_if(all, [&](const Wanted& each) { return refused[each.id.slot]; });
    if (all.empty() || MutantOn(Mutant::kBusyNotAskedAgain)) return false;
    List(std::move(all));
    return true;
  }

  // Parents first: a chain is of use as far as its first gap.
  void PutParentsFirst(const std::vector<Wanted>& all) {
    std::vector<bool> wanted(store_.slots().high_water());
    for (const Wanted& each : all) wanted[each.id.slot] = true;
    std::vector<std::uint32_t> chain;
    for (const Wanted& each : all) {
      for (std::uint32_t slot = each.id.slot; slot != kNoSlot && wanted[slot];
           slot = store_.ParentOf(slot)) {
        wanted[slot] = false;
        chain.push_back(slot);
      }
      for (; !chain.empty(); chain.pop_back()) {
        items_.push_back({store_.IdOf(chain.back())});
        total_bytes_ += SizeOf(items_.back().id);
      }
    }
  }

  // Items that are tried again come first: they are worth more.
  bool HasNext() const { return !again_.empty() || next_ < items_.size(); }
  std::size_t Next() const { return again_.empty() ? next_ : again_.front(); }
  bool MayStart(EntryId id) const {
    if (in_flight_.size() < kFew) return true;
    return in_flight_.size() < kMost && bytes_in_flight_ + SizeOf(id) <= kBytesOfMany;
  }

  Transfer* TransferOf(EntryId id) const {
    if (!store_.IsLive(id)) return nullptr;
    const LowerCopies* const below = store_.slots().record(id.slot).below;
    return below == nullptr ? nullptr : below->transfer;
  }

  // Handles transfers that have ended.
  void Collect(TimePoint time) {
    const std::size_t failures = failures_;
    bool any_written = false;
    bytes_in_flight_ = 0;
    std::erase_if(in_flight_, [&](std::size_t at) {
      if (TransferOf(items_[at].id) != nullptr) {
        bytes_in_flight_ += SizeOf(items_[at].id);
        return false;
      }
      any_written = Ended(at) || any_written;
      return true;
    });
    if (any_written || failures_ == 0) {
      failures_ = 0;
    } else if (failures == 0) {
      failing_since_ = time;
    } else if (time - failing_since_ >= kFailingFor) {
      GiveUp(CauseOfFailure());
    }
  }

  // True: it is on disk.
  bool Ended(std::size_t at) {
    Item& item = items_[at];
    if (!IsUnwritten(item.id)) {
      const bool written = store_.IsLive(item.id);
      ++done_;
      if (!written) return false;  // It was erased meanwhile.
      done_bytes_ += SizeOf(item.id);
      ++written_.entries;
      written_.bytes += SizeOf(item.id);
      return true;
    }
    if (std::exchange(item.to_disk, false)) {
      ++failures_;
      const Status& last = engine_.state(TierId::kDisk).last_failure;
      if (!last) why_failed_ = last.error().message;
      if (++item.failures >= kAttempts) {
        item.cause = CauseOfFailure();
        return false;
      }
    }
    again_.push_back(at);
    return false;
  }

  Cause CauseOfFailure() const {
    const Status& last = engine_.state(TierId::kDisk).last_failure;
    return !last && last.error().code == Code::kNoMemory ? Cause::kNoRoom : Cause::kFailed;
  }

  void GiveUp(Cause cause) {
    gave_up_ = true;
    gave_up_for_ = cause;
  }

  void GiveUpIfDown() {
    const BlobStore::Health health = store_.disk()->health();
    if (health != BlobStore::Health::kReadOnly && health != BlobStore::Health::kDown) return;
    why_failed_ = store_.disk()->why();
    GiveUp(Cause::kFailed);
  }

  Going Busy(std::string_view why) {
    why_busy_ = why;
    return Going::kBusy;
  }

  Going Start(Item* item, TimePoint now) {
    const EntryId id = item->id;
    if (!IsUnwritten(id)) {
      ++done_;
      return Going::kNo;
    }
    if (Transfer* const transfer = TransferOf(id); transfer != nullptr) {
      engine_.transfer_queue_->Raise(transfer, Priority::kGiveBack);
      item->to_disk = transfer->to == TierId::kDisk;
      return Going::kYes;  // If that transfer goes elsewhere, the item is tried again.
    }
    const bool on_host = Has(store_.slots().record(id.slot).copies, TierId::kHost);
    if (!on_host && store_.on_gpu()) return ByWayOfHost(item, now);
    const std::optional<CopyDestination> destination = PlaceOnDisk(item, now);
    if (!destination) return item->cause == Cause::kTime ? Going::kBusy : Going::kNo;
    auto transfer = std::make_unique<Transfer>();
    transfer->from = on_host ? TierId::kHost : TierId::kDevice;
    transfer->to = TierId::kDisk;
    transfer->priority = Priority::kGiveBack;
    transfer->source = store_.BlockIn(id.slot, transfer->from);
    transfer->destination = *destination;
    transfer->reason = Reason::kIdle;
    if (!engine_.StartTransfer(std::move(transfer), id.slot))
      return Busy("no thread could be started");
    item->to_disk = true;
    return Going::kYes;
  }

  // Space in the free room of the disk tier: nothing on disk is destroyed for it.
  // Empty: the tier is busy, or `item->cause` says why not.
  std::optional<CopyDestination> PlaceOnDisk(Item* item, TimePoint now) {
    TierState& disk = engine_.state(TierId::kDisk);
    const auto busy = [&](std::string_view why) {
      static_cast<void>(Busy(why));
      return std::nullopt;
    };
    if (store_.disk()->health() == BlobStore::Health::kLoading) return busy("it is being read in");
    if (disk.blocked()) return busy("it is in EMERGENCY");
    if (now < disk.write_backoff_until) return busy("a write has just failed");
    if (engine_.Lacking(disk, SizeOf(item->id)) > 0) {
      if (disk.estimator.unknown()) return busy("its pressure is unknown");
      item->cause = Cause::kNoRoom;
      return std::nullopt;
    }
    Result<CopyDestination> destination = store_.Allocate(item->id.slot, TierId::kDisk);
    if (destination) return *destination;
    if (store_.disk()->is_out_of_space()) return busy("the file system is full");
    item->cause = destination.error().code == Code::kNoMemory ? Cause::kNoRoom : Cause::kFailed;
    why_failed_ = destination.error().message;
    return std::nullopt;
  }

  // For bytes that only a GPU can read.
  Going ByWayOfHost(Item* item, TimePoint now) {
    const Engine::Why why{Action::kBack, Reason::kIdle, {}};
    const Engine::Going going = engine_.SendDown(engine_.state(TierId::kDevice), item->id.slot, why,
                                                 Priority::kGiveBack, false, now);
    if (going == Engine::Going::kDown) return Going::kYes;
    // Copies that have been written to disk will make room.
    if (going == Engine::Going::kFull || !in_flight_.empty()) return Busy("the host tier is full");
    const TierState& host = engine_.state(TierId::kHost);
    if (host.estimator.unknown() || !engine_.MayTake(host, item->id.slot, now)) {
      return Busy("the host tier takes nothing");
    }
    item->cause = Cause::kNoRoom;
    return Going::kNo;
  }

  Engine& engine_;
  Store& store_;
  std::vector<Item> items_;
  Bytes total_bytes_ = 0;
  std::size_t next_ = 0;           // The first of items_ that was not tried yet.
  std::deque<std::size_t> again_;  // Of items_, those to be tried again.
  std::vector<std::size_t> in_flight_;
  Bytes bytes_in_flight_ = 0;
  std::size_t done_ = 0;  // On disk, or removed for other reasons.
  Bytes done_bytes_ = 0;
  Flushed::Count written_;
  std::size_t failures_ = 0;  // Since the last successful write.
  TimePoint failing_since_{};
  bool gave_up_ = false;
  Cause gave_up_for_ = Cause::kTime;
  std::string_view why_busy_;
  std::string why_failed_;
};

namespace {

// real world: a disk is written
TimePoint RealNow() { return SystemClock()->Now(); }

// Runs until nothing is left to do, or the time is over.
class FlushRun {
 public:
  FlushRun(Core* core, Flusher* flusher, const FlushOptions& options)
      : core_(*core), flusher_(*flusher), options_(options) {}

  bool is_stopped() const { return is_stopped_; }

  void Run() {
    const TimePoint begin = Now();
    RunOn(core_.strand(), [&] { flusher_.Begin(); });
    TimePoint report_at = begin + options_.report_every;
    for (;;) {
      const TimePoint time = Now();
      if (!Step(time) || time - begin >= options_.within) break;
      is_stopped_ = options_.stop && options_.stop();
      if (is_stopped_) break;
      if (options_.report && time >= report_at) {
        Report();
        report_at = time + options_.report_every;
      }
      Wait();
    }
    // Entries that are counted as left must not be written afterwards.
    bool more = true;
    for (int looks = 0; more && looks < kLooksAtTheEnd; ++looks) {
      if (looks > 0) Wait();
      RunOn(core_.strand(), [&] { more = flusher_.CallOff(); });
    }
  }

 private:
  bool Step(TimePoint time) {
    bool more = true;
    try {
      RunOn(core_.strand(), [&] { more = flusher_.Step(core_.clock().Now(), time); });
    } catch (const std::bad_alloc&) {
      return true;  // There may be memory another time.
    }
    return more;
  }
  void Report() {
    Flushed so_far;
    RunOn(core_.strand(), [&] { so_far = flusher_.SoFar(); });
    options_.report(so_far);
  }
  TimePoint Now() const { return options_.now ? options_.now() : RealNow(); }
  void Wait() const {
    if (options_.wait) return options_.wait(kBetweenLooks);
    std::this_thread::sleep_for(kBetweenLooks);  // real world: a disk is written
  }

  Core& core_;
  Flusher& flusher_;
  const FlushOptions& options_;
  bool is_stopped_ = false;
};

}  // namespace

Flushed FlushToDisk(Core* core, const FlushOptions& options) {
  Flusher flusher(&core->engine());
  if (!flusher.has_disk()) return {};
  Flushed before;
  RunOn(core->strand(), [&] { before = flusher.Left(); });
  FlushRun run(core, &flusher, options);
  try {
    if (options.within > Duration::zero()) run.Run();
  } catch (const std::bad_alloc&) {
    // What was written is counted all the same.
  }
  Flushed flushed;
  RunOn(core->strand(), [&] { flushed = flusher.Left(); });
  flushed.entries = before.entries_left - std::min(before.entries_left, flushed.entries_left);
  flushed.bytes = before.bytes_left - std::min(before.bytes_left, flushed.bytes_left);
  flushed.is_stopped = run.is_stopped();
  return flushed;
}

Flushed FlushToDisk(Cache* cache, const FlushOptions& options) {
  return FlushToDisk(Core::Of(*cache), options);
}

Flushed FlushToDisk(Cache* cache, Duration within) {
  return FlushToDisk(Core::Of(*cache), {.within = within});
}

}  // namespace spillway
