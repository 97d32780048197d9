// The disk tier: blobs in one directory, which one process has at a time.
// docs/design/disk-format.md says what lies there and what is promised.
//
//   lock         held while the store is open; names the process
//   blobs        all blobs, each one extent of whole pages; O_DIRECT
//   journal-<n>  which blobs there are and where; read when the store opens
//
// 1. A blob is published by its record in the journal, which is written when
//    all its bytes are in the file. Before bytes of a blob that has gone are
//    written over, the journal says that it has gone.
// 2. An extent belongs to one blob, to the quarantine or to the allocator.
// 3. Health only ever gets worse; a store that is opened anew starts afresh.
// 4. Locks are taken in the order sync_mutex_, grow_mutex_, mutex_; no file
//    call is made under mutex_, which is the only one the strand takes.
// 5. What was freed or revoked is gone by the journal when Settle has returned
//    true, or can't be read any more: then a kill does not bring it back.
// 6. A blob that has gone keeps its entry until the journal knows: what is owed
//    stands in entries, linked, and takes no memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "spillway/clock.h"
#include "tier/blob_store.h"
#include "tier/disk/aligned_buffer.h"
#include "tier/disk/backing.h"
#include "tier/disk/files.h"
#include "tier/disk/journal.h"
#include "tier/disk/page_allocator.h"

namespace spillway {

struct DiskOptions {
  std::string directory;  // Made (0700) if it is not there; its parent must be.
  Bytes quota = 0;        // Of the data file: values, headers, padding.
  // Of the file system, to be left to others. Empty: 2 % of it and at least
  // 1 GiB; of one smaller than 16 GiB a sixteenth.
  std::optional<Bytes> min_free = {};
  std::optional<Bytes> quarantine_max = {};  // Empty: a sixteenth of the quota.
  // The journal is written anew when it is longer than twice what it has to say
  // and this.
  Bytes journal_slack = 16 * kMiB;
  std::shared_ptr<Files> files = {};  // Null: the machine's.
  std::shared_ptr<Clock> clock = {};  // Null: the machine's.
  // False: no thread is started; loading, syncing and all that goes on behind
  // happens in RunBackground, on the caller's thread.
  bool background = true;
};

class DiskStore final : public BlobStore, private Journal::Owner {
 public:
  // Refuses what it can't keep its promises in, and then changes nothing: a
  // directory that is somebody else's, open to others, of another format, or
  // open in another process.
  static Result<std::unique_ptr<DiskStore>> Open(const DiskOptions& options);
  // Closes, if that was not done. Nothing may be under way.
  ~DiskStore() override;

  std::string_view name() const override { return "disk"; }
  Bytes capacity() const override { return quota_; }
  Bytes allocated() const override;
  Bytes held() const override;
  Health health() const override;
  std::string why() const override;
  BlobStoreStats stats() const override;

  Result<BlobId> Allocate(const BlobFacts& facts) override;
  void Free(BlobId id) override;
  void Quarantine(BlobId id) override;
  void Revoke(BlobId id) override;
  bool has_unseen() const override;
  void RevokeUnseen() override;
  using BlobStore::Write;
  Status Write(BlobId id, const BlobFacts& facts, Seal* seal, const Source& source,
               const std::atomic<bool>* cancelled) override;
  Status Read(BlobId id, const BlobFacts& expected, std::byte* to, Seal* seal,
              const std::atomic<bool>* cancelled) override;
  void StartLoading(std::function<void(std::vector<Found>, bool done)> found) override;
  bool needs_settling() const override;
  bool Settle(Duration within) override;
  std::string unsettled_why() const override;
  Status Sync() override;
  Status Close() override;

  // What goes on behind, once: loading if it was asked for; then looking after
  // the file system's space, syncing, giving back space, a shorter journal.
  // For stores without a background thread.
  void RunBackground();

 private:
  enum class State : std::uint8_t {
    kFree,
    kAllocated,
    kPublished,
    kLost,  // Its bytes can't be trusted: a sync has failed.
    kGone   // It has left, but for what is owed. Its place may be given to another.
  };
  struct Entry {
    State state = State::kFree;
    Extent extent;
    Bytes size = 0;
    Hash128 header;
    Journal::Place place;      // Of its record; no bytes: it has none.
    std::uint64_t queued = 0;  // Sequence of its record, once that is on its way to the journal.
    std::uint64_t round = 0;   // Of syncs, in which it was written (round_).
    std::uint64_t owed = 0;    // A record of which the journal has not been told that it has gone.
    BlobId owed_next = kNoBlob;  // The next that owes something.
    bool is_spoiled = false;     // It owes, but can't be read any more.
    bool is_left_out = false;    // It owes; a journal that is being written does not have it.
    bool is_revoked = false;     // The journal says, or will, that it has gone.
  };
  // What Open found.
  struct Opening {
    Hash128 store;
    OpenFile lock;
    OpenFile data;
    bool direct = false;
    FileFacts data_facts;
    OpenFile journal;  // Not open: the store is new.
    std::uint64_t journal_number = 0;
    std::optional<JournalHeader> journal_header;  // Empty: damaged.
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
    std::atomic<std::uint64_t> settle_failures{0};
    std::atomic<std::uint64_t> voided{0};
  };
  struct Recovery;  // disk_load.cc
  using Guard = std::unique_lock<std::mutex>;
  using FoundCall = std::function<void(std::vector<Found>, bool done)>;

