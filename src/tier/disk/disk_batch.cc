// SPDX-License-Identifier: Apache-2.0
// Batches: small blobs are written, read back and published together. One by
// one, each would cost the disk a write of its header, a write of its value,
// two reads and a write to the journal.
//
// A batch is processed group by group. A group fits into one buffer, ordered by
// place on disk; blobs that are adjacent on disk are one write. If that write
// fails, its blobs are written again one by one, so one bad page costs one blob.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/mutant.h"
#include "tier/disk/blob_header.h"
#include "tier/disk/blob_transfer.h"
#include "tier/disk/disk_store.h"

namespace spillway {
namespace {

// The size of one of the store's buffers: 128 blobs of a header page and a value page.
constexpr Bytes kGroupBytes = Seal::kPieceBytes;
// Larger extents are written alone, with several pieces in flight.
constexpr Bytes kSmallBytes = kGroupBytes / 4;

void CopyTo(std::byte* to, const Source& source) {
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.bytes > 0) std::memcpy(to, fragment.data, fragment.bytes);
    to += fragment.bytes;
  }
}

bool IsCancelled(const BlobWrite& write) {
  return write.cancelled != nullptr && write.cancelled->load(std::memory_order_relaxed);
}

}  // namespace

// One blob of a batch. Its result goes to the caller's BlobWrite.
struct DiskStore::Batched {
  BlobWrite* write = nullptr;
  Entry entry = {};
  Bytes offset = 0;        // Of its extent, in the group's buffer.
  int error = 0;           // Of the write or read that contained it: Transfer::error.
  bool was_alone = false;  // It was the only blob in that write or read.
  bool is_queued = false;  // Its journal record is queued and must be awaited.
  Hash128 header = {};
  std::optional<Status> answer = {};
};

// Copies a group between the file and its buffer; adjacent blobs share one
// write or read.
class DiskStore::GroupFeed final : public IoFeed {
 public:
  GroupFeed(int file, std::span<Batched> group, std::byte* buffer, bool write)
      : file_(file), group_(group), buffer_(buffer), write_(write) {}

  bool Next(Io* io) override {
    if (next_ == group_.size()) return false;
    const std::size_t first = next_;
    Bytes end = group_[first].entry.extent.end();
    for (++next_; next_ < group_.size() && group_[next_].entry.extent.at == end; ++next_) {
      end = group_[next_].entry.extent.end();
    }
    const Bytes at = group_[first].entry.extent.at;
    *io = {file_, at, buffer_ + group_[first].offset, end - at, write_, first};
    return true;
  }

  void Done(const Io& io, std::int64_t result) override {
    if (result >= 0) moved_ += static_cast<Bytes>(result);
    if (result >= 0 && static_cast<Bytes>(result) == io.bytes) return;
    const Bytes end = io.at + io.bytes;
    for (std::size_t i = io.tag; i < group_.size() && group_[i].entry.extent.at < end; ++i) {
      group_[i].error = result < 0 ? static_cast<int>(-result) : BlobTransfer::kCutShort;
      group_[i].was_alone = group_[i].entry.extent.bytes == io.bytes;
    }
  }

  Bytes moved() const { return moved_; }

 private:
  const int file_;
  const std::span<Batched> group_;
  std::byte* const buffer_;
  const bool write_;
  std::size_t next_ = 0;
  Bytes moved_ = 0;
};

void DiskStore::ForEachGroup(std::vector<Batched>* batch, void (DiskStore::*work)(Group)) {
  std::ranges::sort(*batch, {}, [](const Batched& one) { return one.entry.extent.at; });
  for (std::size_t first = 0; first < batch->size();) {
    std::size_t last = first;
    Bytes bytes = 0;
    while (last < batch->size() && bytes + (*batch)[last].entry.extent.bytes <= kGroupBytes) {
      bytes += (*batch)[last++].entry.extent.bytes;
    }
    if (MutantOn(Mutant::kPartialGroupLost) && last == batch->size()) return;
    (this->*work)(Group(*batch).subspan(first, last - first));
    first = last;
  }
}

void DiskStore::WriteBatch(std::span<BlobWrite> writes) {
  std::vector<Batched> batch;
  batch.reserve(writes.size());
  for (BlobWrite& one : writes) {
    const Result<Entry> entry = EntryToWrite(one.id, *one.facts, *one.seal, one.source);
    if (!entry) {
      one.status = entry.error();
    } else if (entry->extent.bytes > kSmallBytes) {
      one.status = Write(one.id, *one.facts, one.seal, one.source, one.cancelled);
    } else {
      batch.push_back({.write = &one, .entry = *entry});
    }
  }
  ForEachGroup(&batch, &DiskStore::WriteGroup);
}

