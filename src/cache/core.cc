// SPDX-License-Identifier: Apache-2.0
#include "cache/core.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "base/mutant.h"
#include "base/quiet_thread.h"
#include "cache/thread_transfer_queue.h"
#include "device/host/host_pool.h"

namespace spillway {

Result<std::shared_ptr<Core>> Core::Open(const Options& options, Parts parts) {
  Engine::Settings settings;
  settings.options = options;
  settings.reserve = parts.reserve;
  settings.hash_bits = parts.hash_bits;
  settings.hash_seed = parts.hash_seed;
  settings.moves_per_step = parts.moves_per_step;
  settings.unix_offset = parts.unix_offset;
  if (auto* const pool = dynamic_cast<HostPool*>(parts.host.get()); pool != nullptr) {
    // While the machine is short of memory, the pool takes none ahead of need.
    settings.options.on_level = [pool, tell = options.on_level](const LevelChange& change) {
      if (change.tier == Name(TierId::kHost)) pool->SetGrowth(change.to < Level::kPressure);
      if (tell) tell(change);
    };
  }
  if (!parts.strand) parts.strand = std::make_unique<CombiningStrand>();
  if (!parts.executor) parts.executor = std::make_unique<ThreadExecutor>();
  auto self = std::make_shared<std::weak_ptr<Core>>();
  const TierMask mask = parts.tiers.mask();
  const bool single = (mask & (mask - 1)) == 0;
  if (!parts.transfer_queue && !single) {
    ThreadTransferQueue::Settings transfer_queue;
    transfer_queue.ways = {.device = parts.tiers.device.get(),
                           .host = parts.tiers.host.get(),
                           .disk = parts.tiers.disk.get()};
    transfer_queue.background_rate = options.write_back_rate;
    const auto tick = [self] {
      if (const std::shared_ptr<Core> core = self->lock(); core != nullptr) core->Tick();
    };
    parts.transfer_queue = std::make_unique<ThreadTransferQueue>(
        transfer_queue, parts.strand.get(), [self] { return self->lock(); }, tick);
  }
  std::unique_ptr<UseLog> uses;
  if (!options.trace.empty()) {
    auto opened = UseLog::Open(options.trace, options.clock ? options.clock : SystemClock(),
                               parts.unix_offset);
    if (!opened) return opened.error();
    uses = std::move(*opened);
  }
  auto engine = Engine::Open(settings, std::move(parts.tiers), parts.transfer_queue.get());
  if (!engine) return engine.error();
  const bool load = parts.load;
  std::shared_ptr<Core> core(new Core(options, std::move(parts), std::move(*engine)));
  *self = core;
  core->uses_ = std::move(uses);
  core->engine_->RecordTo(core->uses_.get());
  core->engine_->OnTransfer(&Core::OnTransfer, core.get());
  if (core->losses_) core->engine_->transfer_log().TellLosses(&*core->losses_);
  if (options.policy == "workflow") core->Attach(std::make_shared<StepGraph>(), {});
  if (load && core->engine_->store().disk() != nullptr) core->StartLoading();
  core->reclaim_server_ = ReclaimServer::Open(options, core->device_, core.get());
  return core;
}

// If Open fails, the engine is destroyed there, before the devices under it.
Core::Core(const Options& options, Parts&& parts, std::unique_ptr<Engine>&& engine)
    : options_(options),
      clock_(options.clock ? options.clock : SystemClock()),
      device_(std::move(parts.device)),
      on_gpu_(device_ != nullptr && !device_->host_readable()),
      host_(std::move(parts.host)),
      total_(parts.total),
      close_within_(parts.close_within),
      load_within_(parts.load_within),
      strand_(std::move(parts.strand)),
      executor_(std::move(parts.executor)),
      transfer_queue_(std::move(parts.transfer_queue)),
      engine_(std::move(engine)),
      index_(engine_->store().index()) {
  if (parts.tells_losses) losses_.emplace(!engine_->single());
  reap_task_.core = this;
  reap_task_.run = [](Strand::Task* task) { static_cast<ReapTask*>(task)->core->ReapAll(); };
  follow_task_.core = this;
  follow_task_.run = [](Strand::Task* task) {
    Core* const core = static_cast<ReapTask*>(task)->core;
    core->follow_posted_.store(false, std::memory_order_release);
    core->engine_->SyncGraph(core->clock_->Now());
  };
  for (const TierId tier : kTierIds) {
    std::shared_ptr<PressureSource>& source = parts.pressure[IndexOf(tier)];
    if (source == nullptr) continue;  // Scenarios bring samples, no source.
    monitors_[IndexOf(tier)] = std::make_unique<PressureMonitor>(this, tier, std::move(source));
  }
}

// A part of what was found on disk, on its way to the engine.
struct Core::FoundBatch : Strand::Task {
  std::shared_ptr<Core> core;   // Until it has arrived on the strand.
  FoundBatch* after = nullptr;  // While it is queued there.
  std::vector<BlobStore::Found> found;
  bool done = false;
};

// Transfer threads end before the tiers they copy between are destroyed.
Core::~Core() {
  reclaim_server_.reset();
  // Their threads may still run events of the strand.
  executor_.reset();
  transfer_queue_.reset();
  while (found_first_ != nullptr) delete std::exchange(found_first_, found_first_->after);
}

// Closes in this order: first the sources of new work end (neighbours that ask, the
// graph, sampling, waiting calls, batches). Then older blobs that are still being read
// in are freed, all entries are removed, and transfers are cancelled and waited for.
// The disk closes last, since transfers may write to it. With a transfer that hangs or
// a value that is still leased, the core keeps itself alive.
Status Core::Close() {
  reclaim_server_.reset();
  try {
    Attach(nullptr, {});
  } catch (const std::bad_alloc&) {
    // Not needed: the graph refers to this core by a weak pointer only.
  }
  Stop();
  RunOn(*strand_, [this] { engine_->CancelPending(); });
  while (const int open = batches_.load(std::memory_order_acquire)) {
    batches_.wait(open, std::memory_order_acquire);
  }
  AwaitEarly();
  RunOn(*strand_, [this] {
    FreeEarly();
    engine_->RecordTo(nullptr);
    engine_->Close();
    if (losses_) losses_->Close(clock_->Now());
  });
  uses_.reset();
  AwaitTransfers();
  bool hangs = false;
  std::unique_ptr<BlobStore> disk;
  RunOn(*strand_, [&] {
    hangs = engine_->anything_in_flight();
    if (hangs || engine_->store().zombies() > 0) self_ = shared_from_this();
    if (!hangs) disk = engine_->store().CloseDisk();
    hangs = hangs && engine_->store().disk() != nullptr && has_pending_deletes();
  });
  return CloseDisk(hangs, std::move(disk));
}

Status Core::CloseDisk(bool hangs, std::unique_ptr<BlobStore> disk) {
  Status status;
  if (disk != nullptr) status = disk->Close();
  if (hangs) status = Error{Code::kDeadline, "disk: it hangs"};
  if (!status) LogError("closed, but: {}", status.error().message);
  return status;
}

// Blobs that are still being read in may be older than values set meanwhile.
void Core::AwaitEarly() {
  // real world: a disk is being read, and it gives no signal
  const auto until = std::chrono::steady_clock::now() + close_within_;  // real world: as above
  for (;;) {
    bool waits = false;
    RunOn(*strand_, [&] {
      waits =
          engine_->has_written_during_recovery() && (found_last_ == nullptr || !found_last_->done);
    });
    if (!waits || std::chrono::steady_clock::now() > until) return;  // real world: as above
    std::this_thread::sleep_for(std::chrono::microseconds(200));     // real world: as above
  }
}

// On the strand.
void Core::FreeEarly() {
  if (!engine_->has_written_during_recovery()) return;
  bool all = false;
  for (const FoundBatch* batch = found_first_; batch != nullptr; batch = batch->after) {
    engine_->FreeReplaced(batch->found);
    all = batch->done && !engine_->store().disk()->has_unseen();
  }
  if (!all) engine_->FreeUnseen();
}

// --- moves ---

void Core::OnTransfer(Strand::Task* task) {
  std::unique_ptr<Transfer> transfer(static_cast<Transfer*>(task));
  Core* const core = static_cast<Core*>(transfer->owner);
  try {
    core->engine_->Finish(std::move(transfer), core->clock_->Now());
  } catch (const std::bad_alloc&) {
    // The transfer has ended; what should follow is done with the next tick.
  }
  core->ReleaseSelf();
}

// Polls, because the end of a transfer only posts to the strand.
void Core::AwaitTransfers() {
  // real world: a transfer thread is at work, and it gives no signal
  const auto until = std::chrono::steady_clock::now() + close_within_;  // real world: as above
  for (;;) {
    bool busy = false;
    RunOn(*strand_, [&] { busy = engine_->anything_in_flight(); });
    if (!busy || std::chrono::steady_clock::now() > until) return;  // real world: as above
    std::this_thread::sleep_for(std::chrono::microseconds(200));    // real world: as above
  }
}

void Core::StartLoading() {
  loading_.store(true, std::memory_order_relaxed);
  engine_->Loading();
  // The store's thread must not be the one that keeps this core alive: the core owns
  // it. The last batch is allocated now: gets wait for it, so it must come even without
  // memory.
  const auto last = std::make_shared<std::unique_ptr<FoundBatch>>(std::make_unique<FoundBatch>());
  engine_->store().disk()->StartLoading([weak = weak_from_this(), last](
                                            std::vector<BlobStore::Found> found, bool done) {
    const std::shared_ptr<Core> core = weak.lock();
    if (core == nullptr) return;
    auto batch = done ? std::move(*last) : std::make_unique<FoundBatch>();
    batch->core = core;
    batch->found = std::move(found);
    batch->done = done;
    batch->run = [](Strand::Task* task) {
      auto* const here = static_cast<FoundBatch*>(task);
      const std::shared_ptr<Core> adopting = std::move(here->core);
      (adopting->found_first_ == nullptr ? adopting->found_first_ : adopting->found_last_->after) =
          here;
      adopting->found_last_ = here;
      adopting->AdoptFound();
    };
    core->strand_->Post(batch.release());
  });
}

// On the strand. Stops if there is no memory for the rest; the next call continues.
void Core::AdoptFound() {
  while (found_first_ != nullptr) {
    if (!engine_->Adopt(&found_first_->found, found_first_->done, clock_->Now())) return;
    if (found_first_->done) loading_.store(false, std::memory_order_relaxed);
    delete std::exchange(found_first_, found_first_->after);
  }
}

void Core::BatchEnds() noexcept {
  // Once the count is down, this core may have been destroyed: only the address is
  // used.
  std::atomic<int>* batches = &batches_;
  if (batches->fetch_sub(1, std::memory_order_acq_rel) == 1) batches->notify_all();
}

// --- reaping ---

void Core::HandOverForReaping(Slot* slot) noexcept {
  // The zombie is still counted, so this core is alive. Keep it alive until Post has
  // returned, even if this very reap is what ends it.
  const std::shared_ptr<Core> alive = shared_from_this();
  const std::uint32_t id = engine_->store().slots().IdOf(slot);
  std::uint32_t head = reap_head_.load(std::memory_order_relaxed);
  do {
    slot->next.store(head, std::memory_order_relaxed);
  } while (!reap_head_.compare_exchange_weak(head, id + 1));
  if (!reap_posted_.exchange(true)) strand_->Post(&reap_task_);
}

void Core::ReapAll() {
  // An exchange, to see all slots that were linked before the post.
  if (!MutantOn(Mutant::kReaperSleeps)) reap_posted_.exchange(false);
  std::uint32_t at = reap_head_.exchange(0);
  while (at != 0) {
    const std::uint32_t next =
        engine_->store().slots().slot(at - 1).next.load(std::memory_order_relaxed);
    engine_->Reap(at - 1);
    at = next;
  }
  ReleaseSelf();
}

void Core::ReleaseSelf() {
  // The thread that runs the strand holds a reference of its own.
  if (self_ == nullptr || engine_->store().zombies() > 0 || engine_->anything_in_flight()) return;
  if (std::unique_ptr<BlobStore> disk = engine_->store().CloseDisk(); disk != nullptr) {
    // The present thread may be one of the store's, so another destroys it. If no
    // thread can be started, the store is leaked: better than to join itself here.
    BlobStore* const gone = disk.release();
    try {
      QuietThread([gone] { delete gone; }).detach();
    } catch (const std::system_error&) {
      static_cast<void>(gone);
    } catch (const std::bad_alloc&) {
      static_cast<void>(gone);
    }
  }
  self_.reset();
}

// --- answers ---

std::optional<TierId> Core::TierNamed(std::string_view name) const {
  for (const TierId tier : kTierIds) {
    if (Has(engine_->store().tiers(), tier) && Name(tier) == name) return tier;
  }
  return std::nullopt;
}

std::vector<DeviceProcess> Core::Processes() const {
  std::vector<DeviceProcess> processes;
  if (device_ == nullptr) return processes;
  for (const DeviceHolder& holder : device_->Holders()) {
    processes.push_back({holder.pid, holder.bytes});
  }
  return processes;
}

Stats Core::stats() {
  Stats stats;
  RunOn(*strand_, [&] { engine_->CountInto(&stats); });
  if (uses_ != nullptr) stats.trace = uses_->stats();
  for (const Counter& counter : misses_) {
    stats.misses += counter.value.load(std::memory_order_relaxed);
  }
  for (const TierId tier : kTierIds) {
    PressureMonitor* const monitor = monitors_[IndexOf(tier)].get();
    if (monitor == nullptr) continue;
    SourceStats& source = tier == engine_->store().top() ? stats.source
                          : tier == TierId::kHost        ? stats.host_source
                                                         : stats.disk_source;
    monitor->CountInto(&source);
  }
  if (reclaim_server_ != nullptr) reclaim_server_->CountInto(&stats.ask);
  {
    const MutexLock lock(give_back_mutex_);
    stats.give_back = give_back_;
  }
  stats.device_slabs = device_ != nullptr && !device_->has_addresses();
  // Hits are not counted when they happen: the lease words count them.
  const Store& store = engine_->store();
  stats.hits = store.removed_hits();
  for (std::uint32_t id = 0; id < store.slots().high_water(); ++id) {
    const std::uint64_t word = store.slots().slot(id).word.Load();
    stats.leases += LeaseWord::LeasesOf(word);
    if (LeaseWord::StateOf(word) == SlotState::kVisible) {
      stats.hits += LeaseWord::AcquiresOf(word) - 1;
    }
  }
  return stats;
}

std::vector<Cache::Transition> Core::History(std::string_view key, std::size_t most) {
  std::vector<Cache::Transition> journey;
  const std::uint64_t hash = engine_->store().index().HashOf(key);
  RunOn(*strand_, [&] { journey = engine_->transfer_log().History(hash, most); });
  return journey;
}

std::vector<Cache::InFlight> Core::TransfersInFlight(std::size_t most) {
  std::vector<Cache::InFlight> transfers;
  RunOn(*strand_, [&] { transfers = engine_->InFlight(most); });
  return transfers;
}

void Core::GaveBack(Bytes bytes, Duration took) {
  const auto& bounds = GiveBackStats::kBounds;
  const double seconds = std::chrono::duration<double>(took).count();
  const auto at = std::ranges::lower_bound(bounds, seconds) - bounds.begin();
  const MutexLock lock(give_back_mutex_);
  ++give_back_.within.at(static_cast<std::size_t>(at));
  ++give_back_.count;
  give_back_.bytes += bytes;
  give_back_.total += took;
  give_back_.last = took;
}

std::string Core::Explain(std::string_view key) {
  std::string text;
  const std::uint64_t hash = engine_->store().index().HashOf(key);
  RunOn(*strand_, [&] { text = engine_->Explain(hash, key, clock_->Now()); });
  return text;
}

}  // namespace spillway
