// Accounts, and who has which place. Nothing here touches a file.
#include "tier/disk/disk_store.h"

#include <algorithm>
#include <cassert>
#include <new>

#include <fmt/format.h>

#include "tier/disk/blob_header.h"
#include "tier/disk/codec.h"

namespace spillway {

DiskStore::~DiskStore() {
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
  try {
    (void)Sync();
  } catch (const std::bad_alloc&) {
    // What was not synced outlives us all the same, but for a power cut.
  }
}

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

bool DiskStore::needs_settling() const {
  if (journal_.anything_queued()) return true;
  const Guard guard(mutex_);
  return owed_ > 0 || health_ == Health::kLoading;
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
  stats.direct = opening_.direct;
  stats.together = files_->together();
  const Guard guard(mutex_);
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
  if (sequence != 0) Forget(&entry, sequence);
}

void DiskStore::Forget(Entry* entry, std::uint64_t sequence) {
  try {
    journal_.QueueDelete(sequence);
  } catch (const std::bad_alloc&) {
    entry->owed = sequence;
    ++owed_;
  }
}

// What there was no memory to say. Until then nobody else gets those places.
// False: there still is none.
bool DiskStore::PayOwed() {
  const Guard guard(mutex_);
  for (BlobId id = 0; owed_ > 0 && id < entries_.size(); ++id) {
    Entry& entry = entries_[id];
    if (entry.owed == 0) continue;
    try {
      journal_.QueueDelete(entry.owed);
    } catch (const std::bad_alloc&) {
      return false;
    }
    entry.owed = 0;
    --owed_;
    if (entry.state != State::kGone) continue;
    allocator_.Give(entry.extent);
    entry = {};
    idle_ids_.push_back(id);
  }
  return true;
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
    if (!entry.is_revoked) Forget(&entry, entry.place.sequence);
    journal_live_ -= entry.place.bytes;
  }
  allocated_ -= entry.size;
  if (entry.owed != 0) {
    entry.state = State::kGone;
    entry.place = {};
    return;
  }
  if (!quarantine || !Isolate(entry.extent)) allocator_.Give(entry.extent);
  while (quarantined_ > quarantine_max_) {
    const Extent oldest = quarantine_.front();
    quarantined_ -= oldest.bytes;
    quarantine_.pop_front();
    allocator_.Give(oldest);
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
    for (const Entry& entry : entries_) {
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
}

}  // namespace spillway
