// Accounts, and who has which place. Nothing here touches a file.
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
  const Bytes journal = journal_.bytes();
  const Guard guard(mutex_);
  return backing_.backed() + journal;
}

BlobStore::Health DiskStore::health() const {
  const Guard guard(mutex_);
  return health_;
}

bool DiskStore::has_unseen() const {
  const Guard guard(mutex_);
  return health_ == Health::kDown && !is_loaded_ && !is_void_;
}

void DiskStore::RevokeUnseen() {
  const Guard guard(mutex_);
  unseen_revoked_ = !is_void_;
}

bool DiskStore::needs_settling() const {
  if (journal_.anything_queued()) return true;
  const Guard guard(mutex_);
  return owed_ > spoiled_ || unseen_revoked_ || health_ == Health::kLoading;
}

std::string DiskStore::unsettled_why() const {
  const Guard guard(mutex_);
  // Owed, and nothing went wrong so far.
  return owed_ > 0 && unsettled_why_.empty() ? "it has not answered yet" : unsettled_why_;
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
  stats.settle_failures = counters_.settle_failures;
  stats.voided = counters_.voided;
  stats.direct = opening_.direct;
  stats.together = files_->together();
  const Guard guard(mutex_);
  stats.unsettled = owed_ - spoiled_ + (unseen_revoked_ ? 1 : 0);
  stats.quarantined = quarantined_;
  return stats;
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
  const auto extent = allocator_.Find(bytes, [&](const Extent& candidate) -> std::optional<Bytes> {
    if (candidate.end() > quota_) return std::nullopt;
    const Bytes lacking = backing_.LackingBytes(candidate);
    if (lacking > growable) return std::nullopt;
    return lacking;
  });
  if (!extent) return full("what is free is in pieces, or the file system is full");
  // What follows can't fail.
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

void DiskStore::Revoke(BlobId id) {
  const Guard guard(mutex_);
  Entry& entry = entries_[id];
  assert(id < entries_.size() && entry.state != State::kFree);
  if (std::exchange(entry.is_revoked, true)) return;
  // Behind its own record, if that is still on its way.
  const std::uint64_t sequence = entry.place.bytes > 0 ? entry.place.sequence : entry.queued;
  if (sequence != 0) Forget(id, sequence);
}

void DiskStore::Forget(BlobId id, std::uint64_t sequence) {
  Entry& entry = entries_[id];
  assert(entry.owed == 0);
  entry.owed = sequence;
  entry.owed_next = kNoBlob;
  (owed_first_ == kNoBlob ? owed_first_ : entries_[owed_last_].owed_next) = id;
  owed_last_ = id;
  ++owed_;
}

void DiskStore::Acquit(BlobId id) {
  Entry& entry = entries_[id];
  --owed_;
  if (entry.is_spoiled) --spoiled_;
  entry.owed = 0;
  entry.is_spoiled = entry.is_left_out = false;
  if (entry.state != State::kGone) return;
  entry = {};
  idle_ids_.push_back(id);
}

std::size_t DiskStore::Owed() {
  const Guard guard(mutex_);
  return owed_;
}

std::size_t DiskStore::Gone(std::uint64_t before, std::span<std::uint64_t> sequences) {
  const Guard guard(mutex_);
  std::size_t count = 0;
  for (BlobId id = owed_first_; id != kNoBlob && count < sequences.size();) {
    const Entry& entry = entries_[id];
    if (entry.owed >= before) break;
    sequences[count++] = entry.owed;
    id = entry.owed_next;
  }
  return count;
}

void DiskStore::Told(std::size_t count) {
  const Guard guard(mutex_);
  for (; count > 0; --count) {
    const BlobId id = owed_first_;
    owed_first_ = entries_[id].owed_next;
    Acquit(id);
  }
  if (owed_first_ == kNoBlob) owed_last_ = kNoBlob;
  if (owed_ == 0) unsettled_why_.clear();
}

// Without memory for that its place is simply free.
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
    if (!entry.is_revoked) Forget(id, entry.place.sequence);
    journal_live_ -= entry.place.bytes;
  } else if (entry.queued != 0 && entry.owed == 0 && !entry.is_revoked && journal_.is_broken()) {
    Forget(id, entry.queued);  // It may stand in the tail that could not be taken back.
  }
  allocated_ -= entry.size;
  // Whoever gets its place has the journal told before it writes there.
  if (!quarantine || !Isolate(entry.extent)) allocator_.Give(entry.extent);
  while (quarantined_ > quarantine_max_) {
    const Extent oldest = quarantine_.front();
    quarantined_ -= oldest.bytes;
    quarantine_.pop_front();
    allocator_.Give(oldest);
  }
  if (entry.owed != 0) {
    entry.state = State::kGone;
    entry.place = {};
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

std::vector<Journal::Place> DiskStore::Live() {
  std::vector<Journal::Place> places;
  {
    const Guard guard(mutex_);
    for (Entry& entry : entries_) {
      // Not so if its record may still be on its way.
      if (entry.owed != 0 && entry.state != State::kAllocated) entry.is_left_out = true;
      if (entry.state != State::kPublished || entry.place.bytes == 0) continue;
      if (!entry.is_revoked) places.push_back(entry.place);
    }
  }
  std::sort(places.begin(), places.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return places;
}

void DiskStore::Moved(const std::vector<Journal::Place>& places) {
  const Guard guard(mutex_);
  journal_live_ = 0;
  for (Entry& entry : entries_) {
    if (entry.place.bytes == 0) continue;
    const auto place = std::lower_bound(places.begin(), places.end(), entry.place.sequence,
                                        [](const Journal::Place& each, std::uint64_t sequence) {
                                          return each.sequence < sequence;
                                        });
    const bool kept = place != places.end() && place->sequence == entry.place.sequence;
    entry.place = kept ? *place : Journal::Place{};
    journal_live_ += entry.place.bytes;
  }
  // What it does not have it need not be told of.
  BlobId id = owed_first_;
  owed_first_ = owed_last_ = kNoBlob;
  while (id != kNoBlob) {
    const BlobId next = entries_[id].owed_next;
    if (entries_[id].is_left_out) {
      Acquit(id);
    } else {
      const std::uint64_t sequence = std::exchange(entries_[id].owed, 0);
      --owed_;
      Forget(id, sequence);
    }
    id = next;
  }
}

}  // namespace spillway