  DiskStore(const DiskOptions& options, std::shared_ptr<Files> files, Opening opening);

  // disk_open.cc
  static Status Examine(Files& files, const std::string& directory, Opening* opening);
  static Status TakeLock(const std::shared_ptr<Files>& files, const std::string& directory,
                         Opening* opening);
  Status Begin();

  // disk_store.cc
  Error Refusal() const;  // With mutex_.
  void Worsen(Health health, const std::string& why);
  void Leave(BlobId id, bool quarantine);
  bool Isolate(const Extent& extent);  // With mutex_.
  // With mutex_: the journal shall know that this record's blob has gone.
  void Forget(BlobId id, std::uint64_t sequence);
  void Acquit(BlobId id);       // With mutex_: it owes nothing more.
  Bytes GrowableBytes() const;  // With mutex_.

  // disk_transfer.cc
  Result<Entry> EntryOf(BlobId id) const;
  Status Back(const Extent& extent);
  Status WriteBytes(const Entry& entry, const BlobFacts& facts, Seal* seal, const Source& source,
                    const std::atomic<bool>* cancelled, Hash128* header);
  Status Verify(const Entry& entry, const BlobFacts& expected, std::byte* to, Seal* seal,
                const std::atomic<bool>* cancelled);
  Error FileError(int error, std::string_view doing);

  // disk_load.cc
  void Load(const FoundCall& found);
  void LoadOrFail(const FoundCall& found);
  void Recover(Recovery* recovery);
  void Settle(Recovery* recovery);

  // disk_background.cc
  void Loop();
  bool AwaitSettler(Duration within);
  void SettleOnDemand();
  void LookAround();
  Status SyncData(std::uint64_t round);
  Status SyncJournal();
  void LoseUnsynced();
  bool IsTimeToGiveBack();
  void GiveBackIdle();
  void ShortenJournal();

  // disk_settle.cc
  void StopThreads();
  bool SettleNow(bool last);
  bool IsSettled() const;
  Status FlushJournal();
  void RenewJournal();
  void Spoil(bool last);
  bool SpoilNext(bool last);
  void Void();
  Status SyncAtEnd();
  void CloseOrSay();

  // Journal::Owner.
  std::size_t Owed() override;
  std::size_t Gone(std::uint64_t before, std::span<std::uint64_t> sequences) override;
  void Told(std::size_t count) override;
  void Recorded(std::uint32_t cookie, const Journal::Place& place) override;
  std::vector<Journal::Place> Live() override;
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
  Opening opening_;  // Its journal is handed over when loaded.
  Bytes min_free_ = 0;

  mutable Counters counters_;
  BufferPool buffers_;
  Journal journal_;
  const AlignedBuffer nothing_;  // A page of zeros.

  std::mutex sync_mutex_;    // One sync or checkpoint at a time.
  Bytes journal_retry_ = 0;  // Guarded by sync_mutex_: no shortening before it is this long.
  std::mutex grow_mutex_;    // One change of the file's space at a time.
  bool can_punch_ = true;    // Guarded by grow_mutex_, as the next.
  std::optional<TimePoint> much_idle_since_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Health health_ = Health::kLoading;
  std::string why_ = "disk: loading";
  bool is_loaded_ = false;  // False for good: the journal could not be read.
  std::vector<Entry> entries_;
  std::vector<BlobId> idle_ids_;
  PageAllocator allocator_;
  Backing backing_;
  Bytes allocated_ = 0;
  Bytes journal_live_ = 0;  // Bytes of records that still tell of something.
  // Blobs recorded since a sync of the data began are of a later round than
  // those it makes safe.
  std::uint64_t round_ = 1;
  std::uint64_t synced_round_ = 0;
  bool data_dirty_ = true;       // Whoever wrote before us may not have synced.
  std::size_t owed_ = 0;         // Entries that owe the journal something.
  std::size_t spoiled_ = 0;      // Of those, the ones that can't be read any more.
  BlobId owed_first_ = kNoBlob;  // In the order in which they went.
  BlobId owed_last_ = kNoBlob;
  bool unseen_revoked_ = false;  // See RevokeUnseen.
  bool is_void_ = false;         // Nothing that was there can be found any more.
  std::string unsettled_why_;
  bool data_untrusted_ = false;    // A sync of the data file has failed.
  std::deque<Extent> quarantine_;  // Oldest first.
  Bytes quarantined_ = 0;
  Bytes available_ = 0;  // Of the file system, as last seen.
  TimePoint no_growth_until_ = {};
  FoundCall load_;  // Loading was asked for and has not begun.

  // Who waits for Settle is answered by a thread of its own: a disk may hang.
  std::mutex settle_mutex_;
  std::condition_variable settle_wake_;     // With settle_mutex_, as all of these.
  std::condition_variable settle_changed_;  // Something has settled.
  std::uint64_t settle_wanted_ = 0;
  std::uint64_t settled_ = 0;
  bool settle_good_ = true;   // Whether the last of them was written.
  bool settle_late_ = false;  // Somebody has waited in vain; nobody waits until it has settled.
  bool settle_stop_ = false;
  std::thread settler_;

  std::condition_variable wake_;  // With mutex_.
  std::atomic<bool> stop_{false};
  std::thread thread_;
  bool is_closed_ = false;  // Whoever closes it is alone.
};

}  // namespace spillway
