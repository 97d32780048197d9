// Making sure that what has gone stays gone, also where the disk does not take
// its deletes any more. Nothing older than what was set last may ever be found;
// nothing at all is better. In this order, each step only if those before it
// have not sufficed:
//
//   1. The journal is told. Needs no memory.
//   2. A new journal is written, of what is still there.
//   3. The first page of each blob that has gone is overwritten in its place,
//      which needs no memory and no space: it is found, and not served.
//   4. The whole store is emptied: the journal is cut to nothing, or its header
//      is overwritten, or it is removed; or else the data file is cut.
//   5. Whoever asked is told that none of this could be done.
//
// While the store runs, 2 is for a journal that can't be written to any more, and
// 4 only for a store that never found out what it has.
#include <new>
#include <utility>

#include <fmt/format.h>

#include "tier/disk/disk_store.h"

namespace spillway {

DiskStore::~DiskStore() {
  if (!is_closed_) CloseOrSay();
}

void DiskStore::CloseOrSay() {
  try {
    (void)Close();
  } catch (const std::bad_alloc&) {
    is_closed_ = true;  // There are no words for it.
  }
}

void DiskStore::StopThreads() {
  stop_ = true;
  {
    const Guard guard(mutex_);
    wake_.notify_all();
  }
  {
    const Guard guard(settle_mutex_);
    settle_stop_ = true;
    settle_wake_.notify_all();
  }
  if (settler_.joinable()) settler_.join();
  if (thread_.joinable()) thread_.join();
}

Status DiskStore::Close() {
  StopThreads();
  is_closed_ = true;
  const bool settled = SettleNow(true);
  if (!settled) ++counters_.settle_failures;
  Status synced = SyncAtEnd();
  try {
    if (!settled) {
      return Error{Code::kUnavailable,
                   fmt::format("disk: {} could not be told that {} of its blobs have gone: older "
                               "values may be found when it is opened again; to be sure, remove "
                               "what is in it ({})",
                               directory_, stats().unsettled, unsettled_why())};
    }
    if (is_void_) {
      return Error{Code::kUnavailable,
                   fmt::format("disk: {} was emptied, since it could not be told what has gone: "
                               "nothing is found when it is opened again ({})",
                               directory_, unsettled_why())};
    }
  } catch (const std::bad_alloc&) {
    return Error{Code::kUnavailable, settled ? "emptied" : "not settled"};
  }
  return synced;
}

Status DiskStore::SyncAtEnd() {
  {
    const Guard guard(mutex_);
    if (!is_loaded_) return {};  // Nothing of ours is there.
  }
  try {
    return Sync();
  } catch (const std::bad_alloc&) {
    // It outlives us all the same, but for a power cut.
    return Error{Code::kNoMemory, "no memory"};
  }
}

bool DiskStore::IsSettled() const {
  const Guard guard(mutex_);
  return owed_ == spoiled_ && !unseen_revoked_;
}

Status DiskStore::FlushJournal() {
  Status status = journal_.Flush();
  if (status) return status;
  const Guard guard(mutex_);
  try {
    unsettled_why_ = status.error().message;
  } catch (const std::bad_alloc&) {
    unsettled_why_ = "no memory";
  }
  return status;
}

bool DiskStore::SettleNow(bool last) {
  bool unseen = false;
  {
    const Guard guard(mutex_);
    unseen = unseen_revoked_;
  }
  if (unseen) {
    Void();
    return IsSettled();
  }
  // Even if nothing is owed: somebody may be writing what was.
  try {
    if (FlushJournal()) return IsSettled();
  } catch (const std::bad_alloc&) {
    // The next steps do not need the words.
  }
  if (last || journal_.is_broken()) RenewJournal();
  if (!IsSettled()) Spoil(last);
  if (!IsSettled() && last) Void();
  return IsSettled();
}

void DiskStore::RenewJournal() {
  {
    const Guard guard(mutex_);
    if (!is_loaded_) return;
  }
  try {
    std::string why;
    const std::lock_guard syncing(sync_mutex_);
    if (journal_.Rewrite(&why) != Journal::Rewritten::kNot) (void)journal_.Flush();
  } catch (const std::bad_alloc&) {
    // All is as before.
  }
}

void DiskStore::Spoil(bool last) {
  // Nobody tells the journal meanwhile: so nobody writes where they lie.
  journal_.Alone([&] {
    while (SpoilNext(last)) {
    }
  });
  if (last) (void)files_->Sync(opening_.data.get());
}

// False: there is none, or it can't be done. While the store runs, those that
// somebody may be reading are left alone.
bool DiskStore::SpoilNext(bool last) {
  BlobId id = kNoBlob;
  Extent extent;
  {
    const Guard guard(mutex_);
    for (id = owed_first_; id != kNoBlob; id = entries_[id].owed_next) {
      const Entry& entry = entries_[id];
      extent = entry.extent;
      if (entry.is_spoiled || extent.bytes == 0) continue;
      if (last || entry.state == State::kGone) break;
    }
  }
  if (id == kNoBlob) return false;
  const int result =
      WriteFully(*files_, opening_.data.get(), extent.at, nothing_.data(), kPageBytes);
  if (result != 0) return false;
  const Guard guard(mutex_);
  entries_[id].is_spoiled = true;
  ++spoiled_;
  return true;
}

void DiskStore::Void() {
  bool done = opening_.journal.is_open() ? Journal::VoidFile(*files_, opening_.journal.get())
                                         : journal_.Void();
  if (!done) done = files_->Truncate(opening_.data.get(), 0) == 0;
  if (!done) return;
  ++counters_.voided;
  const Guard guard(mutex_);
  is_void_ = true;
  unseen_revoked_ = false;
  for (BlobId id = owed_first_; id != kNoBlob; id = entries_[id].owed_next) {
    if (!std::exchange(entries_[id].is_spoiled, true)) ++spoiled_;
  }
  health_ = Health::kDown;
  try {
    why_ = "disk: it was emptied, since it could not be told what has gone";
  } catch (const std::bad_alloc&) {
    why_ = "emptied";
  }
}

}  // namespace spillway
