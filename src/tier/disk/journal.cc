// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/journal.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "tier/disk/aligned_buffer.h"
#include "tier/disk/codec.h"
#include "tier/disk/system_error.h"

namespace spillway {
namespace {

// The writer waits for a result, so it gets one even without memory for the message.
void Answer(std::optional<Status>* answer, const Status& status) {
  try {
    *answer = status;
  } catch (const std::bad_alloc&) {
    *answer = Error{status ? Code::kInternal : status.error().code, "no memory"};
  }
}

// Stores the system's error message, if there is memory for it.
void Say(int result, std::string_view doing, const std::string& path, std::string* why) {
  try {
    *why = SystemError(-result, doing, path).message;
  } catch (const std::bad_alloc&) {
    *why = "no memory";
  }
}

// Changes per write to the journal: 64 KiB of deletes, 96 KiB of deadlines.
constexpr std::size_t kChangesAtOnce = 2048;
constexpr Bytes kChangeBytesMax = std::max(kDeleteBytes, kDeadlineBytes);

// Padding for the rest of the page in which `at` lies.
std::vector<std::byte> PaddingAt(Bytes at, Bytes synced, std::uint64_t seed) {
  const Bytes rest = PagesUp(at) - at;
  std::vector<std::byte> padding =
      EncodePadding(rest < kPaddingMin ? rest + kPageBytes : rest, synced);
  Finish(seed, &padding);
  return padding;
}

}  // namespace

Journal::Journal(std::shared_ptr<Files> files, std::string directory, Owner* owner)
    : files_(std::move(files)),
      directory_(std::move(directory)),
      owner_(owner),
      changes_(std::make_unique<Change[]>(kChangesAtOnce)),
      change_places_(std::make_unique<Place[]>(kChangesAtOnce)),
      change_records_(std::make_unique<std::byte[]>(kChangesAtOnce * kChangeBytesMax)) {}

std::string Journal::PathOf(std::uint64_t number) const {
  return fmt::format("{}/journal-{}", directory_, number);
}

std::string Journal::MirrorPathOf(std::uint64_t number) const {
  return fmt::format("{}/mirror-{}", directory_, number);
}

class SPILLWAY_SCOPED_CAPABILITY Journal::RoleLock {
 public:
  explicit RoleLock(Journal* journal) SPILLWAY_ACQUIRE(journal->role_) : journal_(journal) {
    journal->TakeRole();
  }
  ~RoleLock() SPILLWAY_RELEASE() { journal_->GiveRole(); }
  RoleLock(const RoleLock&) = delete;
  RoleLock& operator=(const RoleLock&) = delete;

