// SPDX-License-Identifier: Apache-2.0
// Loading: reads the journal of an earlier process and checks its records
// against each other. The blobs' own bytes are verified when they are read.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutant.h"
#include "tier/disk/blob_header.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/journal_scan.h"
#include "tier/disk/system_error.h"

namespace spillway {
namespace {

constexpr std::size_t kBatch = 1000;

// Equal keys of two tenants are two keys.
std::string IdentityOf(const BlobFacts& facts) {
  return fmt::format("{}:{}{}", facts.tenant.size(), facts.tenant, facts.key);
}

bool IsPlausible(const PutRecord& put, Bytes file_bytes) {
  const Extent& extent = put.extent;
  return extent.at % kPageBytes == 0 && extent.at <= file_bytes &&
         extent.bytes <= file_bytes - extent.at && put.facts.size <= extent.bytes &&
         extent.bytes == HeaderBytes(put.facts) + PagesUp(put.facts.size);
}

}  // namespace

// Collects the blobs that the journal names, record by record. A lost range may
// have contained deletes or deadlines of blobs recorded before it. Then all
// blobs before it are dropped, since finding nothing is better than finding an
// old value. A range that was not yet synced at a power cut does not count as
// lost: its records were never promised to be durable.
struct DiskStore::Recovery final : JournalVisitor {
  struct Blob {
    PutRecord put;
    Journal::Place place;
    bool is_live = true;
    Journal::Place deadline_place = {};
  };
  // A put whose blob must not be found; the journal has no delete for it.
  struct Gone {
    std::uint64_t sequence = 0;
    bool is_readable = false;  // The blob's bytes are complete, though it must not be found.
  };

  Recovery(const JournalHeader& journal_header, Bytes data_bytes, const std::atomic<bool>& stop)
      : header_(journal_header), data_bytes_(data_bytes), stop_(stop) {}

  bool Record(JournalRecord&& record, Bytes at, std::uint32_t bytes) override {
    const Journal::Place place{record.sequence, at, bytes};
    if (record.put) {
      Put(std::move(*record.put), place);
    } else if (Blob* const blob = Find(record.deleted ? *record.deleted : record.deadline->put)) {
      if (record.deleted) {
        blob->is_live = false;
      } else {
        blob->put.facts.expires_unix_ns = record.deadline->expires_unix_ns;
        blob->deadline_place = place;
      }
    }
    return !stop_;
  }
  void Padding(Bytes synced_bytes) override {
    for (const Lost& lost : lost_) {
      if (lost.at < synced_bytes) GiveUp(lost.blobs_before);
    }
    std::erase_if(lost_, [&](const Lost& lost) { return lost.at < synced_bytes; });
  }
  void Gap(Bytes at, Bytes) override {
    const bool was_safe = at < header_.synced_bytes;
    if (was_safe || header_.version != JournalHeader::kVersion) return GiveUp(blobs.size());
    lost_.push_back({at, blobs.size()});
  }
  // The journal ended before bytes that had been synced: the rest of it is lost.
  void EndAt(Bytes at) {
    if (at < header_.synced_bytes) GiveUp(blobs.size());
  }
  // Keeps only the latest live blob of each key. Two can be live if they were
  // written at the same time, or if the record that deleted the earlier one was
  // lost. The journal is told to delete the earlier one; otherwise it would
  // come back once the later one is deleted.
  void KeepLatest() {
    std::unordered_set<std::string> seen;
    for (Blob& blob : std::views::reverse(blobs)) {
      if (!blob.is_live || seen.insert(IdentityOf(blob.put.facts)).second) continue;
      blob.is_live = false;
      gone.push_back({blob.place.sequence, true});
    }
  }

  JournalScan scan;
  std::vector<Blob> blobs;  // By sequence.
  std::uint64_t rejected = 0;
  std::uint64_t given_up = 0;
  std::vector<Gone> gone;

