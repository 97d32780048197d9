// SPDX-License-Identifier: Apache-2.0
// Writing and reading blobs, on transfer threads.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include <fmt/format.h>

#include "tier/disk/blob_header.h"
#include "tier/disk/blob_transfer.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/system_error.h"

namespace spillway {
namespace {

// For this long after the disk was full the file does not grow: others get a
// moment to free space, and the store does not retry for every blob.
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

// Allocates disk space for an extent, chunk by chunk, so that a write in the
// middle of a blob never finds the disk full.
Status DiskStore::Back(const Extent& extent) {
  const MutexLock growing(grow_mutex_);
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
    if (clock_->Now() < no_growth_until_) {
      return Error{Code::kNoMemory,
                   fmt::format("disk: {} may not grow by {} bytes: the file system was full less "
                               "than a second ago",
                               data_path_, lacking)};
    }
    if (GrowableBytes() < lacking) {
      return Error{Code::kNoMemory,
                   fmt::format("disk: {} may not grow by {} bytes: the file system has {} "
                               "available, and {} stay reserved for others",
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
  if (transfer.error() == BlobTransfer::kCutShort) return FileError(EIO, "write to");
  if (transfer.error() != 0) return FileError(transfer.error(), "write to");
  if (transfer.is_cancelled()) return Error{Code::kCancelled, "disk: the write was cancelled"};
  return {};
}

Result<DiskStore::Entry> DiskStore::EntryToWrite(BlobId id, const BlobFacts& facts,
                                                 const Seal& seal, const Source& source) const {
  Result<Entry> entry = EntryOf(id);
  if (!entry) return entry;
  if (entry->state != State::kAllocated || entry->size != facts.size ||
      source.bytes() != facts.size ||
      (!seal.pieces().empty() && seal.pieces().size() != Seal::PiecesIn(facts.size)) ||
      HeaderBytes(facts) + PagesUp(facts.size) != entry->extent.bytes) {
    return Error{Code::kInvalidArgument, "disk: the blob does not match its allocation"};
  }
  return entry;
}

Status DiskStore::QueueRecord(BlobId id, PutRecord record, std::optional<Status>* answer) {
  const Guard guard(mutex_);
  if (health_ != Health::kGood) return Refusal();
  Entry& own = entries_[id];
  if (own.is_tombstoned) return Error{Code::kCancelled, "disk: the blob was revoked"};
  own.header = record.header;
  // The deadline was changed while the blob was written.
  if (own.changes > 0) record.facts.expires_unix_ns = own.expires_unix_ns;
  own.queued = journal_.QueuePut(record, id, answer);
  return {};
}

Status DiskStore::Published(Bytes size, const std::optional<Status>& answer) {
  if (Status status = journal_.Await(&answer); !status) {
    if (status.error().code == Code::kUnavailable) ++counters_.io_errors;
    return status;
  }
  ++counters_.writes;
  counters_.value_written += size;
  return {};
}

Status DiskStore::Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
                        const std::atomic<bool>* cancelled) {
  const Result<Entry> entry = EntryToWrite(id, facts, *seal, source);
  if (!entry) return entry.error();
  {
    const Guard guard(mutex_);
    if (health_ != Health::kGood) return Refusal();
  }
  // The journal must record the delete of the extent's previous blob before its
  // bytes are overwritten.
  if (Status status = journal_.Flush(); !status) return status;
  if (Status status = Back(entry->extent); !status) return status;
  PutRecord record{entry->extent, {}, facts};
  if (Status status = WriteBytes(*entry, facts, seal, source, cancelled, &record.header); !status) {
    return status;
  }
  std::optional<Status> answer;
  if (Status status = QueueRecord(id, record, &answer); !status) return status;
  return Published(facts.size, answer);
}

Status DiskStore::Verify(const Entry& entry, const BlobFacts& expected, std::byte* to, Seal* seal,
                         const std::atomic<bool>* cancelled) {
  AlignedBuffer head(entry.extent.bytes - PagesUp(entry.size));
  ReadTransfer transfer(opening_.data.get(), entry.extent, head.span(), entry.size, to, &buffers_,
                        cancelled);
  files_->Run(transfer);
  counters_.read += transfer.moved();
  if (transfer.error() == BlobTransfer::kCutShort) {
    return Corrupt(entry.extent.at, "the file ends before the blob");
  }
  if (transfer.error() != 0) return FileError(transfer.error(), "read");
  if (transfer.is_cancelled()) return Error{Code::kCancelled, "disk: the read was cancelled"};
  return Matches(entry, expected, head.span(), transfer.pieces(), transfer.is_padding_zero(), seal);
}

Error DiskStore::Corrupt(Bytes at, std::string_view what) const {
  return {Code::kCorrupt, fmt::format("disk: {} at {}: {}", data_path_, at, what)};
}

Status DiskStore::Matches(const Entry& entry, const BlobFacts& expected,
                          std::span<const std::byte> head, const std::vector<Hash128>& pieces,
                          bool is_padding_zero, Seal* seal) const {
  const auto corrupt = [&](std::string_view what) { return Corrupt(entry.extent.at, what); };
  auto header = DecodeHeader(head, entry.header);
  if (!header) return corrupt(header.error().message);
  if (header->store != opening_.store || header->at != entry.extent.at) {
    return corrupt("the header is of another store or place");
  }
  if (!IsSame(header->facts, expected)) return corrupt("it is another blob");
  if (header->seal.pieces() != pieces) return corrupt("the value is damaged");
  if (!is_padding_zero) return corrupt("what follows the value is damaged");
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
    // `to` has room for the expected size only.
    status = entry->size == expected.size
                 ? Verify(*entry, expected, to, seal, cancelled)
                 : Error{Code::kCorrupt, "disk: the blob has another size"};
  }
  CountRead(status);
  return status;
}

void DiskStore::CountRead(const Status& status) {
  if (status) {
    ++counters_.reads;
  } else if (status.error().code == Code::kCorrupt) {
    ++counters_.corrupt;
  }
}

}  // namespace spillway
