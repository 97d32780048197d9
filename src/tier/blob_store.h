// A BlobStore keeps blobs in files, where they outlive the process: the disk
// tier. Like a Tier it never chooses who stays.
//
// Allocate, Free, Quarantine and the accounts are called on the engine's
// strand; they touch no file. Write and Read come from movers' threads, may
// take long, and may be under way for several blobs at once, never twice for
// one. The engine frees a blob only when nothing is under way on it.
//
// A store that can't be trusted any more (a failed fsync, a directory that has
// gone) says so by its health; what it still can do it does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
  std::uint64_t corrupt = 0;  // Blobs that were not what they should have been.
  std::uint64_t io_errors = 0;
  std::uint64_t syncs = 0;
  std::uint64_t sync_failures = 0;
  std::uint64_t recovered = 0;  // Found at open.
  std::uint64_t recovery_rejected =
      0;  // Records that were damaged or told of nothing that is there.
  // Blobs that have gone and could be found again after a kill: now.
  std::uint64_t unsettled = 0;
  std::uint64_t settle_failures = 0;  // Times somebody waited in vain for there to be none.
  std::uint64_t voided = 0;           // All of it was given up, lest some of it be too old.
  Bytes quarantined = 0;              // Now.
  bool direct = false;                // O_DIRECT, or only asked for.
  bool together = false;              // By io_uring; or that was refused: one after another.
};

class BlobStore {
 public:
  enum class Health : std::uint8_t { kGood, kLoading, kReadOnly, kDown };
  struct Found {
    BlobId id = kNoBlob;
    BlobFacts facts;
  };

  virtual ~BlobStore() = default;

  virtual std::string_view name() const = 0;  // "disk"
  // Most bytes of values. Headers and padding count too against the quota
  // behind it, so Allocate may answer NoMemory a little earlier.
  virtual Bytes capacity() const = 0;
  // Bytes of values of blobs allocated and not freed.
  virtual Bytes allocated() const = 0;
  // What the files take of the file system for them.
  virtual Bytes held() const = 0;
  virtual Health health() const = 0;
  // Why it is not kGood, for people; empty: it is.
  virtual std::string why() const = 0;
  virtual BlobStoreStats stats() const = 0;

  // Room for a blob. NoMemory: quota or file system are full. Unavailable: it
  // is loading, read-only or down; the message says which.
  virtual Result<BlobId> Allocate(const BlobFacts& facts) = 0;
  // The blob is gone, also after a restart that comes later than the next sync.
  virtual void Free(BlobId id) = 0;
  // The same for one that was found damaged: its place is not used again while
  // the store is open (a bounded number of bytes; the oldest come back).
  virtual void Quarantine(BlobId id) = 0;
  // Its key was set anew or erased: it is not found any more, though somebody
  // still reads it or is writing it. Free it all the same when they are done.
  virtual void Revoke(BlobId) {}
  // Loading has failed: what is there is not known, and may be found another
  // time.
  virtual bool has_unseen() const { return false; }
  // A key that may be among it was set anew or erased: none of it may be found
  // any more. On the strand; Settle does it.
  virtual void RevokeUnseen() {}

  // Writes the blob and publishes it: from then on it survives a kill, from
  // the next sync on a power cut. `cancelled` is looked at between pieces; then
  // the answer is Cancelled. After any error nothing is published, and the id
  // is as before: free it or write again. NoMemory: the file system is full.
  // `seal` has the checksums of the source, or none: then they are made on the
  // way, while other pieces are being written.
  virtual Status Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
                       const std::atomic<bool>* cancelled) = 0;
  Status Write(BlobId id, const BlobFacts& facts, Seal seal, const Source& source,
               const std::atomic<bool>* cancelled) {
    return Write(id, facts, &seal, source, cancelled);
  }
  // Reads all of it into `to` (at least facts.size bytes) and verifies key,
  // generation, size and every piece. kCorrupt: it is not that blob. `seal`,
  // if given, gets its checksums. `to` null: only verifies.
  virtual Status Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
                      const std::atomic<bool>* cancelled) = 0;

  // Begins to find what is there from before, away from the caller; `found` is
  // called from a thread of the store's, in batches, the last time with
  // `done`. Call once, before anything else; until it is done health() is
  // kLoading.
  virtual void StartLoading(std::function<void(std::vector<Found>, bool done)> found) = 0;
  // Whether what was freed or revoked could be found again after a kill, until
  // Settle has returned.
  virtual bool needs_settling() const { return false; }
  // Waits for that, no longer than so; false: it could still be found, since the
  // disk is slow or does not write. From any thread but the strand.
  virtual bool Settle(Duration) { return true; }
  // What the disk said when it could not be told what has gone; empty: it could.
  virtual std::string unsettled_why() const { return {}; }
  // All of it on stable storage; bounded by the disk.
  virtual Status Sync() = 0;
  // The end: syncs, and makes sure by all means there are that nothing is found
  // again that has gone. An error says what may be, or was not synced. Nothing
  // may be under way; only destruction comes after it.
  virtual Status Close() { return Sync(); }
};

}  // namespace spillway