 private:
  Journal* const journal_;
};

Status Journal::Start(const Hash128& store) {
  JournalHeader header;
  header.store = store;
  header.epoch = 1;
  std::vector<Place> places;
  std::string why;
  const MutexLock lock(mutex_);
  const RoleLock role(this);
  const MutexUnlock unlock(mutex_);
  const Rewritten done = Replace(header, {}, &places, &why);
  if (done == Rewritten::kDone) return {};
  return Error{Code::kUnavailable, why};
}

void Journal::Adopt(OpenFile file, OpenFile mirror, std::uint64_t number,
                    const JournalHeader& header, Bytes bytes, std::uint64_t last_sequence) {
  std::string path = PathOf(number);
  const MutexLock lock(mutex_);
  file_ = std::make_shared<OpenFile>(std::move(file));
  if (mirror.is_open()) mirror_ = std::make_shared<OpenFile>(std::move(mirror));
  path_ = std::move(path);
  number_ = number;
  header_ = header;
  bytes_ = bytes;
  synced_ = std::min(header.synced_bytes, bytes);
  is_dirty_ = true;  // The process that wrote it may not have synced it.
  next_sequence_ = last_sequence + 1;
}

void Journal::TakeRole() {
  while (role_taken_) role_given_.wait(mutex_);
  role_taken_ = true;
  role_.Take();
}

void Journal::GiveRole() {
  role_.Give();
  role_taken_ = false;
  role_given_.notify_all();
}

Status Journal::Flush() {
  const MutexLock lock(mutex_);
  // Even with nothing queued: another thread may hold the role and still be writing.
  const RoleLock role(this);
  return WriteQueued();
}

std::uint64_t Journal::QueuePut(const PutRecord& put, std::uint32_t cookie,
                                std::optional<Status>* answer) {
  const MutexLock lock(mutex_);
  Item item;
  item.sequence = next_sequence_++;
  item.record = EncodePut(item.sequence, put);
  item.cookie = cookie;
  item.answer = answer;
  queue_.push_back(std::move(item));
  return next_sequence_ - 1;
}

Status Journal::Await(const std::optional<Status>* answer) {
  const MutexLock lock(mutex_);
  while (!*answer) {
    if (role_taken_) {
      role_given_.wait(mutex_);
      continue;
    }
    const RoleLock role(this);
    (void)WriteQueued();  // Our answer is among those that it gives.
  }
  return **answer;
}

// A change must come after its put in the file. Puts queued before this call
// have smaller sequences than the changes written now, and are written first.
// Puts queued meanwhile have larger ones and are written later.
Status Journal::WriteQueued() {
  std::size_t owed = 0;
  {
    const MutexUnlock unlock(mutex_);
    owed = owner_->Owed();
  }
  Status status;
  do {
    std::list<Item> batch;
    batch.swap(queue_);
    const std::uint64_t first = next_sequence_;
    if (owed > 0) next_sequence_ += kChangesAtOnce;
    Status put;
    std::size_t told = 0;
    {
      const MutexUnlock unlock(mutex_);
      put = WritePuts(batch);
      if (owed > 0) status = WriteChanges(first, &told);
    }
    for (const Item& item : batch) Answer(item.answer, put);
    if (told == 0) break;
    owed -= std::min(owed, told);
  } while (owed > 0);
  return status;
}

Status Journal::WritePuts(const std::list<Item>& batch) {
  if (batch.empty()) return {};
  std::vector<Place> places;
  try {
    if (Status status = WriteBatch(batch, &places); !status) return status;
  } catch (const std::bad_alloc&) {
    return Error{Code::kNoMemory, "no memory"};
  }
  auto place = places.begin();
  for (const Item& item : batch) owner_->Recorded(item.cookie, *place++);
  return {};
}

Status Journal::WriteBatch(const std::list<Item>& batch, std::vector<Place>* places) {
  std::vector<std::byte> bytes;
  for (const Item& item : batch) {
    std::vector<std::byte> record = item.record;
    Finish(header_.Seed(), &record);
    places->push_back(
        {item.sequence, bytes_ + bytes.size(), static_cast<std::uint32_t>(record.size())});
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return Append(bytes);
}

Status Journal::WriteChanges(std::uint64_t first, std::size_t* told) {
  const std::size_t count = owner_->Changes(first, {changes_.get(), kChangesAtOnce});
  if (count == 0) return {};
  Bytes bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes taken = EncodeChange(first + i, changes_[i], change_records_.get() + bytes);
    change_places_[i] = {first + i, bytes_ + bytes, static_cast<std::uint32_t>(taken)};
    bytes += taken;
  }
  try {
    const Status status = Append({change_records_.get(), bytes});
    if (!status) return status;
  } catch (const std::bad_alloc&) {
    return Error{Code::kNoMemory, "no memory"};
  }
  owner_->Told({change_places_.get(), count});
  *told = count;
  return {};
}

// A program that reads only version 1 would take a deadline record for the end of the
// journal. In such a journal, which could not be rewritten, the blob is deleted instead.
Bytes Journal::EncodeChange(std::uint64_t sequence, const Change& change, std::byte* to) const {
  if (change.is_gone || header_.version != JournalHeader::kVersion) {
    EncodeDelete(sequence, change.put, header_.Seed(),
                 std::span<std::byte, kDeleteBytes>(to, kDeleteBytes));
    return kDeleteBytes;
  }
  EncodeDeadline(sequence, {change.put, change.expires_unix_ns}, header_.Seed(),
                 std::span<std::byte, kDeadlineBytes>(to, kDeadlineBytes));
  return kDeadlineBytes;
}

Status Journal::Append(std::span<const std::byte> bytes) {
  if (broken_ || file_ == nullptr) {
    return Error{Code::kUnavailable, "disk: the journal can't be written to"};
  }
  const int result = WriteFully(*files_, file_->get(), bytes_, bytes.data(), bytes.size());
  const bool taken_back = result == 0 || files_->Truncate(file_->get(), bytes_) == 0;
  if (result == 0) Mirror(bytes_, bytes);
  const MutexLock lock(mutex_);
  is_dirty_ = true;
  if (result == 0) {
    bytes_ += bytes.size();
    written_ += bytes.size();
    return {};
  }
  if (!taken_back) broken_ = true;
  return SystemError(-result, "append to", path_);
}

void Journal::Mirror(Bytes at, std::span<const std::byte> bytes) {
  if (mirror_ == nullptr) return;
  const int result = WriteFully(*files_, mirror_->get(), at, bytes.data(), bytes.size());
  if (result != 0) return DropMirror(result, "write");
  const MutexLock lock(mutex_);
  written_ += bytes.size();
}

void Journal::DropMirror(int result, std::string_view doing) {
  {
    const MutexLock lock(mutex_);
    mirror_.reset();
  }
  std::string why;
  try {
    Say(result, doing, MirrorPathOf(number_), &why);
    LogWarning("{}; the journal continues without its mirror", why);
  } catch (const std::bad_alloc&) {
    why.clear();  // No memory for a message; is_mirrored() shows it.
  }
}

void Journal::Alone(const std::function<void()>& work) {
  const MutexLock lock(mutex_);
  const RoleLock role(this);
  const MutexUnlock unlock(mutex_);
  work();
}

// A file that is shorter than the header, or has a damaged header, is read as
// an empty journal.
bool Journal::VoidFile(Files& files, int file) {
  bool done = files.Truncate(file, 0) == 0;
  if (!done) {
    const auto header = VoidHeader();
    done = WriteFully(files, file, 0, header.data(), header.size()) == 0;
  }
  if (done) (void)files.Sync(file);
  return done;
}

bool Journal::IsInPlace() const {
  FileFacts ours;
  FileFacts there;
  return files_->StatFile(file_->get(), &ours) == 0 && files_->Stat(path_, &there) == 0 &&
         ours.number == there.number;
}

// Removing the journal works as well, unless an older one is left, which would
// then be read and has still older values.
bool Journal::Void() {
  const MutexLock lock(mutex_);
  const RoleLock role(this);
  if (file_ == nullptr) return false;
  bool done = false;
  {
    const MutexUnlock unlock(mutex_);
    done = VoidFile(*files_, file_->get());
    if (!done && !older_left_ && IsInPlace()) done = files_->Remove(path_) == 0;
  }
  broken_ = true;
  return done;
}

void Journal::OlderIsLeft() {
  const MutexLock lock(mutex_);
  older_left_ = true;
}

int Journal::Sync() {
  std::shared_ptr<OpenFile> file;
  std::shared_ptr<OpenFile> mirror;
  Bytes end = 0;
  UniqueLock lock(mutex_);
  {
    const RoleLock role(this);
    if (bytes_ % kPageBytes != 0) {
      const MutexUnlock unlock(mutex_);
      Pad();  // On a full disk, or without memory, that fails; the data is synced all the same.
    }
    file = file_;
    mirror = mirror_;
    end = bytes_;
    is_dirty_ = false;
  }
  lock.unlock();
  const int result = files_->Sync(file->get());
  // The mirror may lose what it has not synced: the file has it.
  if (result == 0 && mirror != nullptr) (void)files_->Sync(mirror->get());
  lock.lock();
  if (result != 0) is_dirty_ = true;
  if (result == 0 && file == file_) synced_ = std::max(synced_, end);
  return result;
}

void Journal::Pad() {
  Bytes synced = 0;
  {
    const MutexLock lock(mutex_);
    synced = synced_;
  }
  try {
    (void)Append(PaddingAt(bytes_, synced, header_.Seed()));
  } catch (const std::bad_alloc&) {
    synced = 0;  // Works without padding, too.
  }
}

void Journal::Confirm() {
  const MutexLock lock(mutex_);
  if (file_ == nullptr || broken_ || bytes_ % kPageBytes != 0) return;
  const RoleLock role(this);
  const MutexUnlock unlock(mutex_);
  Pad();
}

Journal::Rewritten Journal::Rewrite(std::string* why) {
  const MutexLock lock(mutex_);
  const RoleLock role(this);
  JournalHeader header = header_;
  header.version = JournalHeader::kVersion;
  header.epoch = number_ + 1;
  header.first_sequence = queue_.empty() ? next_sequence_ : queue_.front().sequence;
  const MutexUnlock unlock(mutex_);
  const std::vector<LiveRecord> live = owner_->Live();
  if (!live.empty()) {
    header.first_sequence = std::min(header.first_sequence, live.front().place.sequence);
  }
  std::vector<Place> places;
  const Rewritten done = Replace(header, live, &places, why);
  if (done != Rewritten::kNot) owner_->Moved(places);
  return done;
}

// Appends to a new journal and to its mirror. Errors of the mirror are only recorded.
class Journal::Writer {
 public:
  Writer(Files* files, int file, int mirror) : files_(files), file_(file), mirror_(mirror) {}

