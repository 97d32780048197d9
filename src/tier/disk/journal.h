// SPDX-License-Identifier: Apache-2.0
// The journal of one store, open for appending. Records of concurrent writers
// are written together: the first writer to arrive writes for all that are
// queued by then.
//
// 1. Records are in the file in the order of their sequence.
// 2. One thread at a time has the `role`: it alone writes to the file or
//    replaces it. It holds no lock meanwhile.
// 3. A blob is reported to `Owner` before the role is released, so a checkpoint
//    sees every blob whose record is in the file.
// 4. Each sync ends at a page border, so a later write that a power cut tears
//    cannot damage synced records.
// 5. After a failed write the file is truncated to its old end. If that fails,
//    nothing more is written to it and a new one must replace it.
// 6. Deletes and changed deadlines are kept by the owner and fetched when they
//    can be written. So recording them needs no memory, and they cannot be lost
//    for lack of it.
// 7. The mirror has the same bytes at the same offsets, as far as it goes: it
//    only gets bytes that the file has taken. If the mirror cannot be written,
//    the journal goes on without it, and the mirror's content stays true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "spillway/result.h"
#include "tier/disk/files.h"
#include "tier/disk/journal_format.h"
#include "tier/disk/journal_scan.h"

namespace spillway {

class Journal {
 public:
  // The place of a record in the file.
  struct Place {
    std::uint64_t sequence = 0;
    Bytes at = 0;
    std::uint32_t bytes = 0;
  };
  // A change to the blob of an earlier put: a delete or a new deadline.
  struct Change {
    std::uint64_t put = 0;  // Sequence of the put.
    bool is_gone = false;   // Deleted. Otherwise it has this deadline:
    std::optional<std::int64_t> expires_unix_ns = {};
  };
  // A record that is still in force.
  struct LiveRecord {
    Place place;
    // For a deadline record: it is encoded again instead of copied.
    std::optional<DeadlineRecord> deadline = {};
  };
  // The owner of the journal. Called by the thread that has the role, without locks.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The number of changes that the journal does not have yet.
    virtual std::size_t Owed() = 0;
    // Copies the oldest of them, all of puts below `before`, into `changes`;
    // returns how many.
    virtual std::size_t Changes(std::uint64_t before, std::span<Change> changes) = 0;
    // The oldest places.size() of those changes are in the file now, at these places.
    virtual void Told(std::span<const Place> places) = 0;
    // The record of `cookie` is in the file.
    virtual void Recorded(std::uint32_t cookie, const Place& place) = 0;
    // The records that are still in force, in order.
    virtual std::vector<LiveRecord> Live() = 0;
    // The records have these places now; records missing here could not be read.
    virtual void Moved(const std::vector<Place>& places) = 0;
  };
  enum class Rewritten : std::uint8_t {
    kDone,
    kNot,       // Nothing has changed.
    kUntrusted  // The new one is in use, but a power cut may lose it.
  };

  // `directory` contains the files. Call Start or Adopt before any other function.
  Journal(std::shared_ptr<Files> files, std::string directory, Owner* owner);

  // Creates journal number 1, for a store that has none.
  Status Start(const Hash128& store);
  // Takes over an existing journal of which `bytes` are good, and its mirror if
  // that is open.
  void Adopt(OpenFile file, OpenFile mirror, std::uint64_t number, const JournalHeader& header,
             Bytes bytes, std::uint64_t last_sequence);

  // Queues the record of a blob for the next write; no file call. Returns its
  // sequence. Await `answer`, which must live until then.
  std::uint64_t QueuePut(const PutRecord& put, std::uint32_t cookie, std::optional<Status>* answer);
  Status Await(const std::optional<Status>* answer);
  // Writes the queued records and the pending changes. Returns when all changes
  // that were pending before are in the file, or the error that prevented it.
  // Needs memory for the error message only.
  Status Flush();

  // Returns 0 or -errno.
  int Sync();
  // Appends one page that says how much was synced: a lost range before that
  // point is then known to be damage.
  void Confirm();
  // Writes a new journal with the records of Live() and replaces this one. On
  // failure `why` has the message.
  Rewritten Rewrite(std::string* why);

  // Calls `work` while no thread writes to the file.
  void Alone(const std::function<void()>& work);
  // The last resort: empties the journal, now and for every later open. Needs
  // no memory and no space. Returns false if even that failed.
  bool Void();
  // The same for a file that was not adopted.
  static bool VoidFile(Files& files, int file);
  // A journal with an earlier number could not be removed, so this one must not
  // be removed either.
  void OlderIsLeft();