 private:
  void Put(PutRecord&& put, const Journal::Place& place) {
    if (!IsPlausible(put, data_bytes_)) {
      ++rejected;
      gone.push_back({place.sequence, false});
      return;
    }
    by_sequence_.emplace(place.sequence, blobs.size());
    blobs.push_back({std::move(put), place});
  }
  Blob* Find(std::uint64_t sequence) {
    const auto found = by_sequence_.find(sequence);
    return found == by_sequence_.end() ? nullptr : &blobs[found->second];
  }
  void GiveUp(std::size_t first_blobs) {
    if (MutantOn(Mutant::kLostRangeTrusted)) return;
    for (; given_up_to_ < first_blobs; ++given_up_to_) {
      Blob& blob = blobs[given_up_to_];
      if (!std::exchange(blob.is_live, false)) continue;
      ++given_up;
      gone.push_back({blob.place.sequence, true});
    }
  }

  const JournalHeader header_;
  const Bytes data_bytes_;
  const std::atomic<bool>& stop_;
  std::unordered_map<std::uint64_t, std::size_t> by_sequence_;
  // Lost ranges of which it is not yet known whether they had been synced.
  struct Lost {
    Bytes at = 0;
    std::size_t blobs_before = 0;
  };
  std::vector<Lost> lost_;
  std::size_t given_up_to_ = 0;
};

void DiskStore::Recover(Recovery* recovery) {
  recovery->scan = ScanJournal(*files_, opening_.journal.get(), opening_.mirror.get(),
                               *opening_.journal_header, recovery);
  if (recovery->scan.torn) ++recovery->rejected;
  recovery->rejected += recovery->scan.gaps;
  if (recovery->scan.error == 0 && !stop_) recovery->EndAt(recovery->scan.good);
  recovery->KeepLatest();
}

// Gives each blob its extent. Of two that overlap the later one is intact: the
// earlier was deleted, and that record was lost.
void DiskStore::Settle(Recovery* recovery) {
  const Guard guard(mutex_);
  std::vector<Recovery::Blob>& blobs = recovery->blobs;
  for (Recovery::Blob& blob : std::views::reverse(blobs)) {
    if (!blob.is_live || allocator_.Take(blob.put.extent)) continue;
    blob.is_live = false;
    ++recovery->rejected;
    recovery->gone.push_back({blob.place.sequence, false});
  }
  std::erase_if(blobs, [](const Recovery::Blob& blob) { return !blob.is_live; });
  // Capacity for all, so that deleting never allocates.
  entries_.reserve(blobs.size() + recovery->gone.size());
  idle_ids_.reserve(blobs.size() + recovery->gone.size());
  for (const Recovery::Blob& blob : blobs) {
    Entry& entry = entries_.emplace_back();
    entry.state = State::kPublished;
    entry.extent = blob.put.extent;
    entry.size = blob.put.facts.size;
    entry.header = blob.put.header;
    entry.place = blob.place;
    entry.deadline_place = blob.deadline_place;
    entry.expires_unix_ns = blob.put.facts.expires_unix_ns;
    allocated_ += blob.put.facts.size;
    journal_live_ += blob.place.bytes + blob.deadline_place.bytes;
  }
  for (const Recovery::Gone& gone : recovery->gone) {
    Entry& entry = entries_.emplace_back();
    entry.state = State::kGone;
    entry.is_spoiled = !gone.is_readable;
    if (entry.is_spoiled) ++spoiled_;
    Forget(static_cast<BlobId>(entries_.size() - 1), gone.sequence);
  }
  // Holes in the file cannot be told from allocated space: all of the file
  // counts as allocated until it is punched out.
  const Bytes file_bytes = std::min(opening_.data_facts.bytes, allocator_.range());
  if (file_bytes > 0) backing_.Set({0, file_bytes}, true);
}

// A journal that ends in an unfinished record is the normal result of a kill;
// everything else is damage.
void DiskStore::SayWhatWasDamaged(const Recovery& recovery) const {
  const JournalScan& scan = recovery.scan;
  const std::string path = journal_.PathOf(opening_.journal_number);
  const std::uint64_t mended = scan.from_mirror + scan.corrected + (opening_.header_mended ? 1 : 0);
  if (!opening_.journal_header) {
    LogWarning("disk: the header of {} is damaged or void: none of its values can be found", path);
  } else if (mended + scan.gaps > 0) {
    LogWarning(
        "disk: {} is damaged: {} records repaired ({} from its mirror, {} with one flipped bit{}), "
        "{} ranges ({} bytes) lost; {} values found, {} dropped because a lost range may have "
        "deleted them",
        path, mended, scan.from_mirror, scan.corrected,
        opening_.header_mended ? ", and its header" : "", scan.gaps, scan.gap_bytes,
        recovery.blobs.size(), recovery.given_up);
  }
  if (scan.torn) {
    LogInfo("disk: {} ends in an unfinished record at byte {}, left by a kill or a power cut", path,
            scan.good);
  }
}

// A damaged journal or mirror is replaced by a new one.
void DiskStore::AdoptJournal(const Recovery& recovery) {
  const JournalScan& scan = recovery.scan;
  JournalHeader header;
  header.store = opening_.store;
  if (opening_.journal_header) header = *opening_.journal_header;
  const bool is_mirrored = opening_.mirror.is_open();
  const bool must = scan.is_damaged() || opening_.header_mended || !opening_.journal_header ||
                    header.version != JournalHeader::kVersion;
  journal_.Adopt(std::move(opening_.journal), std::move(opening_.mirror), opening_.journal_number,
                 header, std::max(scan.good, JournalHeader::kBytes), scan.last_sequence);
  if (!must && is_mirrored && !scan.mirror_differs) return;
  std::string why;
  const MutexLock syncing(sync_mutex_);
  if (journal_.Rewrite(&why) == Journal::Rewritten::kDone) return;
  if (must) {
    Worsen(Health::kReadOnly, why);
  } else {
    LogWarning("{}; continuing without a complete mirror", why);
  }
}

void DiskStore::Load(const FoundCall& found) {
  const bool is_new = opening_.journal_number == 0;
  Recovery recovery(opening_.journal_header.value_or(JournalHeader()), opening_.data_facts.bytes,
                    stop_);
  if (opening_.journal_header) {
    Recover(&recovery);
  } else if (!is_new) {
    recovery.scan.torn = true;
    recovery.rejected = 1;
  }
  if (stop_) return;
  if (recovery.scan.error != 0) {
    // Blobs that were not seen may exist: nothing is touched.
    ++counters_.io_errors;
    Worsen(
        Health::kDown,
        SystemError(recovery.scan.error, "read", journal_.PathOf(opening_.journal_number)).message);
    found({}, true);
    return;
  }
  Settle(&recovery);
  counters_.recovered = recovery.blobs.size();
  counters_.recovery_rejected = recovery.rejected;
  counters_.recovery_given_up = recovery.given_up;
  counters_.recovery_mended =
      recovery.scan.from_mirror + recovery.scan.corrected + (opening_.header_mended ? 1 : 0);
  if (!is_new) {
    SayWhatWasDamaged(recovery);
    AdoptJournal(recovery);
  }
  GiveBackIdle();
  {
    const Guard guard(mutex_);
    is_loaded_ = true;
  }
  Hand(&recovery, found);
}

void DiskStore::Hand(Recovery* recovery, const FoundCall& found) {
  std::vector<Found> batch;
  for (std::size_t id = 0; id < recovery->blobs.size(); ++id) {
    batch.push_back({static_cast<BlobId>(id), std::move(recovery->blobs[id].put.facts)});
    if (batch.size() < kBatch || id + 1 == recovery->blobs.size()) continue;
    if (stop_) return;
    found(std::exchange(batch, {}), false);
  }
  {
    const Guard guard(mutex_);
    if (health_ == Health::kLoading) {
      health_ = Health::kGood;
      why_.clear();
    }
  }
  if (!stop_) found(std::move(batch), true);
}

}  // namespace spillway
