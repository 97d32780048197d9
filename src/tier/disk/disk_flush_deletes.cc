// SPDX-License-Identifier: Apache-2.0
// Makes deletes durable, also where the disk no longer takes them. No value
// older than the last one set may ever be found; finding nothing is better. The
// steps, each taken only if those before it were not enough:
//
// 1. Write the deletes to the journal. Needs no memory. (A changed deadline is
//    written the same way. Where it cannot be written, the blob is dropped.)
// 2. Write a new journal that names only live blobs.
// 3. Overwrite the first page of each deleted blob in place, which needs no
//    memory and no space: such a blob is found but never served.
// 4. Empty the whole store: truncate the journal, or overwrite its header, or
//    remove it; otherwise truncate the data file.
// 5. Report to the caller that none of this could be done.
//
// While the store is open, step 2 is for a journal that can no longer be
// written, and step 4 only for a store that never learned which blobs it has.
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
    is_closed_ = true;  // No memory for a message.
  }
}

void DiskStore::StopThreads() {
  stop_ = true;
  {
    const Guard guard(mutex_);
    wake_.notify_all();
  }
  {
    const Guard guard(flush_mutex_);
    flush_stop_ = true;
    flush_wake_.notify_all();
  }
  if (delete_flusher_.joinable()) delete_flusher_.join();
  if (thread_.joinable()) thread_.join();
}

Status DiskStore::Close() {
  StopThreads();
  is_closed_ = true;
  const bool settled = FlushDeletesNow(true);
  if (!settled) ++counters_.delete_flush_failures;
  Status synced = SyncAtEnd();
  bool is_void = false;
  {
    const Guard guard(mutex_);
    is_void = is_void_;
  }
  try {
    if (!settled) {
      return Error{Code::kUnavailable,
                   fmt::format("disk: {}: {} pending deletes could not be written: older "
                               "values may be found when it is opened again; to be sure, remove "
                               "its contents ({})",
                               directory_, stats().deletes_pending, pending_why())};
    }
    if (is_void) {
      return Error{Code::kUnavailable,
                   fmt::format("disk: {} was reset because pending deletes could not be written: "
                               "it will be empty when it is opened again ({})",
                               directory_, pending_why())};
    }
  } catch (const std::bad_alloc&) {
    return Error{Code::kUnavailable, settled ? "reset" : "deletes pending"};
  }
  return synced;
}

Status DiskStore::SyncAtEnd() {
  {
    const Guard guard(mutex_);
    if (!is_loaded_) return {};  // Nothing was written.
  }
  try {
    Status synced = Sync();
    if (synced) journal_.Confirm();
    return synced;
  } catch (const std::bad_alloc&) {
    // The blobs survive the process all the same, though not a power cut.
    return Error{Code::kNoMemory, "no memory"};
  }
}

bool DiskStore::AreDeletesFlushed() const {
  const Guard guard(mutex_);
  return owed_ == spoiled_ && !unseen_tombstoned_;
}

Status DiskStore::FlushJournal() {
  Status status = journal_.Flush();
  if (status) return status;
  const Guard guard(mutex_);
  try {
    pending_why_ = status.error().message;
  } catch (const std::bad_alloc&) {
    pending_why_ = "no memory";
  }
  return status;
}

bool DiskStore::FlushDeletesNow(bool last) {
  bool unseen = false;
  {
    const Guard guard(mutex_);
    unseen = unseen_tombstoned_;
  }
  if (unseen) {
    Void();
    return AreDeletesFlushed();
  }
  // Even without pending deletes: another thread may still be writing some.
  try {
    if (FlushJournal()) return AreDeletesFlushed();
  } catch (const std::bad_alloc&) {
    // The further steps need no message.
  }
  if (last || journal_.is_broken()) RenewJournal();
  if (!AreDeletesFlushed()) Spoil(last);
  if (!AreDeletesFlushed() && last) Void();
  return AreDeletesFlushed();
}

void DiskStore::RenewJournal() {
  {
    const Guard guard(mutex_);
    if (!is_loaded_) return;
  }
  try {
    std::string why;
    const MutexLock syncing(sync_mutex_);
    if (journal_.Rewrite(&why) != Journal::Rewritten::kNot) (void)journal_.Flush();
  } catch (const std::bad_alloc&) {
    // Nothing has changed.
  }
}

void DiskStore::Spoil(bool last) {
  // Alone keeps other threads from recording deletes meanwhile, so no thread
  // reuses these extents.
  journal_.Alone([&] {
    while (SpoilNext(last)) {
    }
  });
  if (last) (void)files_->Sync(opening_.data.get());
}

// Overwrites the next deleted blob. Returns false if there is none or the write
// failed. While the store is open it skips blobs that may still be read.
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
  unseen_tombstoned_ = false;
  for (BlobId id = owed_first_; id != kNoBlob; id = entries_[id].owed_next) {
    if (!std::exchange(entries_[id].is_spoiled, true)) ++spoiled_;
  }
  health_ = Health::kDown;
  try {
    why_ = "disk: reset, because pending deletes could not be written";
  } catch (const std::bad_alloc&) {
    why_ = "reset";
  }
}

}  // namespace spillway
