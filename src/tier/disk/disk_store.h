// SPDX-License-Identifier: Apache-2.0
// The disk tier: blobs in one directory, which one process uses at a time.
// docs/design/disk-format.md describes the files and the guarantees.
//
//   lock         held while the store is open; names the process
//   blobs        all blobs, each one extent of whole pages; O_DIRECT
//   journal-<n>  the blobs and their extents; read when the store opens
//   mirror-<n>   a copy of the journal, for when that is damaged
//
// 1. A blob is published by its record in the journal, which is written once
//    all its bytes are in the file. Before the bytes of a deleted blob are
//    overwritten, the journal records the delete.
// 2. An extent belongs to one blob, to the quarantine or to the allocator.
// 3. Health only ever gets worse; a store that is opened again starts afresh.
// 4. Locks are taken in the order sync_mutex_, grow_mutex_, mutex_. No file
//    call is made under mutex_, which is the only one that the strand takes.
// 5. When FlushDeletes has returned true, each freed or tombstoned blob is deleted in
//    the journal or can no longer be read: a kill does not bring it back. A
//    blob whose deadline changed has the new deadline or is deleted.
// 6. A deleted blob keeps its entry until the journal has the delete. Pending
//    changes (a delete, or the last deadline) are kept in the entries, which
//    form a linked list, so that they need no memory.
// 7. The facts of a blob are those in the journal, not those in its header,
//    since deadlines change.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "spillway/clock.h"
#include "tier/blob_store.h"
#include "tier/disk/aligned_buffer.h"
#include "tier/disk/backing.h"
#include "tier/disk/files.h"
#include "tier/disk/journal.h"
#include "tier/disk/page_allocator.h"

namespace spillway {

struct DiskOptions {
  std::string directory;  // Created (0700) if missing; its parent must exist.
  Bytes quota = 0;        // Of the data file: values, headers, padding.
  // Space of the file system that stays free for others. Empty: 2 % of it and
  // at least 1 GiB; on a file system under 16 GiB, a sixteenth.
  std::optional<Bytes> min_free = {};
  std::optional<Bytes> quarantine_max = {};  // Empty: a sixteenth of the quota.
  // The journal is rewritten when it is longer than twice its live records plus this.
  Bytes journal_slack = 16 * kMiB;
  std::shared_ptr<Files> files = {};  // Null: the real file system.
  std::shared_ptr<Clock> clock = {};  // Null: the real clock.
  // False: no thread is started; loading, syncing and the other background work
  // run in RunBackground, on the caller's thread.
  bool background = true;
};

class DiskStore final : public BlobStore, private Journal::Owner {
 public:
  // Refuses a directory in which it cannot keep its guarantees, and then
  // changes nothing: one that belongs to another user, is open to others, has
  // another format, or is open in another process.
  static Result<std::unique_ptr<DiskStore>> Open(const DiskOptions& options);
  // Closes the store if Close was not called. No call may be in flight.
  ~DiskStore() override;

  std::string_view name() const override { return "disk"; }
  Bytes capacity() const override { return quota_; }
  Bytes allocated() const override;
  Bytes held() const override;
  Health health() const override;
  std::string why() const override;
  BlobStoreStats stats() const override;
  bool is_out_of_space() const override;

