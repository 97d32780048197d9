// SPDX-License-Identifier: Apache-2.0
// A BlobStore keeps blobs in files, which outlive the process: the disk tier.
// Like a Tier it never chooses which entries it holds.
//
// Allocate, Free, Quarantine and the counters are called on the engine's
// strand; they touch no file. Write and Read are called from transfer threads
// and may take long. They may run for several blobs at once, but never twice
// for the same blob. The engine frees a blob only when no Write or Read of it
// is in flight.
//
// A store that can no longer be trusted (a failed fsync, a missing directory)
// reports that by health() and goes on serving whatever is still possible.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/fragment.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/blob.h"

namespace spillway {

using BlobId = std::uint32_t;
inline constexpr BlobId kNoBlob = 0xffffffffU;

// Counters only rise.
struct BlobStoreStats {
  Bytes written = 0;        // To files: headers, padding and journal included.
  Bytes value_written = 0;  // Of that, bytes of values. written / value_written: amplification.
  Bytes read = 0;
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
  std::uint64_t corrupt = 0;  // Blobs that failed verification.
  std::uint64_t io_errors = 0;
  std::uint64_t syncs = 0;
  std::uint64_t sync_failures = 0;
  std::uint64_t recovered = 0;  // Blobs found at open.
  // Journal records, or ranges of them, that were damaged or named a blob that
  // does not exist.
  std::uint64_t recovery_rejected = 0;
  std::uint64_t recovery_mended = 0;  // Damaged records that were repaired.
  // Blobs dropped because a lost range of the journal may have deleted them.
  std::uint64_t recovery_given_up = 0;
  // Deleted blobs that a restart after a kill could still find, at this moment.
  std::uint64_t deletes_pending = 0;
  std::uint64_t delete_flush_failures = 0;  // Times a wait for that number to become 0 failed.
  // Times the store was emptied because a restart could have found old values.
  std::uint64_t voided = 0;
  Bytes quarantined = 0;  // At this moment.
  bool direct = false;    // Whether files are really open with O_DIRECT, not only asked to be.
  // Whether batches go through io_uring; false: it was refused, and writes run
  // one by one.
  bool together = false;
};

// One blob of a batch, and the result of writing it.
struct BlobWrite {
  BlobId id = kNoBlob;
  const BlobFacts* facts = nullptr;
  Seal* seal = nullptr;  // As in Write, like `cancelled`.
  Source source = {};
  const std::atomic<bool>* cancelled = nullptr;
  Status status = {};
};

class BlobStore {
 public:
  // Values up to this size are worth batching: writing one alone costs the disk
  // about as much as writing a MiB of them.
  static constexpr Bytes kBatchedMax = 64 * kKiB;

  enum class Health : std::uint8_t { kGood, kLoading, kReadOnly, kDown };
  // A blob of an earlier process.
  struct Found {
    BlobId id = kNoBlob;
    BlobFacts facts;
  };

  virtual ~BlobStore() = default;

  virtual std::string_view name() const = 0;  // "disk"
  // Upper bound on the bytes of values. Headers and padding also count against
  // the quota behind it, so Allocate may return NoMemory a little earlier.
  virtual Bytes capacity() const = 0;
  // Bytes of values of blobs that are allocated and not freed.
  virtual Bytes allocated() const = 0;
  // Bytes that the files take from the file system.
  virtual Bytes held() const = 0;
  virtual Health health() const = 0;
  // Why health() is not kGood, as text for people; empty: it is.
  virtual std::string why() const = 0;
  virtual BlobStoreStats stats() const = 0;
  // Whether the file system was full a moment ago. The store then asks it for
  // nothing that grows a file, so Allocate may succeed again soon.
  virtual bool is_out_of_space() const { return false; }

