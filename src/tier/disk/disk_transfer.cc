// Writing and reading blobs, on movers' threads.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include <fmt/format.h>

#include "tier/disk/blob_header.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/system_error.h"
#include "tier/disk/transfer.h"

namespace spillway {
namespace {

// So long the file does not grow after the disk was full: whoever filled it
// gets a moment, and we do not ask for every blob.
constexpr auto kNoGrowth = std::chrono::seconds(1);

bool IsSame(const BlobFacts& found, const BlobFacts& expected) {
  return found.key == expected.key && found.tenant == expected.tenant &&
         found.generation == expected.generation && found.size == expected.size;
}

}  // namespace

Error DiskStore::FileError(int error, std::string_view doing) {
  if (IsFull(error)) {
    const Guard guard(mutex_);
    no_growth_until_ = clock_->Now() + kNoGrowth;
  } else {
    ++counters_.io_errors;
  }
  return SystemError(error, doing, data_path_);
}

Result<DiskStore::Entry> DiskStore::EntryOf(BlobId id) const {
  const Guard guard(mutex_);
  if (id < entries_.size() && entries_[id].state != State::kFree) return entries_[id];
  return Error{Code::kInvalidArgument, fmt::format("disk: there is no blob {}", id)};
}

// Disk space for an extent, chunk by chunk, so that a write in the middle of a
// blob does not find the disk full.
Status DiskStore::Back(const Extent& extent) {
  const std::lock_guard growing(grow_mutex_);
  std::vector<Extent> runs;
  Bytes lacking = 0;
  {
    const Guard guard(mutex_);
    runs = backing_.Lacking(extent);
    lacking = backing_.LackingBytes(extent);
  }
  if (runs.empty()) return {};
  SpaceFacts space;
  const bool known = files_->FreeSpace(directory_, &space) == 0;
  {
    const Guard guard(mutex_);
    if (known) available_ = space.available;
    if (GrowableBytes() < lacking) {
      return Error{Code::kNoMemory,
                   fmt::format("disk: {} may not grow by {} bytes: the file system has {} "
                               "available, and {} are left to others",
                               data_path_, lacking, available_, min_free_)};
    }
  }
  for (const Extent& run : runs) {
    const int result = files_->Allocate(opening_.data.get(), run.at, run.bytes);
    if (result != 0 && result != -EOPNOTSUPP) return FileError(-result, "grow");
    const Guard guard(mutex_);
    backing_.Set(run, true);
    available_ -= std::min(available_, run.bytes);
  }
  return {};
}

Status DiskStore::WriteBytes(const Entry& entry, const BlobFacts& facts, Seal* seal,
                             const Source& source, const std::atomic<bool>* cancelled,
                             Hash128* header) {
  AlignedBuffer head(HeaderBytes(facts));
  const auto encode = [&](const std::vector<Hash128>& pieces) {
    *seal = Seal(pieces);
    *header = EncodeHeader({opening_.store, entry.extent.at, facts, *seal}, head.span());
  };
  WriteTransfer transfer(opening_.data.get(), entry.extent, head.span(), facts.size, source,
                         std::vector<Hash128>(seal->pieces()), encode, &buffers_, cancelled);
  files_->Run(transfer);
  counters_.written += transfer.moved();
  if (transfer.error() == Transfer::kCutShort) return FileError(EIO, "write to");
  if (transfer.error() != 0) return FileError(transfer.error(), "write to");
  if (transfer.is_cancelled()) return Error{Code::kCancelled, "disk: the write was cancelled"};
  return {};
}

Status DiskStore::Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
                        const std::atomic<bool>* cancelled) {
  const Result<Entry> entry = EntryOf(id);
  if (!entry) return entry.error();
  if (entry->state != State::kAllocated || entry->size != facts.size ||
      source.bytes() != facts.size ||
      (!seal->pieces().empty() && seal->pieces().size() != Seal::PiecesIn(facts.size)) ||
      HeaderBytes(facts) + PagesUp(facts.size) != entry->extent.bytes) {
    return Error{Code::kInvalidArgument,
                 "disk: the blob is not the one its place was allocated for"};
  }
  {
    const Guard guard(mutex_);
    if (health_ != Health::kGood) return Refusal();
  }
  // Whoever was here before has gone by the journal, too, before we write.
  if (Status status = journal_.Flush(); !status) return status;
  if (Status status = Back(entry->extent); !status) return status;
  PutRecord record{entry->extent, {}, facts};
  if (Status status = WriteBytes(*entry, facts, seal, source, cancelled, &record.header); !status) {
    return status;
  }
  std::optional<Status> answer;
  {
    const Guard guard(mutex_);
    if (health_ != Health::kGood) return Refusal();
    Entry& own = entries_[id];
    if (own.is_revoked) return Error{Code::kCancelled, "disk: the blob is not wanted any more"};
    own.header = record.header;
    own.queued = journal_.QueuePut(record, id, &answer);
  }
  if (Status status = journal_.Await(&answer); !status) {
    if (status.error().code == Code::kUnavailable) ++counters_.io_errors;
    return status;
  }
  ++counters_.writes;
  counters_.value_written += facts.size;
  return {};
}

Status DiskStore::Verify(const Entry& entry, const BlobFacts& expected, std::byte* to, Seal* seal,
                         const std::atomic<bool>* cancelled) {
  AlignedBuffer head(entry.extent.bytes - PagesUp(entry.size));
  ReadTransfer transfer(opening_.data.get(), entry.extent, head.span(), entry.size, to, &buffers_,
                        cancelled);
  files_->Run(transfer);
  counters_.read += transfer.moved();
  const auto corrupt = [&](std::string_view what) {
    return Error{Code::kCorrupt,
                 fmt::format("disk: {} at {}: {}", data_path_, entry.extent.at, what)};
  };
  if (transfer.error() == Transfer::kCutShort) return corrupt("the file ends before the blob");
  if (transfer.error() != 0) return FileError(transfer.error(), "read");
  if (transfer.is_cancelled()) return Error{Code::kCancelled, "disk: the read was cancelled"};
  auto header = DecodeHeader(head.span(), entry.header);
  if (!header) return corrupt(header.error().message);
  if (header->store != opening_.store || header->at != entry.extent.at) {
    return corrupt("the header belongs elsewhere");
  }
  if (!IsSame(header->facts, expected)) return corrupt("it is another blob");
  if (header->seal.pieces() != transfer.pieces()) return corrupt("the value is damaged");
  if (!transfer.is_padding_zero()) return corrupt("what follows the value is damaged");
  if (seal != nullptr) *seal = std::move(header->seal);
  return {};
}

Status DiskStore::Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
                       const std::atomic<bool>* cancelled) {
  const Result<Entry> entry = EntryOf(id);
  if (!entry) return entry.error();
  if (entry->state == State::kAllocated) {
    return Error{Code::kInvalidArgument, fmt::format("disk: blob {} was never written", id)};
  }
  Status status = Error{Code::kCorrupt, "disk: the blob was lost when a sync failed"};
  if (entry->state != State::kLost) {
    // `to` has room for what is expected, and for no more.
    status = entry->size == expected.size
                 ? Verify(*entry, expected, to, seal, cancelled)
                 : Error{Code::kCorrupt, "disk: the blob has another size"};
  }
  if (status) {
    ++counters_.reads;
  } else if (status.error().code == Code::kCorrupt) {
    ++counters_.corrupt;
  }
  return status;
}

}  // namespace spillway
