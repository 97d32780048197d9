// The journal of one store, open for appending. What concurrent writers have
// to say goes into the file by one write: the first of them carries it out for
// all who came meanwhile.
//
// 1. Records stand in the file in the order of their sequence.
// 2. One thread at a time has the `role`: it alone writes to the file or puts
//    another in its place. It holds no lock meanwhile.
// 3. A blob is told to `Owner` before the role is given up: a checkpoint sees
//    every blob whose record is in the file.
// 4. Every sync ends a page: a later write that is torn by a power cut takes
//    nothing with it that was safe.
// 5. After a failed write the file ends where it ended before, or nothing more
//    is written to it: a new one takes its place.
// 6. What has gone is the owner's to remember and is asked for when it can be
//    written: telling of it takes no memory, and can't be lost for want of it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spillway/result.h"
#include "tier/disk/files.h"
#include "tier/disk/journal_format.h"

namespace spillway {

class Journal {
 public:
  // Where a blob's record stands.
  struct Place {
    std::uint64_t sequence = 0;
    Bytes at = 0;
    std::uint32_t bytes = 0;
  };
  // Whose journal it is. Called with the role, without locks.
  class Owner {
   public:
    virtual ~Owner() = default;
    // How many records tell of blobs that have gone, unknown to the journal.
    virtual std::size_t Owed() = 0;
    // The sequences of the first of them, all below `before`, into `sequences`;
    // returns how many.
    virtual std::size_t Gone(std::uint64_t before, std::span<std::uint64_t> sequences) = 0;
    // As many of those, from the first on, are in the file.
    virtual void Told(std::size_t count) = 0;
    // The record of `cookie` is in the file.
    virtual void Recorded(std::uint32_t cookie, const Place& place) = 0;
    // The records that still tell of something, in order.
    virtual std::vector<Place> Live() = 0;
    // They stand elsewhere now; those missing could not be read any more.
    virtual void Moved(const std::vector<Place>& places) = 0;
  };
  enum class Rewritten : std::uint8_t {
    kDone,
    kNot,       // All is as before.
    kUntrusted  // The new one is in use, and may be gone after a power cut.
  };

  // `directory` is where its files lie. Start or Adopt comes before the rest.
  Journal(std::shared_ptr<Files> files, std::string directory, Owner* owner);

  // A new one, number 1, for a store that has none.
  Status Start(const Hash128& store);
  // One that is there, `bytes` of it being good.
  void Adopt(OpenFile file, std::uint64_t number, const JournalHeader& header, Bytes bytes,
             std::uint64_t last_sequence);

  // A blob, to be written with what comes next; no file call. Returns its
  // sequence. Await `answer`, which must live so long.
  std::uint64_t QueuePut(const PutRecord& put, std::uint32_t cookie, std::optional<Status>* answer);
  Status Await(const std::optional<Status>* answer);
  // Writes what was queued and tells what has gone; returns when all that had
  // gone before is in the file, or why it is not. Needs no memory but for words.
  Status Flush();

  // 0 or -errno.
  int Sync();
  // Writes a new journal of what Live() names beside this one, and puts it in
  // its place. `why`, if not done, says why not.
  Rewritten Rewrite(std::string* why);

  // Does `work` while nobody writes to the file.
  void Alone(const std::function<void()>& work);
  // The last resort: from now on it tells of nothing, neither now nor when it is
  // opened. Needs no memory and no space. False: not even that can be done.
  bool Void();
  // The same for a file that was not adopted, as long as it is there.
  static bool VoidFile(Files& files, int file);
  // A journal of an earlier number could not be removed: this one must stay.
  void OlderIsLeft();

  bool anything_queued() const;  // Or being written.
  Bytes bytes() const;           // Of the file.
  Bytes written() const;         // To all files.
  bool needs_sync() const;       // Something was queued or written since the last one.
  bool is_broken() const;        // Commits fail until a new one takes its place.
  std::string PathOf(std::uint64_t number) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Item {
    std::vector<std::byte> record;  // Without its checksum.
    std::uint64_t sequence = 0;
    std::uint32_t cookie = 0;
    std::optional<Status>* answer = nullptr;  // Its writer waits for it.
  };

  // Whoever has the role is the one who writes; given back at the end of scope,
  // with the mutex.
  class Role;
  void TakeRole(Lock* lock);
  void GiveRole();
  Status WriteQueued(Lock* lock);
  Status WritePuts(const std::list<Item>& batch);
  Status WriteBatch(const std::list<Item>& batch, std::vector<Place>* places);
  Status WriteDeletes(std::uint64_t first, std::size_t* told);
  Status Append(std::span<const std::byte> bytes);
  // With the role.
  bool IsInPlace() const;
  Rewritten Replace(const JournalHeader& header, std::vector<Place>* places, std::string* why);
  int WriteNew(int to, const JournalHeader& header, std::vector<Place>* places, Bytes* end);

  const std::shared_ptr<Files> files_;
  const std::string directory_;
  Owner* const owner_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool role_taken_ = false;
  std::list<Item> queue_;
  std::uint64_t next_sequence_ = 1;
  // Changed by who has the role, who may read them without the mutex.
  std::shared_ptr<OpenFile> file_;
  JournalHeader header_;
  std::uint64_t number_ = 0;
  Bytes bytes_ = 0;
  Bytes written_ = 0;
  bool is_dirty_ = false;  // Something was written since the last sync began.
  bool broken_ = false;    // It ends in what we could not take back.
  bool older_left_ = false;
  std::string path_;  // Of file_.
  // Whoever has the role tells by these what has gone.
  const std::unique_ptr<std::uint64_t[]> gone_;
  const std::unique_ptr<std::byte[]> gone_records_;
};

}  // namespace spillway
