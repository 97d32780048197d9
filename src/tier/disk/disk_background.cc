// SPDX-License-Identifier: Apache-2.0
// The store's background work: syncs, disk space, the length of the journal.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include "base/quiet_thread.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/system_error.h"

namespace spillway {
namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
// At most this often a journal that lost its mirror is rewritten with a new one.
constexpr auto kMirrorRetry = std::chrono::minutes(1);
// Space of deleted blobs is kept for this long, since other blobs may soon need it.
constexpr auto kIdleFor = std::chrono::seconds(10);

// Returns false if the system refuses a thread.
template <typename Work>
bool Spawn(std::thread* thread, Work&& work) {
  try {
    *thread = QuietThread(std::forward<Work>(work));
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

void DiskStore::StartLoading(FoundCall found) {
  const Guard guard(mutex_);
  load_ = std::move(found);
  wake_.notify_all();
}

void DiskStore::Loop() {
  while (!stop_) {
    try {
      RunBackground();
    } catch (const std::bad_alloc&) {
      // Try again next time; all state is consistent.
    }
    const Guard guard(mutex_);
    wake_.wait_for(mutex_, kPeriod, [this]() SPILLWAY_REQUIRES(mutex_) { return stop_ || load_; });
  }
}

bool DiskStore::FlushDeletes(Duration within) {
  const bool settled = background_ ? AwaitDeleteFlusher(within) : FlushDeletesNow(false);
  if (!settled) ++counters_.delete_flush_failures;
  return settled;
}

// Waits on a thread of its own that runs FlushJournal and the further steps: a
// call into a disk that hangs must not block the caller beyond `within`.
bool DiskStore::AwaitDeleteFlusher(Duration within) {
  const Guard guard(flush_mutex_);
  if (flush_late_) return false;
  if (!delete_flusher_.joinable() && !Spawn(&delete_flusher_, [this] { FlushDeletesOnDemand(); }))
    return false;
  const std::uint64_t mine = ++flush_wanted_;
  flush_wake_.notify_one();
  const auto is_done = [&]() SPILLWAY_REQUIRES(flush_mutex_) { return flush_done_ >= mine; };
  if (flush_changed_.wait_for(flush_mutex_, within, is_done)) return flush_good_;
  flush_late_ = true;
  return false;
}

void DiskStore::FlushDeletesOnDemand() {
  UniqueLock guard(flush_mutex_);
  for (;;) {
    while (!flush_stop_ && flush_wanted_ <= flush_done_) flush_wake_.wait(flush_mutex_);
    if (flush_stop_) return;
    const std::uint64_t until = flush_wanted_;
    guard.unlock();
    const bool good = FlushDeletesNow(false);
    guard.lock();
    flush_done_ = until;
    flush_good_ = good;
    flush_late_ = false;
    flush_changed_.notify_all();
  }
}

void DiskStore::RunBackground() {
  FoundCall load;
  {
    const Guard guard(mutex_);
    load.swap(load_);
  }
  if (load) LoadOrFail(load);
  {
    const Guard guard(mutex_);
    if (!is_loaded_) return;
  }
  LookAround();
  (void)Sync();
  GiveBackIdle();
  ShortenJournal();
}

void DiskStore::LoadOrFail(const FoundCall& found) {
  try {
    return Load(found);
  } catch (const std::bad_alloc&) {
    // Blobs that were not seen may exist: nothing is touched any more.
    const Guard guard(mutex_);
    health_ = Health::kDown;
    why_ = "no memory";
  }
  // The caller waits for `done`, so it must be told even without memory.
  for (bool told = false; !told && !stop_;) {
    try {
      found({}, true);
      told = true;
    } catch (const std::bad_alloc&) {
      std::this_thread::yield();
    }
  }
}

// Checks that the data file is still there, and reads the free space of the file system.
void DiskStore::LookAround() {
  FileFacts facts;
  const int result = files_->Stat(data_path_, &facts);
  if (result == -ENOENT || result == -ENOTDIR ||
      (result == 0 && facts.number != opening_.data_facts.number)) {
    Worsen(Health::kDown,
           fmt::format("disk: {} was removed or replaced while it was open", data_path_));
  }
  SpaceFacts space;
  if (files_->FreeSpace(directory_, &space) != 0) return;
  const Guard guard(mutex_);
  available_ = space.available;
}

Status DiskStore::Sync() {
  const MutexLock syncing(sync_mutex_);
  std::uint64_t round = 0;
  bool data_dirty = false;
  {
    const Guard guard(mutex_);
    if (!is_loaded_) return health_ == Health::kLoading ? Status() : Refusal();
    round = round_++;
    data_dirty = std::exchange(data_dirty_, false) && !data_untrusted_;
  }
  Status status = FlushJournal();
  if (!status && AreDeletesFlushed())
    status = {};  // The pending deletes took effect by other means.
  // Data before journal: a record on stable storage must name bytes that are on
  // stable storage, too.
  if (data_dirty) {
    if (Status synced = SyncData(round); !synced) return synced;
  }
  if (journal_.needs_sync()) {
    if (Status synced = SyncJournal(); !synced) return synced;
  }
  const Guard guard(mutex_);
  if (status && data_untrusted_) return Refusal();
  return status;
}

Status DiskStore::SyncData(std::uint64_t round) {
  const int result = files_->Sync(opening_.data.get());
  ++counters_.syncs;
  if (result == 0) {
    const Guard guard(mutex_);
    synced_round_ = round;
    return {};
  }
  // The kernel may drop pages that it could not write, and reports that only
  // once. So everything written since the last good sync counts as lost, even
  // if a second sync would succeed.
  ++counters_.sync_failures;
  LoseUnsynced();
  // Used if there is no memory for a longer message.
  Error error{Code::kUnavailable, "sync failed"};
  try {
    error = SystemError(-result, "sync", data_path_);
  } catch (const std::bad_alloc&) {
    ++counters_.io_errors;
  }
  Worsen(Health::kReadOnly, error.message);
  (void)journal_.Flush();
  (void)journal_.Sync();
  return error;
}

void DiskStore::LoseUnsynced() {
  const Guard guard(mutex_);
  data_untrusted_ = true;
  for (BlobId id = 0; id < entries_.size(); ++id) {
    Entry& entry = entries_[id];
    if (entry.state != State::kPublished || entry.round <= synced_round_) continue;
    entry.state = State::kLost;
    journal_live_ -= entry.place.bytes + entry.deadline_place.bytes;
    if (!entry.is_tombstoned) Forget(id, entry.place.sequence);
    entry.place = entry.deadline_place = {};
  }
}

Status DiskStore::SyncJournal() {
  const int result = journal_.Sync();
  ++counters_.syncs;
  if (result == 0) return {};
  // The content of the file is unknown now; a new journal repeats all of it.
  ++counters_.sync_failures;
  std::string why;
  if (journal_.Rewrite(&why) == Journal::Rewritten::kDone) return {};
  Worsen(Health::kReadOnly, why);
  return Error{Code::kUnavailable, why};
}

// Punches out chunks without blobs when there has been much such space for a while,
// or when the file system is short of space.
bool DiskStore::IsTimeToGiveBack() {
  const Bytes used = allocator_.range() - allocator_.free();
  const Bytes idle = backing_.clean() - std::min(backing_.clean(), used);
  const Bytes chunk = backing_.chunk_bytes();
  if (idle == 0) return false;
  if (health_ == Health::kLoading || available_ < min_free_ + 4 * chunk) return true;
  const TimePoint now = clock_->Now();
  if (idle <= 8 * chunk || idle <= backing_.clean() / 2) {
    much_idle_since_.reset();
    return false;
  }
  if (!much_idle_since_) much_idle_since_ = now;
  return now - *much_idle_since_ >= kIdleFor;
}

void DiskStore::GiveBackIdle() {
  // While grow_mutex_ is held no thread writes into a newly allocated chunk: a
  // write first asks for disk space and waits for the mutex.
  const MutexLock growing(grow_mutex_);
  std::vector<Extent> runs;
  {
    const Guard guard(mutex_);
    if (!can_punch_ || !IsTimeToGiveBack()) return;
    much_idle_since_.reset();
    runs = backing_.Idle(allocator_);
  }
  for (const Extent& run : runs) {
    if (files_->Punch(opening_.data.get(), run.at, run.bytes) != 0) {
      can_punch_ = false;  // The space stays allocated and is reused.
      return;
    }
    const Guard guard(mutex_);
    backing_.Set(run, false);
  }
}

void DiskStore::ShortenJournal() {
  const MutexLock syncing(sync_mutex_);
  const Bytes bytes = journal_.bytes();
  Bytes live = 0;
  {
    const Guard guard(mutex_);
    live = journal_live_;
  }
  const bool is_long = bytes > 2 * live + journal_slack_ && bytes > journal_retry_;
  const TimePoint now = clock_->Now();
  const bool lacks_mirror = !journal_.is_mirrored() && now >= mirror_retry_;
  if (!is_long && !journal_.is_broken() && !lacks_mirror) return;
  mirror_retry_ = now + kMirrorRetry;
  std::string why;
  switch (journal_.Rewrite(&why)) {
    case Journal::Rewritten::kDone:
      journal_retry_ = 0;
      break;
    case Journal::Rewritten::kNot:  // A long journal still works; a broken one does not.
      journal_retry_ = bytes + journal_slack_;
      if (journal_.is_broken()) Worsen(Health::kReadOnly, why);
      break;
    case Journal::Rewritten::kUntrusted:
      Worsen(Health::kReadOnly, why);
      break;
  }
}

}  // namespace spillway