  // Reserves room for a blob. NoMemory: the quota or the file system is full.
  // Unavailable: the store is loading, read-only or down; the message says which.
  virtual Result<BlobId> Allocate(const BlobFacts& facts) = 0;
  // Deletes the blob. After the next sync the deletion also survives a restart.
  virtual void Free(BlobId id) = 0;
  // Deletes a blob that was found damaged. Its disk space is not used again
  // while the store is open, up to a bounded number of bytes; beyond that the
  // oldest are reused.
  virtual void Quarantine(BlobId id) = 0;
  // The blob's key was set anew or erased: the blob must not be found any more,
  // even though a Read or Write of it may still be in flight. Call Free when
  // that has ended.
  virtual void Tombstone(BlobId) {}
  // Sets or removes the blob's deadline. The blob may still be being written.
  // The value is not written again. Strand only; after FlushDeletes the change
  // survives a kill.
  virtual void ChangeDeadline(BlobId, std::optional<std::int64_t> /*expires_unix_ns*/) {}
  // Whether loading has failed, so that the directory may hold blobs which this
  // process does not know and a later process may find.
  virtual bool has_unseen() const { return false; }
  // A key that may be among those blobs was set anew or erased: none of them
  // may be found any more. Strand only; takes effect with FlushDeletes.
  virtual void TombstoneUnseen() {}

  // Writes the blob and publishes it: from then on it survives a kill, and from
  // the next sync a power cut. `cancelled` is checked between pieces; if set, the
  // result is Cancelled. After an error nothing is published and the id is as
  // before: free it or write again. NoMemory: the file system is full. If `seal`
  // is empty, the checksums are computed while other pieces are being written.
  virtual Status Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
                       const std::atomic<bool>* cancelled) = 0;
  Status Write(BlobId id, const BlobFacts& facts, Seal seal, const Source& source,
               const std::atomic<bool>* cancelled) {
    return Write(id, facts, &seal, source, cancelled);
  }
  // Writes several blobs, each as Write does and with a status of its own: one
  // failure does not affect the others. Blobs that are adjacent on disk are
  // written together, and one write to the journal publishes all. If this
  // throws (bad_alloc) it is unknown which blobs were written: free them all.
  virtual void WriteBatch(std::span<BlobWrite> writes) {
    for (BlobWrite& one : writes) {
      one.status = Write(one.id, *one.facts, one.seal, one.source, one.cancelled);
    }
  }
  // Reads back and verifies the blobs of a batch whose status is good. Their
  // status becomes the result that Read would give.
  virtual void VerifyBatch(std::span<BlobWrite> writes) {
    for (BlobWrite& one : writes) {
      if (one.status) one.status = Read(one.id, *one.facts, nullptr, nullptr, one.cancelled);
    }
  }
  // Reads the whole blob into `to` (at least facts.size bytes) and verifies key,
  // generation, size and every piece. kCorrupt: it is not that blob. If `seal`
  // is given it receives the checksums. With a null `to` it only verifies.
  virtual Status Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
                      const std::atomic<bool>* cancelled) = 0;

  // Starts to look for the blobs of an earlier process, in the background.
  // Calls `found` from a thread of the store, in batches, with `done` on the
  // last one. Call it once, before anything else. Until loading is done
  // health() is kLoading.
  virtual void StartLoading(std::function<void(std::vector<Found>, bool done)> found) = 0;
  // Whether a kill before the next FlushDeletes could bring back a freed or tombstoned
  // blob, or an older deadline.
  virtual bool has_pending_deletes() const { return false; }
  // Makes pending deletes and deadlines durable, waiting at most this long.
  // Returns false if a kill could still undo them because the disk is slow or
  // does not write. Any thread but the strand.
  virtual bool FlushDeletes(Duration) { return true; }
  // The disk's error message if pending deletes could not be written; empty: they could.
  virtual std::string pending_why() const { return {}; }
  // Brings everything to stable storage; takes as long as the disk takes.
  virtual Status Sync() = 0;
  // The end: syncs, and by any means available makes sure that no deleted blob
  // is found again. An error says which may be, or that the sync failed. No
  // call may be in flight; only destruction may follow.
  virtual Status Close() { return Sync(); }
};

}  // namespace spillway
