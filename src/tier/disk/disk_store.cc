// SPDX-License-Identifier: Apache-2.0
// The store's counters and the allocation of extents. Nothing here touches a file.
#include "tier/disk/disk_store.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "tier/disk/blob_header.h"
#include "tier/disk/codec.h"

namespace spillway {

Bytes DiskStore::allocated() const {
  const Guard guard(mutex_);
  return allocated_;
}

Bytes DiskStore::held() const {
  const Bytes journal = journal_.held();
  const Guard guard(mutex_);
  return backing_.clean() + journal;
}

BlobStore::Health DiskStore::health() const {
  const Guard guard(mutex_);
  return health_;
}

bool DiskStore::has_unseen() const {
  const Guard guard(mutex_);
  return health_ == Health::kDown && !is_loaded_ && !is_void_;
}

void DiskStore::TombstoneUnseen() {
  const Guard guard(mutex_);
  unseen_tombstoned_ = !is_void_;
}

bool DiskStore::has_pending_deletes() const {
  if (journal_.anything_queued()) return true;
  const Guard guard(mutex_);
  return owed_ > spoiled_ || unseen_tombstoned_ || health_ == Health::kLoading;
}

std::string DiskStore::pending_why() const {
  const Guard guard(mutex_);
  // Deletes are pending, and no error has occurred so far.
  return owed_ > 0 && pending_why_.empty() ? "the disk has not answered yet" : pending_why_;
}

std::string DiskStore::why() const {
  const Guard guard(mutex_);
  return why_;
}

BlobStoreStats DiskStore::stats() const {
  BlobStoreStats stats;
  stats.written = counters_.written + journal_.written();
  stats.value_written = counters_.value_written;
  stats.read = counters_.read;
  stats.writes = counters_.writes;
  stats.reads = counters_.reads;
  stats.corrupt = counters_.corrupt;
  stats.io_errors = counters_.io_errors;
  stats.syncs = counters_.syncs;
  stats.sync_failures = counters_.sync_failures;
  stats.recovered = counters_.recovered;
  stats.recovery_rejected = counters_.recovery_rejected;
  stats.recovery_mended = counters_.recovery_mended;
  stats.recovery_given_up = counters_.recovery_given_up;
  stats.delete_flush_failures = counters_.delete_flush_failures;
  stats.voided = counters_.voided;
  stats.direct = opening_.direct;
  stats.together = files_->together();
  const Guard guard(mutex_);
  stats.deletes_pending = owed_ - spoiled_ + (unseen_tombstoned_ ? 1 : 0);
  stats.quarantined = quarantined_;
  return stats;
}

bool DiskStore::is_out_of_space() const {
  const Guard guard(mutex_);
  return clock_->Now() < no_growth_until_;
}

void DiskStore::Worsen(Health health, const std::string& why) {
  const Guard guard(mutex_);
  if (health_ != Health::kLoading && health <= health_) return;
  health_ = health;
  why_ = why;
}

Error DiskStore::Refusal() const { return {Code::kUnavailable, why_}; }

Bytes DiskStore::GrowableBytes() const {
  if (available_ <= min_free_ || clock_->Now() < no_growth_until_) return 0;
  return available_ - min_free_;
}

Result<BlobId> DiskStore::Allocate(const BlobFacts& facts) {
  if (EncodedBytes(facts) > kFactsBytesMax) {
    return Error{Code::kInvalidArgument, "disk: key, tenant, agent, meta and parent are too long"};
  }
  const Guard guard(mutex_);
  if (health_ != Health::kGood) return Refusal();
  const auto full = [&](std::string_view what) {
    return Error{Code::kNoMemory,
                 fmt::format("disk: no room for {} bytes in {}: {}", facts.size, directory_, what)};
  };
  if (facts.size > quota_) return full("it is more than the quota");
  const Bytes bytes = HeaderBytes(facts) + PagesUp(facts.size);
  const Bytes used = allocator_.range() - allocator_.free();
  if (used + bytes > quota_) return full("the quota is used up");
  const Bytes growable = GrowableBytes();
  const auto extent = allocator_.Find(
      bytes, [&](const Extent& candidate) SPILLWAY_REQUIRES(mutex_) -> std::optional<Bytes> {
        if (candidate.end() > quota_) return std::nullopt;
        const Bytes lacking = backing_.LackingBytes(candidate);
        if (lacking > growable) return std::nullopt;
        return lacking;
      });
  if (!extent) return full("free space is too fragmented, or the file system is full");
  // Nothing below can fail.
  if (idle_ids_.empty()) {
    if (entries_.size() == entries_.capacity()) entries_.reserve(2 * entries_.size() + 16);
    idle_ids_.reserve(entries_.capacity());
  }
  [[maybe_unused]] const bool taken = allocator_.Take(*extent);
  assert(taken);

  BlobId id = kNoBlob;
  if (idle_ids_.empty()) {
    id = static_cast<BlobId>(entries_.size());
    entries_.emplace_back();
  } else {
    id = idle_ids_.back();
    idle_ids_.pop_back();
  }
  Entry& entry = entries_[id];
  assert(entry.state == State::kFree);
  entry.state = State::kAllocated;
  entry.extent = *extent;
  entry.size = facts.size;
  allocated_ += facts.size;
  return id;
}

void DiskStore::Free(BlobId id) { Leave(id, false); }
void DiskStore::Quarantine(BlobId id) { Leave(id, true); }

void DiskStore::Tombstone(BlobId id) {
  const Guard guard(mutex_);
  Entry& entry = entries_[id];
  assert(id < entries_.size() && entry.state != State::kFree);
  if (std::exchange(entry.is_tombstoned, true)) return;
  // The delete goes behind the blob's own record if that is still queued.
  const std::uint64_t sequence = entry.place.bytes > 0 ? entry.place.sequence : entry.queued;
  if (sequence != 0) Forget(id, sequence);
}

// While the blob's record is not yet queued, Write puts the new deadline into that record.
void DiskStore::ChangeDeadline(BlobId id, std::optional<std::int64_t> expires_unix_ns) {
  const Guard guard(mutex_);
  Entry& entry = entries_[id];
  assert(id < entries_.size() && entry.state != State::kFree);
  entry.expires_unix_ns = expires_unix_ns;
  ++entry.changes;
  if (entry.sequence() != 0 && !entry.is_tombstoned) List(id);
}

void DiskStore::List(BlobId id) {
  Entry& entry = entries_[id];
  if (std::exchange(entry.is_listed, true)) return;
  entry.owed_next = kNoBlob;
  (owed_first_ == kNoBlob ? owed_first_ : entries_[owed_last_].owed_next) = id;
  owed_last_ = id;
  ++owed_;
}

void DiskStore::Forget(BlobId id, std::uint64_t sequence) {
  assert(entries_[id].owed == 0);
  entries_[id].owed = sequence;
  List(id);
}

// Clears the entry's pending change. The entry is no longer in the list.
void DiskStore::Acquit(BlobId id) {
  Entry& entry = entries_[id];
  --owed_;
  if (entry.is_spoiled) --spoiled_;
  entry.owed = 0;
  entry.is_listed = entry.is_spoiled = entry.is_left_out = false;
  if (entry.state != State::kGone) return;
  entry = {};
  idle_ids_.push_back(id);
}

std::size_t DiskStore::Owed() {
  const Guard guard(mutex_);
  return owed_;
}

std::size_t DiskStore::Changes(std::uint64_t before, std::span<Journal::Change> changes) {
  const Guard guard(mutex_);
  std::size_t count = 0;
  for (BlobId id = owed_first_; id != kNoBlob && count < changes.size();) {
    Entry& entry = entries_[id];
    entry.is_end_telling = entry.owed != 0;
    entry.changes_telling = entry.changes;
    const std::uint64_t put = entry.is_end_telling ? entry.owed : entry.sequence();
    if (put >= before) break;
    changes[count++] = {put, entry.is_end_telling, entry.expires_unix_ns};
    id = entry.owed_next;
  }
  return count;
}

// Meanwhile there may have been another deadline, or a delete: then that one is pending.
void DiskStore::Told(std::span<const Journal::Place> places) {
  const Guard guard(mutex_);
  for (const Journal::Place& place : places) {
    const BlobId id = owed_first_;
    Entry& entry = entries_[id];
    owed_first_ = entry.owed_next;
    if (owed_first_ == kNoBlob) owed_last_ = kNoBlob;
    if (!entry.is_end_telling && entry.state == State::kPublished) {
      journal_live_ += place.bytes;
      journal_live_ -= entry.deadline_place.bytes;
      entry.deadline_place = place;
    }
    const bool is_done =
        entry.is_end_telling || (entry.owed == 0 && entry.changes == entry.changes_telling);
    if (is_done) {
      Acquit(id);
    } else {
      entry.is_listed = false;
      --owed_;
      List(id);
    }
  }
  if (owed_ == 0) pending_why_.clear();
}

// Without memory for the quarantine list the extent is simply freed.
bool DiskStore::Isolate(const Extent& extent) {
  try {
    quarantine_.push_back(extent);
  } catch (const std::bad_alloc&) {
    return false;
  }
  quarantined_ += extent.bytes;
  return true;
}

void DiskStore::Leave(BlobId id, bool quarantine) {
  const Guard guard(mutex_);
  assert(id < entries_.size() && entries_[id].state != State::kFree);
  Entry& entry = entries_[id];
  if (entry.place.bytes > 0) {
    if (!entry.is_tombstoned) Forget(id, entry.place.sequence);
    journal_live_ -= entry.place.bytes + entry.deadline_place.bytes;
  } else if (entry.queued != 0 && entry.owed == 0 && !entry.is_tombstoned && journal_.is_broken()) {
    Forget(id, entry.queued);  // Its record may be in the tail that could not be truncated.
  }
  allocated_ -= entry.size;
  // Before the extent's next blob is written, the journal records this delete.
  if (!quarantine || !Isolate(entry.extent)) allocator_.Give(entry.extent);
  while (quarantined_ > quarantine_max_) {
    const Extent oldest = quarantine_.front();
    quarantined_ -= oldest.bytes;
    quarantine_.pop_front();
    allocator_.Give(oldest);
  }
  // The pending change may be only a deadline, of a record that was never
  // written. Such a change has no effect.
  if (entry.is_listed) {
    entry.queued = entry.sequence();
    entry.state = State::kGone;
    entry.place = entry.deadline_place = {};
    return;
  }
  entry = {};
  idle_ids_.push_back(id);
}

void DiskStore::Recorded(std::uint32_t cookie, const Journal::Place& place) {
  const Guard guard(mutex_);
  Entry& entry = entries_[cookie];
  assert(entry.state == State::kAllocated);
  entry.state = data_untrusted_ ? State::kLost : State::kPublished;
  entry.place = place;
  journal_live_ += place.bytes;
  entry.round = round_;
  data_dirty_ = true;
}

std::vector<Journal::LiveRecord> DiskStore::Live() {
  std::vector<Journal::LiveRecord> records;
  {
    const Guard guard(mutex_);
    for (Entry& entry : entries_) {
      // Not if the blob's own record may still be queued.
      const bool has_gone = entry.owed != 0 || entry.state == State::kGone;
      if (entry.is_listed && has_gone && entry.state != State::kAllocated) entry.is_left_out = true;
      if (entry.state != State::kPublished || entry.place.bytes == 0) continue;
      if (entry.is_tombstoned) continue;
      records.push_back({entry.place});
      // The latest deadline, even if the journal does not have it yet.
      if (entry.deadline_place.bytes == 0) continue;
      records.push_back(
          {entry.deadline_place, DeadlineRecord{entry.place.sequence, entry.expires_unix_ns}});
    }
  }
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.place.sequence < b.place.sequence; });
  return records;
}

void DiskStore::Moved(const std::vector<Journal::Place>& places) {
  const Guard guard(mutex_);
  const auto moved = [&](const Journal::Place& from) {
    if (from.bytes == 0) return Journal::Place{};
    const auto place = std::lower_bound(places.begin(), places.end(), from.sequence,
                                        [](const Journal::Place& each, std::uint64_t sequence) {
                                          return each.sequence < sequence;
                                        });
    const bool kept = place != places.end() && place->sequence == from.sequence;
    return kept ? *place : Journal::Place{};
  };
  journal_live_ = 0;
  for (Entry& entry : entries_) {
    entry.place = moved(entry.place);
    entry.deadline_place = moved(entry.deadline_place);
    journal_live_ += entry.place.bytes + entry.deadline_place.bytes;
  }
  // Deletes of records that the new journal does not contain need not be written.
  BlobId id = owed_first_;
  owed_first_ = owed_last_ = kNoBlob;
  while (id != kNoBlob) {
    const BlobId next = entries_[id].owed_next;
    if (entries_[id].is_left_out) {
      Acquit(id);
    } else {
      entries_[id].is_listed = false;
      --owed_;
      List(id);
    }
    id = next;
  }
}

}  // namespace spillway