  // 0 or -errno.
  int Write(Bytes at, std::span<const std::byte> bytes) {
    if (mirror_ >= 0 && mirror_result_ == 0) {
      mirror_result_ = WriteFully(*files_, mirror_, at, bytes.data(), bytes.size());
    }
    return WriteFully(*files_, file_, at, bytes.data(), bytes.size());
  }
  int Append(std::vector<std::byte>* bytes) {
    const int result = Write(end_, *bytes);
    if (result == 0) end_ += bytes->size();
    bytes->clear();
    return result;
  }
  int Sync() {
    if (mirror_ >= 0 && mirror_result_ == 0) mirror_result_ = files_->Sync(mirror_);
    return files_->Sync(file_);
  }
  Bytes end() const { return end_; }
  int mirror_result() const { return mirror_result_; }

 private:
  Files* const files_;
  const int file_;
  const int mirror_;
  int mirror_result_ = 0;
  Bytes end_ = 0;
};

OpenFile Journal::OpenMirror(std::uint64_t number) {
  const std::string path = MirrorPathOf(number);
  files_->Remove(path);  // Left by a rewrite that did not finish.
  const int opened = files_->Open(path, {.create = true}, nullptr);
  return opened < 0 ? OpenFile() : OpenFile(files_, opened);
}

// The mirror is created before the new journal gets its name, so it never
// belongs to another journal.
Journal::Rewritten Journal::Replace(JournalHeader header, const std::vector<LiveRecord>& live,
                                    std::vector<Place>* places, std::string* why) {
  std::string path = PathOf(header.epoch);
  const std::string beside = path + ".new";
  const auto fail = [&](int result, std::string_view doing) {
    Say(result, doing, beside, why);
    files_->Remove(beside);
    files_->Remove(MirrorPathOf(header.epoch));
    return Rewritten::kNot;
  };
  files_->Remove(beside);  // Left by a rewrite that did not finish.
  const int opened = files_->Open(beside, {.create = true}, nullptr);
  if (opened < 0) return fail(opened, "create");
  // Everything that needs memory comes before the new journal takes its place.
  OpenFile created(files_, opened);
  const auto file = std::make_shared<OpenFile>(std::move(created));
  auto mirror = std::make_shared<OpenFile>(OpenMirror(header.epoch));
  Writer writer(files_.get(), opened, mirror->get());
  if (const int result = WriteNew(&writer, header, live, places); result != 0) {
    return fail(result, "write");
  }
  header.synced_bytes = writer.end();
  if (const int result = writer.Write(0, Encode(header)); result != 0) {
    return fail(result, "write");
  }
  if (const int result = writer.Sync(); result != 0) return fail(result, "sync");
  if (const int result = files_->Rename(beside, path); result != 0) return fail(result, "rename");
  const int in_place = files_->SyncDirectory(directory_);
  const std::string old_mirror = MirrorPathOf(number_);
  std::string old = std::move(path);
  {
    const MutexLock lock(mutex_);
    file_ = file;
    mirror_ = mirror->is_open() && writer.mirror_result() == 0 ? std::move(mirror) : nullptr;
    path_.swap(old);
    number_ = header.epoch;
    header_ = header;
    next_sequence_ = std::max(next_sequence_, header.first_sequence);
    bytes_ = synced_ = writer.end();
    written_ += (mirror_ == nullptr ? 1 : 2) * bytes_;
    is_dirty_ = false;
    broken_ = false;
  }
  if (in_place != 0) {
    OlderIsLeft();
    Say(in_place, "sync", directory_, why);
    return Rewritten::kUntrusted;
  }
  // If it cannot be removed, it is only an older journal.
  if (!old.empty() && files_->Remove(old) != 0) OlderIsLeft();
  if (!old.empty()) files_->Remove(old_mirror);  // A mirror without its journal is never read.
  return Rewritten::kDone;
}

int Journal::WriteNew(Writer* to, const JournalHeader& header, const std::vector<LiveRecord>& live,
                      std::vector<Place>* places) {
  constexpr Bytes kOnce = kMiB;
  std::vector<std::byte> out = Encode(header);
  std::vector<std::byte> window;
  Bytes window_at = 0;
  places->clear();
  places->reserve(live.size());
  int failed = 0;
  // Records that are damaged or unreadable here are recovered by ReadRecord, if at all.
  const auto body_of = [&](const Place& place) -> std::vector<std::byte> {
    if (place.at < window_at || place.at + place.bytes > window_at + window.size()) {
      window_at = place.at;
      window.resize(std::min(bytes_ - place.at, kOnce + place.bytes));
      failed = ReadFully(*files_, file_->get(), window_at, window.data(), window.size());
      if (failed != 0) window.clear();
    }
    if (place.at + place.bytes <= window_at + window.size()) {
      const auto record = std::span(window).subspan(place.at - window_at, place.bytes);
      const auto parsed = ParseRecord(record, header_.Seed());
      if (parsed && parsed->record.sequence == place.sequence) {
        return {record.begin(), record.end() - sizeof(std::uint64_t)};
      }
    }
    auto record = ReadRecord(*files_, file_->get(), mirror_ == nullptr ? -1 : mirror_->get(),
                             place.at, place.bytes, place.sequence, header_.Seed());
    if (!record) return {};
    record->resize(record->size() - sizeof(std::uint64_t));
    return *std::move(record);
  };
  for (const LiveRecord& record : live) {
    std::vector<std::byte> copy;
    if (record.deadline) {
      copy.resize(kDeadlineBytes);
      EncodeDeadline(record.place.sequence, *record.deadline, header.Seed(),
                     std::span<std::byte, kDeadlineBytes>(copy));
    } else {
      copy = body_of(record.place);
      if (copy.empty() && failed != 0) return failed;
      if (copy.empty()) continue;
      Finish(header.Seed(), &copy);
    }
    places->push_back(
        {record.place.sequence, to->end() + out.size(), static_cast<std::uint32_t>(copy.size())});
    out.insert(out.end(), copy.begin(), copy.end());
    if (out.size() < kOnce) continue;
    if (const int result = to->Append(&out); result != 0) return result;
  }
  const std::vector<std::byte> padding = PaddingAt(to->end() + out.size(), 0, header.Seed());
  out.insert(out.end(), padding.begin(), padding.end());
  return to->Append(&out);
}

bool Journal::anything_queued() const {
  const MutexLock lock(mutex_);
  return !queue_.empty() || role_taken_;
}

Bytes Journal::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

Bytes Journal::held() const {
  const MutexLock lock(mutex_);
  return mirror_ == nullptr ? bytes_ : 2 * bytes_;
}

bool Journal::is_mirrored() const {
  const MutexLock lock(mutex_);
  return mirror_ != nullptr;
}

Bytes Journal::written() const {
  const MutexLock lock(mutex_);
  return written_;
}

bool Journal::needs_sync() const {
  const MutexLock lock(mutex_);
  return !queue_.empty() || is_dirty_;
}

bool Journal::is_broken() const {
  const MutexLock lock(mutex_);
  return broken_;
}

}  // namespace spillway