void DiskStore::WriteGroup(Group group) {
  Status status;
  {
    const Guard guard(mutex_);
    if (health_ != Health::kGood) status = Refusal();
  }
  // The journal must record the delete of the extent's previous blob before its
  // bytes are overwritten.
  if (status) status = journal_.Flush();
  if (!status) {
    for (const Batched& one : group) one.write->status = status;
    return;
  }
  const auto has_failed = [this](const Batched& one) {
    one.write->status = IsCancelled(*one.write)
                            ? Status(Error{Code::kCancelled, "disk: the write was cancelled"})
                            : Back(one.entry.extent);
    return !one.write->status;
  };
  const auto end = std::remove_if(group.begin(), group.end(), has_failed);
  group = group.first(static_cast<std::size_t>(end - group.begin()));
  WriteGroupBytes(group);
  Publish(group);
  for (const Batched& one : group) {
    if (one.error == 0) continue;
    const BlobWrite& write = *one.write;
    one.write->status =
        one.was_alone
            ? FileError(one.error == BlobTransfer::kCutShort ? EIO : one.error, "write to")
            : Write(write.id, *write.facts, write.seal, write.source, write.cancelled);
  }
}

void DiskStore::WriteGroupBytes(Group group) {
  AlignedBuffer buffer = buffers_.Take();
  Bytes offset = 0;
  for (Batched& one : group) {
    const BlobWrite& write = *one.write;
    const std::span<std::byte> to(buffer.data() + offset, one.entry.extent.bytes);
    const Bytes head = HeaderBytes(*write.facts);
    if (write.seal->pieces().empty()) *write.seal = Seal::Of(write.source);
    one.offset = offset;
    one.header = EncodeHeader({opening_.store, one.entry.extent.at, *write.facts, *write.seal},
                              to.first(head));
    CopyTo(to.data() + head, write.source);
    const auto padding = to.subspan(head + write.facts->size);
    std::ranges::fill(padding, std::byte{0});
    offset += to.size();
  }
  GroupFeed feed(opening_.data.get(), group, buffer.data(), true);
  files_->Run(feed);
  counters_.written += feed.moved();
  buffers_.Give(std::move(buffer));
}

// All records are queued before the first is awaited, so that one write to the
// journal serves all. Every queued record is awaited, even if others fail.
void DiskStore::Publish(Group group) {
  const Error no_memory{Code::kNoMemory, "no memory"};
  for (Batched& one : group) {
    if (one.error != 0) continue;
    const BlobWrite& write = *one.write;
    try {
      one.write->status =
          QueueRecord(write.id, {one.entry.extent, one.header, *write.facts}, &one.answer);
      one.is_queued = one.write->status.has_value();
    } catch (const std::bad_alloc&) {
      one.write->status = no_memory;
    }
  }
  for (const Batched& one : group) {
    if (!one.is_queued) continue;
    try {
      one.write->status = Published(one.write->facts->size, one.answer);
    } catch (const std::bad_alloc&) {
      one.write->status = no_memory;
    }
  }
}

void DiskStore::VerifyBatch(std::span<BlobWrite> writes) {
  std::vector<Batched> batch;
  batch.reserve(writes.size());
  for (BlobWrite& one : writes) {
    if (!one.status) continue;
    const Result<Entry> entry = EntryOf(one.id);
    if (entry && entry->state == State::kPublished && entry->size == one.facts->size &&
        entry->extent.bytes <= kSmallBytes) {
      batch.push_back({.write = &one, .entry = *entry});
    } else if (!MutantOn(Mutant::kPartialGroupLost)) {
      one.status = Read(one.id, *one.facts, nullptr, nullptr, one.cancelled);
    }
  }
  ForEachGroup(&batch, &DiskStore::VerifyGroup);
}

void DiskStore::VerifyGroup(Group group) {
  AlignedBuffer buffer = buffers_.Take();
  Bytes offset = 0;
  for (Batched& one : group) {
    one.offset = offset;
    offset += one.entry.extent.bytes;
  }
  GroupFeed feed(opening_.data.get(), group, buffer.data(), false);
  files_->Run(feed);
  counters_.read += feed.moved();
  for (const Batched& one : group) {
    BlobWrite& write = *one.write;
    if (IsCancelled(write)) {
      write.status = Error{Code::kCancelled, "disk: the read was cancelled"};
    } else if (one.error != 0) {
      write.status = Read(write.id, *write.facts, nullptr, nullptr, write.cancelled);
    } else {
      write.status = VerifyInBuffer(one, buffer.data() + one.offset);
      CountRead(write.status);
    }
  }
  buffers_.Give(std::move(buffer));
}

Status DiskStore::VerifyInBuffer(const Batched& one, const std::byte* data) const {
  const Extent& extent = one.entry.extent;
  const Bytes size = one.entry.size;
  const Bytes head = extent.bytes - PagesUp(size);
  std::vector<Hash128> pieces;
  if (size > 0) pieces.push_back(Hash128Of(data + head, size));
  const bool zeros = std::memcmp(data + head + size, nothing_.data(), PagesUp(size) - size) == 0;
  return Matches(one.entry, *one.write->facts, {data, head}, pieces, zeros, nullptr);
}

}  // namespace spillway