  Result<BlobId> Allocate(const BlobFacts& facts) override;
  void Free(BlobId id) override;
  void Quarantine(BlobId id) override;
  void Tombstone(BlobId id) override;
  void ChangeDeadline(BlobId id, std::optional<std::int64_t> expires_unix_ns) override;
  bool has_unseen() const override;
  void TombstoneUnseen() override;
  using BlobStore::Write;
  Status Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
               const std::atomic<bool>* cancelled) override;
  Status Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
              const std::atomic<bool>* cancelled) override;
  void WriteBatch(std::span<BlobWrite> writes) override;
  void VerifyBatch(std::span<BlobWrite> writes) override;
  void StartLoading(std::function<void(std::vector<Found>, bool done)> found) override;
  bool has_pending_deletes() const override;
  bool FlushDeletes(Duration within) override;
  std::string pending_why() const override;
  Status Sync() override;
  Status Close() override;

  // Runs the background work once: loading if it was asked for; then free
  // space, syncing, returning idle space, shortening the journal. For stores
  // without a background thread.
  void RunBackground();

 private:
  enum class State : std::uint8_t {
    kFree,
    kAllocated,
    kPublished,
    kLost,  // A sync failed: its bytes cannot be trusted.
    kGone   // Deleted, but the journal does not have the delete yet. Its extent may be reused.
  };
  struct Entry {
    State state = State::kFree;
    Extent extent;
    Bytes size = 0;
    Hash128 header;
    Journal::Place place;        // Of its journal record; bytes 0: it has none.
    std::uint64_t queued = 0;    // Sequence of its record, once that is queued for the journal.
    std::uint64_t round = 0;     // The round of syncs (round_) in which it was written.
    std::uint64_t owed = 0;      // Sequence of the record whose delete is pending; 0: none.
    BlobId owed_next = kNoBlob;  // The next entry with a pending change.
    bool is_listed = false;      // It has a pending change (a delete or a deadline).
    bool is_spoiled = false;     // Its delete is pending, but its bytes can no longer be read.
    bool is_left_out = false;  // Its delete is pending; a journal being rewritten omits its record.
    bool is_tombstoned = false;  // Its delete is recorded or pending.
    // How often its deadline was changed, and the latest value. The last value
    // that the journal has is at deadline_place, or in the put record.
    std::uint32_t changes = 0;
    std::optional<std::int64_t> expires_unix_ns = {};
    Journal::Place deadline_place;
    // The change being written: the delete, or all deadlines up to this one.
    bool is_end_telling = false;
    std::uint32_t changes_telling = 0;

    std::uint64_t sequence() const { return place.bytes > 0 ? place.sequence : queued; }
  };
  // The results of Open.
  struct Opening {
    Hash128 store;
    OpenFile lock;
    OpenFile data;
    bool direct = false;
    FileFacts data_facts;
    OpenFile journal;  // Not open: the store is new.
    std::uint64_t journal_number = 0;
    std::optional<JournalHeader> journal_header;  // Empty: damaged.
    bool header_mended = false;
    bool has_mirror = false;
    OpenFile mirror;
    std::vector<std::string> leftovers;
  };
  struct Counters {
    std::atomic<Bytes> written{0};
    std::atomic<Bytes> value_written{0};
    std::atomic<Bytes> read{0};
    std::atomic<std::uint64_t> writes{0};
    std::atomic<std::uint64_t> reads{0};
    std::atomic<std::uint64_t> corrupt{0};
    std::atomic<std::uint64_t> io_errors{0};
    std::atomic<std::uint64_t> syncs{0};
    std::atomic<std::uint64_t> sync_failures{0};
    std::atomic<std::uint64_t> recovered{0};
    std::atomic<std::uint64_t> recovery_rejected{0};
    std::atomic<std::uint64_t> recovery_mended{0};
    std::atomic<std::uint64_t> recovery_given_up{0};
    std::atomic<std::uint64_t> delete_flush_failures{0};
    std::atomic<std::uint64_t> voided{0};
  };
  struct Recovery;  // disk_load.cc
  using Guard = MutexLock;
  using FoundCall = std::function<void(std::vector<Found>, bool done)>;

  DiskStore(const DiskOptions& options, std::shared_ptr<Files> files, Opening opening);

  // disk_open.cc
  // Lists the directory, checks owners and permissions, and finds the newest
  // journal, its mirror and files of older journals. Changes nothing.
  static Status Examine(Files& files, const std::string& directory, Opening* opening);
  // Locks the directory and writes this process's number into the lock file.
  // The error names the process that holds the lock.
  static Status TakeLock(const std::shared_ptr<Files>& files, const std::string& directory,
                         Opening* opening);
  // Removes files of older journals, starts a journal if the store is new, and
  // starts the threads.
  Status Begin();

  // disk_store.cc
  // The error for calls while health_ is not kGood.
  Error Refusal() const SPILLWAY_REQUIRES(mutex_);
  // Lowers health to `health`, with the reason; never raises it.
  void Worsen(Health health, const std::string& why);
  // Free and Quarantine: the blob's extent becomes reusable or isolated, and
  // its delete pending if it has a record.
  void Leave(BlobId id, bool quarantine);
  // Adds the extent to the quarantine. Returns false if there is no memory.
  bool Isolate(const Extent& extent) SPILLWAY_REQUIRES(mutex_);
  // The delete of this record's blob becomes pending.
  void Forget(BlobId id, std::uint64_t sequence) SPILLWAY_REQUIRES(mutex_);
  // Puts the entry into the list of pending changes.
  void List(BlobId id) SPILLWAY_REQUIRES(mutex_);
  // Its pending change is done.
  void Acquit(BlobId id) SPILLWAY_REQUIRES(mutex_);
  // How many bytes the data file may still grow: none below min_free_, nor
  // shortly after the disk was full.
  Bytes GrowableBytes() const SPILLWAY_REQUIRES(mutex_);

  // disk_transfer.cc
  Result<Entry> EntryOf(BlobId id) const;
  // Returns the entry of a blob that may be written with these arguments.
  Result<Entry> EntryToWrite(BlobId id, const BlobFacts& facts, const Seal& seal,
                             const Source& source) const;
  // Allocates disk space for the chunks of the extent that lack it.
  Status Back(const Extent& extent);
  // Writes header and value into the data file. Fills in `seal` and the
  // checksum of the header.
  Status WriteBytes(const Entry& entry, const BlobFacts& facts, Seal* seal, const Source& source,
                    const std::atomic<bool>* cancelled, Hash128* header);
  // Called when all bytes of a blob are in the file: queues its record for the
  // journal. `answer` must be awaited by Published. An error: it was not queued.
  Status QueueRecord(BlobId id, PutRecord record, std::optional<Status>* answer);
  // Awaits the record's answer and counts the write.
  Status Published(Bytes size, const std::optional<Status>& answer);
  // Reads a blob and compares it with what is expected.
  Status Verify(const Entry& entry, const BlobFacts& expected, std::byte* to, Seal* seal,
                const std::atomic<bool>* cancelled);
  // Whether the bytes read are that blob: checks the header, the checksums of
  // the value as read, and whether only zeros follow it.
  Status Matches(const Entry& entry, const BlobFacts& expected, std::span<const std::byte> head,
                 const std::vector<Hash128>& pieces, bool is_padding_zero, Seal* seal) const;
  Error Corrupt(Bytes at, std::string_view what) const;
  void CountRead(const Status& status);
  // The error for a failed call on the data file. If the disk is full the file
  // does not grow for a moment.
  Error FileError(int error, std::string_view doing);

  // disk_batch.cc
  struct Batched;
  class GroupFeed;
  using Group = std::span<Batched>;
  // Calls `work` for groups that fit into one buffer, ordered by place.
  void ForEachGroup(std::vector<Batched>* batch, void (DiskStore::*work)(Group));
  // Writes a group, publishes its blobs, and writes those again one by one
  // whose shared write failed.
  void WriteGroup(Group group);
  void WriteGroupBytes(Group group);
  void Publish(Group group);
  // Reads a group back and verifies it; blobs whose shared read failed are read
  // again one by one.
  void VerifyGroup(Group group);
  Status VerifyInBuffer(const Batched& one, const std::byte* data) const;

  // disk_load.cc
  // Reads the journal, takes extents and entries for the live blobs, and
  // reports them to `found` in batches.
  void Load(const FoundCall& found);
  void LoadOrFail(const FoundCall& found);
  // Scans the journal and keeps the latest live blob of each key.
  void Recover(Recovery* recovery);
  void Settle(Recovery* recovery);
  void SayWhatWasDamaged(const Recovery& recovery) const;
  // Appends to the journal from now on; rewrites it first if it or its mirror was damaged.
  void AdoptJournal(const Recovery& recovery);
  void Hand(Recovery* recovery, const FoundCall& found);

  // disk_background.cc
  void Loop();
  // Asks the thread that flushes deletes to flush and waits for it, at most `within`.
  bool AwaitDeleteFlusher(Duration within);
  void FlushDeletesOnDemand();
  void LookAround();
  Status SyncData(std::uint64_t round);
  Status SyncJournal();
  // After a failed sync of the data: blobs written since the last good one are lost.
  void LoseUnsynced();
  bool IsTimeToGiveBack() SPILLWAY_REQUIRES(mutex_, grow_mutex_);
  void GiveBackIdle();
  // Rewrites a journal that is too long, broken, or without a mirror.
  void ShortenJournal();

  // disk_flush_deletes.cc
  void StopThreads();
  // Runs the steps described in disk_flush_deletes.cc until no delete is pending.
  // `last`: the store is closing, so the drastic steps are allowed, too.
  // Returns whether no delete is pending.
  bool FlushDeletesNow(bool last);
  // Whether a kill can bring back no deleted blob.
  bool AreDeletesFlushed() const;
  Status FlushJournal();
  // Step 2: a new journal without the deleted blobs.
  void RenewJournal();
  // Step 3: overwrites the first page of deleted blobs.
  void Spoil(bool last);
  bool SpoilNext(bool last);
  // Step 4: empties the store.
  void Void();
  Status SyncAtEnd();
  void CloseOrSay();

  // Journal::Owner.
  std::size_t Owed() override;
  std::size_t Changes(std::uint64_t before, std::span<Journal::Change> changes) override;
  void Told(std::span<const Journal::Place> places) override;
  void Recorded(std::uint32_t cookie, const Journal::Place& place) override;
  std::vector<Journal::LiveRecord> Live() override;
  void Moved(const std::vector<Journal::Place>& places) override;

  // Constant after construction.
  const std::shared_ptr<Files> files_;
  const std::shared_ptr<Clock> clock_;
  const std::string directory_;
  const std::string data_path_;
  const Bytes quota_;
  const Bytes quarantine_max_;
  const Bytes journal_slack_;
  const bool background_;
  Opening opening_;  // Its journal is handed over once loading is done.
  Bytes min_free_ = 0;

  mutable Counters counters_;
  BufferPool buffers_;
  Journal journal_;
  const AlignedBuffer nothing_;  // A page of zeros: compared with padding, written over headers.

  Mutex sync_mutex_;  // One sync or checkpoint at a time.
  // The journal is not rewritten before it is this long, and a missing mirror not
  // before this time.
  Bytes journal_retry_ SPILLWAY_GUARDED_BY(sync_mutex_) = 0;
  TimePoint mirror_retry_ SPILLWAY_GUARDED_BY(sync_mutex_) = {};
  Mutex grow_mutex_;  // One thread at a time changes the file's disk space.
  bool can_punch_ SPILLWAY_GUARDED_BY(grow_mutex_) = true;
  std::optional<TimePoint> much_idle_since_ SPILLWAY_GUARDED_BY(grow_mutex_);

  mutable Mutex mutex_;
  Health health_ SPILLWAY_GUARDED_BY(mutex_) = Health::kLoading;
  std::string why_ SPILLWAY_GUARDED_BY(mutex_) = "disk: loading";
  // Stays false if the journal could not be read.
  bool is_loaded_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::vector<Entry> entries_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<BlobId> idle_ids_ SPILLWAY_GUARDED_BY(mutex_);
  PageAllocator allocator_ SPILLWAY_GUARDED_BY(mutex_);
  Backing backing_ SPILLWAY_GUARDED_BY(mutex_);
  Bytes allocated_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  // Bytes of the records that are still in force.
  Bytes journal_live_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  // Blobs recorded after a sync of the data has begun belong to a later round
  // than the one that the sync makes durable.
  std::uint64_t round_ SPILLWAY_GUARDED_BY(mutex_) = 1;
  std::uint64_t synced_round_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool data_dirty_ SPILLWAY_GUARDED_BY(mutex_) = true;  // An earlier process may not have synced.
  // Entries with pending changes, and those of them whose bytes can no longer be read.
  std::size_t owed_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::size_t spoiled_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  BlobId owed_first_ SPILLWAY_GUARDED_BY(mutex_) = kNoBlob;  // Oldest change first.
  BlobId owed_last_ SPILLWAY_GUARDED_BY(mutex_) = kNoBlob;
  bool unseen_tombstoned_ SPILLWAY_GUARDED_BY(mutex_) = false;  // See TombstoneUnseen.
  // The store was emptied: nothing that it had can be found any more.
  bool is_void_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::string pending_why_ SPILLWAY_GUARDED_BY(mutex_);
  bool data_untrusted_ SPILLWAY_GUARDED_BY(mutex_) = false;  // A sync of the data file has failed.
  std::deque<Extent> quarantine_ SPILLWAY_GUARDED_BY(mutex_);  // Oldest first.
  Bytes quarantined_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes available_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // Of the file system, as last seen.
  TimePoint no_growth_until_ SPILLWAY_GUARDED_BY(mutex_) = {};
  FoundCall load_ SPILLWAY_GUARDED_BY(mutex_);  // Loading was asked for and has not begun.

  // FlushDeletes waits for a thread of its own, since the disk may hang.
  Mutex flush_mutex_;
  CondVar flush_wake_;
  CondVar flush_changed_;  // A flush has finished.
  std::uint64_t flush_wanted_ SPILLWAY_GUARDED_BY(flush_mutex_) = 0;
  std::uint64_t flush_done_ SPILLWAY_GUARDED_BY(flush_mutex_) = 0;
  bool flush_good_ SPILLWAY_GUARDED_BY(flush_mutex_) = true;  // Whether the last flush succeeded.
  // A wait has timed out; until a flush finishes, no call waits again.
  bool flush_late_ SPILLWAY_GUARDED_BY(flush_mutex_) = false;
  bool flush_stop_ SPILLWAY_GUARDED_BY(flush_mutex_) = false;
  std::thread
      delete_flusher_;  // Set with flush_mutex_ or by Open, joined once no other thread runs.

  CondVar wake_;  // With mutex_.
  std::atomic<bool> stop_{false};
  std::thread thread_;
  bool is_closed_ = false;  // Set by Close and the destructor; no other thread runs then.
};

}  // namespace spillway