  bool anything_queued() const;  // Or are being written.
  Bytes bytes() const;           // Length of the file.
  Bytes held() const;            // With the mirror.
  bool is_mirrored() const;
  Bytes written() const;    // To all files.
  bool needs_sync() const;  // Something was queued or written since the last sync.
  bool is_broken() const;   // Writes fail until a new journal replaces this one.
  std::string PathOf(std::uint64_t number) const;
  std::string MirrorPathOf(std::uint64_t number) const;

 private:
  struct Item {
    std::vector<std::byte> record;  // Without the checksum.
    std::uint64_t sequence = 0;
    std::uint32_t cookie = 0;
    std::optional<Status>* answer = nullptr;  // The writer waits for it.
  };

  // To write to the file. Taken for a scope that begins and ends with the mutex held:
  // waits until no other thread has it. It has no data; clang checks that functions
  // that need it are called with it.
  struct SPILLWAY_CAPABILITY("role") Role {
    void Take() SPILLWAY_ACQUIRE() {}
    void Give() SPILLWAY_RELEASE() {}
  };
  class RoleLock;
  void TakeRole() SPILLWAY_REQUIRES(mutex_) SPILLWAY_ACQUIRE(role_);
  void GiveRole() SPILLWAY_REQUIRES(mutex_) SPILLWAY_RELEASE(role_);
  // Releases the mutex while it writes. Writes all queued puts and all pending
  // changes. Returns the status of the changes; each put gets its own.
  Status WriteQueued() SPILLWAY_REQUIRES(mutex_, role_);
  Status WritePuts(const std::list<Item>& batch) SPILLWAY_REQUIRES(role_);
  Status WriteBatch(const std::list<Item>& batch, std::vector<Place>* places)
      SPILLWAY_REQUIRES(role_);
  // Writes the next changes of the owner; `told` receives their number.
  Status WriteChanges(std::uint64_t first, std::size_t* told) SPILLWAY_REQUIRES(role_);
  Bytes EncodeChange(std::uint64_t sequence, const Change& change, std::byte* to) const;
  // Writes to the end of the file, then of the mirror. After an error the file
  // is truncated to its old end.
  Status Append(std::span<const std::byte> bytes) SPILLWAY_REQUIRES(role_)
      SPILLWAY_EXCLUDES(mutex_);
  // Fills up the last page, so that later writes cannot tear synced records.
  void Pad() SPILLWAY_REQUIRES(role_) SPILLWAY_EXCLUDES(mutex_);
  void Mirror(Bytes at, std::span<const std::byte> bytes) SPILLWAY_REQUIRES(role_)
      SPILLWAY_EXCLUDES(mutex_);
  // The mirror can no longer be written: logs that and goes on without one.
  void DropMirror(int result, std::string_view doing) SPILLWAY_REQUIRES(role_)
      SPILLWAY_EXCLUDES(mutex_);
  // Whether the file under the journal's name is this one.
  bool IsInPlace() const SPILLWAY_REQUIRES(role_);
  // Writes a new journal with these records beside the current one and renames
  // it into place. `places` receives where the records are now.
  Rewritten Replace(JournalHeader header, const std::vector<LiveRecord>& live,
                    std::vector<Place>* places, std::string* why) SPILLWAY_REQUIRES(role_)
      SPILLWAY_EXCLUDES(mutex_);
  class Writer;
  int WriteNew(Writer* to, const JournalHeader& header, const std::vector<LiveRecord>& live,
               std::vector<Place>* places) SPILLWAY_REQUIRES(role_);
  // Creates an empty mirror; not open if that fails.
  OpenFile OpenMirror(std::uint64_t number);

  const std::shared_ptr<Files> files_;
  const std::string directory_;
  Owner* const owner_;

  mutable Mutex mutex_;
  CondVar role_given_;
  [[no_unique_address]] Role role_;
  bool role_taken_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::list<Item> queue_ SPILLWAY_GUARDED_BY(mutex_);
  std::uint64_t next_sequence_ SPILLWAY_GUARDED_BY(mutex_) = 1;
  // Changed with the mutex and the role, read with either: more than annotations can say.
  std::shared_ptr<OpenFile> file_;
  std::shared_ptr<OpenFile> mirror_;  // Null: there is no mirror, or it could not be written.
  JournalHeader header_;
  std::uint64_t number_ = 0;
  Bytes bytes_ = 0;
  // This much of it is on stable storage.
  Bytes synced_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes written_ = 0;
  // Something was written since the last sync began.
  bool is_dirty_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool broken_ = false;  // It ends in bytes that could not be truncated.
  bool older_left_ = false;
  std::string path_;  // Of file_.
  // Buffers in which the thread that has the role encodes changes.
  const std::unique_ptr<Change[]> changes_;
  const std::unique_ptr<Place[]> change_places_;
  const std::unique_ptr<std::byte[]> change_records_;
};

}  // namespace spillway
