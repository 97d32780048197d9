// What goes on behind: syncs, space, the journal's length.
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
// What has gone may soon be followed by something else.
constexpr auto kIdleFor = std::chrono::seconds(10);

// False: there is none to be had now.
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
      // Another time; nothing is half done but what has an owner.
    }
    Guard guard(mutex_);
    wake_.wait_for(guard, kPeriod, [this] { return stop_ || load_; });
  }
}

bool DiskStore::Settle(Duration within) {
  const bool settled = background_ ? AwaitSettler(within) : SettleNow(false);
  if (!settled) ++counters_.settle_failures;
  return settled;
}

bool DiskStore::AwaitSettler(Duration within) {
  Guard guard(settle_mutex_);
  if (settle_late_) return false;
  if (!settler_.joinable() && !Spawn(&settler_, [this] { SettleOnDemand(); })) return false;
  const std::uint64_t mine = ++settle_wanted_;
  settle_wake_.notify_one();
  if (settle_changed_.wait_for(guard, within, [&] { return settled_ >= mine; }))
    return settle_good_;
  settle_late_ = true;
  return false;
}

void DiskStore::SettleOnDemand() {
  Guard guard(settle_mutex_);
  for (;;) {
    settle_wake_.wait(guard, [this] { return settle_stop_ || settle_wanted_ > settled_; });
    if (settle_stop_) return;
    const std::uint64_t until = settle_wanted_;
    guard.unlock();
    const bool good = SettleNow(false);
    guard.lock();
    settled_ = until;
    settle_good_ = good;
    settle_late_ = false;
    settle_changed_.notify_all();
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
    // What we did not see may be there: nothing is touched any more.
    const Guard guard(mutex_);
    health_ = Health::kDown;
    why_ = "no memory";
  }
  // Everybody waits for an end of this.
  for (bool told = false; !told && !stop_;) {
    try {
      found({}, true);
      told = true;
    } catch (const std::bad_alloc&) {
      std::this_thread::yield();
    }
  }
}

// Is the directory still there, and how much space has its file system?
void DiskStore::LookAround() {
  FileFacts facts;
  const int result = files_->Stat(data_path_, &facts);
  if (result == -ENOENT || result == -ENOTDIR ||
      (result == 0 && facts.number != opening_.data_facts.number)) {
    Worsen(Health::kDown, fmt::format("disk: {} has gone from under us", data_path_));
  }
  SpaceFacts space;
  if (files_->FreeSpace(directory_, &space) != 0) return;
  const Guard guard(mutex_);
  available_ = space.available;
}

Status DiskStore::Sync() {
  const std::lock_guard syncing(sync_mutex_);
  std::uint64_t round = 0;
  bool data_dirty = false;
  {
    const Guard guard(mutex_);
    if (!is_loaded_) return health_ == Health::kLoading ? Status() : Refusal();
    round = round_++;
    data_dirty = std::exchange(data_dirty_, false) && !data_untrusted_;
  }
  Status status = FlushJournal();
  if (!status && IsSettled()) status = {};  // By other means.
  // The data first: a record on stable storage tells of bytes that are there.
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
  // The kernel may have dropped what it could not write, and says so once:
  // what was written since the last good sync is lost, whatever a second try
  // would say.
  ++counters_.sync_failures;
  LoseUnsynced();
  Error error{Code::kUnavailable, "sync failed"};  // In so few words if there is no memory.
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
    journal_live_ -= entry.place.bytes;
    if (!entry.is_revoked) Forget(id, entry.place.sequence);
    entry.place = {};
  }
}

Status DiskStore::SyncJournal() {
  const int result = journal_.Sync();
  ++counters_.syncs;
  if (result == 0) return {};
  // What the file holds is not known any more; a new one says all of it again.
  ++counters_.sync_failures;
  std::string why;
  if (journal_.Rewrite(&why) == Journal::Rewritten::kDone) return {};
  Worsen(Health::kReadOnly, why);
  return Error{Code::kUnavailable, why};
}

// Disk space of chunks without a blob goes back when it has been much for a
// while, or when the file system is short of it. With mutex_ and grow_mutex_.
bool DiskStore::IsTimeToGiveBack() {
  const Bytes used = allocator_.range() - allocator_.free();
  const Bytes idle = backing_.backed() - std::min(backing_.backed(), used);
  const Bytes chunk = backing_.chunk_bytes();
  if (idle == 0) return false;
  if (health_ == Health::kLoading || available_ < min_free_ + 4 * chunk) return true;
  const TimePoint now = clock_->Now();
  if (idle <= 8 * chunk || idle <= backing_.backed() / 2) {
    much_idle_since_.reset();
    return false;
  }
  if (!much_idle_since_) much_idle_since_ = now;
  return now - *much_idle_since_ >= kIdleFor;
}

void DiskStore::GiveBackIdle() {
  // While we have it nobody writes into a chunk that has just been given out:
  // a write asks for the chunk's space first, and waits.
  const std::lock_guard growing(grow_mutex_);
  std::vector<Extent> runs;
  {
    const Guard guard(mutex_);
    if (!can_punch_ || !IsTimeToGiveBack()) return;
    much_idle_since_.reset();
    runs = backing_.Idle(allocator_);
  }
  for (const Extent& run : runs) {
    if (files_->Punch(opening_.data.get(), run.at, run.bytes) != 0) {
      can_punch_ = false;  // It stays ours, and is used again.
      return;
    }
    const Guard guard(mutex_);
    backing_.Set(run, false);
  }
}

void DiskStore::ShortenJournal() {
  const std::lock_guard syncing(sync_mutex_);
  const Bytes bytes = journal_.bytes();
  Bytes live = 0;
  {
    const Guard guard(mutex_);
    live = journal_live_;
  }
  const bool is_long = bytes > 2 * live + journal_slack_ && bytes > journal_retry_;
  if (!is_long && !journal_.is_broken()) return;
  std::string why;
  switch (journal_.Rewrite(&why)) {
    case Journal::Rewritten::kDone:
      journal_retry_ = 0;
      break;
    case Journal::Rewritten::kNot:  // A long one does, too; a broken one does not.
      journal_retry_ = bytes + journal_slack_;
      if (journal_.is_broken()) Worsen(Health::kReadOnly, why);
      break;
    case Journal::Rewritten::kUntrusted:
      Worsen(Health::kReadOnly, why);
      break;
  }
}

}  // namespace spillway
