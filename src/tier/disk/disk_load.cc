// Finding what is there from before: the journal is read, and what it says is
// held against itself. The blobs' own bytes are looked at when they are read.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "tier/disk/blob_header.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/system_error.h"

namespace spillway {
namespace {

constexpr std::size_t kBatch = 1000;

// Two tenants' equal keys are two keys.
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

struct DiskStore::Recovery {
  struct Blob {
    PutRecord put;
    Journal::Place place;
    bool is_live = true;
  };
  JournalScan scan;
  std::vector<Blob> blobs;  // By sequence.
  std::uint64_t rejected = 0;
  // What the journal does not know to have gone.
  struct Gone {
    std::uint64_t sequence = 0;
    bool is_readable = false;  // It is all there, though not wanted.
  };
  std::vector<Gone> gone;
};

void DiskStore::Recover(Recovery* recovery) {
  std::unordered_map<std::uint64_t, std::size_t> by_sequence;
  std::vector<Recovery::Blob>& blobs = recovery->blobs;
  const auto visit = [&](JournalRecord&& record, Bytes at, std::uint32_t bytes) {
    if (!record.put) {
      const auto found = by_sequence.find(*record.deleted);
      if (found != by_sequence.end()) blobs[found->second].is_live = false;
      return !stop_;
    }
    if (!IsPlausible(*record.put, opening_.data_facts.bytes)) {
      ++recovery->rejected;
      recovery->gone.push_back({record.sequence, false});
      return !stop_;
    }
    by_sequence.emplace(record.sequence, blobs.size());
    blobs.push_back({std::move(*record.put), {record.sequence, at, bytes}});
    return !stop_;
  };
  recovery->scan = ScanJournal(*files_, opening_.journal.get(), *opening_.journal_header, visit);
  if (recovery->scan.torn) ++recovery->rejected;
  // A key's latest blob that is still there counts: two may have been written at
  // the same time, and the later one was not wanted. Of an earlier one that is
  // there, too, the end was lost; the journal is told, lest it come back when
  // the later one goes.
  std::unordered_set<std::string> seen;
  for (Recovery::Blob& blob : std::views::reverse(blobs)) {
    if (!blob.is_live || seen.insert(IdentityOf(blob.put.facts)).second) continue;
    blob.is_live = false;
    recovery->gone.push_back({blob.place.sequence, true});
  }
}

// Gives every blob its place. Of two that overlap the later one is there: the
// earlier had gone, and that record was lost.
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
  // Leaving needs no memory.
  entries_.reserve(blobs.size() + recovery->gone.size());
  idle_ids_.reserve(blobs.size() + recovery->gone.size());
  for (const Recovery::Blob& blob : blobs) {
    entries_.push_back(
        {State::kPublished, blob.put.extent, blob.put.facts.size, blob.put.header, blob.place});
    allocated_ += blob.put.facts.size;
    journal_live_ += blob.place.bytes;
  }
  for (const Recovery::Gone& gone : recovery->gone) {
    Entry& entry = entries_.emplace_back();
    entry.state = State::kGone;
    entry.is_spoiled = !gone.is_readable;
    if (entry.is_spoiled) ++spoiled_;
    Forget(static_cast<BlobId>(entries_.size() - 1), gone.sequence);
  }
  // Holes are not told from space: all of the file counts until it is given back.
  const Bytes file_bytes = std::min(opening_.data_facts.bytes, allocator_.range());
  if (file_bytes > 0) backing_.Set({0, file_bytes}, true);
}

void DiskStore::Load(const FoundCall& found) {
  Recovery recovery;
  const bool is_new = opening_.journal_number == 0;
  if (opening_.journal_header) {
    Recover(&recovery);
  } else if (!is_new) {
    recovery.scan.torn = true;
    recovery.rejected = 1;
  }
  if (stop_) return;
  if (recovery.scan.error != 0) {
    // What we did not see may be there: nothing is touched.
    ++counters_.io_errors;
    Worsen(
        Health::kDown,
        SystemError(recovery.scan.error, "read", journal_.PathOf(opening_.journal_number)).message);
    found({}, true);
    return;
  }
  Settle(&recovery);
  if (!is_new) {
    JournalHeader header;
    header.store = opening_.store;
    journal_.Adopt(std::move(opening_.journal), opening_.journal_number,
                   opening_.journal_header.value_or(header),
                   std::max(recovery.scan.good, JournalHeader::kBytes),
                   recovery.scan.last_sequence);
  }
  counters_.recovered = recovery.blobs.size();
  counters_.recovery_rejected = recovery.rejected;
  if (recovery.scan.torn) {
    std::string why;
    const std::lock_guard syncing(sync_mutex_);
    if (journal_.Rewrite(&why) != Journal::Rewritten::kDone) Worsen(Health::kReadOnly, why);
  }
  GiveBackIdle();
  {
    const Guard guard(mutex_);
    is_loaded_ = true;
  }

  std::vector<Found> batch;
  for (std::size_t id = 0; id < recovery.blobs.size(); ++id) {
    batch.push_back({static_cast<BlobId>(id), std::move(recovery.blobs[id].put.facts)});
    if (batch.size() < kBatch || id + 1 == recovery.blobs.size()) continue;
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
