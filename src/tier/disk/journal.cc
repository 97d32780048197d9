#include "tier/disk/journal.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tier/disk/aligned_buffer.h"
#include "tier/disk/codec.h"
#include "tier/disk/system_error.h"

namespace spillway {
namespace {

// Its writer waits for one, whatever becomes of the words.
void Answer(std::optional<Status>* answer, const Status& status) {
  try {
    *answer = status;
  } catch (const std::bad_alloc&) {
    *answer = Error{status ? Code::kInternal : status.error().code, "no memory"};
  }
}

// The system's words, if there is memory for them.
void Say(int result, std::string_view doing, const std::string& path, std::string* why) {
  try {
    *why = SystemError(-result, doing, path).message;
  } catch (const std::bad_alloc&) {
    *why = "no memory";
  }
}

// Told by one write: 64 KiB.
constexpr std::size_t kDeletesAtOnce = 2048;

// What fills up the page in which `at` lies.
std::vector<std::byte> PaddingAt(Bytes at, std::uint64_t seed) {
  const Bytes rest = PagesUp(at) - at;
  std::vector<std::byte> padding = EncodePadding(rest < kPaddingMin ? rest + kPageBytes : rest);
  Finish(seed, &padding);
  return padding;
}

}  // namespace

Journal::Journal(std::shared_ptr<Files> files, std::string directory, Owner* owner)
    : files_(std::move(files)),
      directory_(std::move(directory)),
      owner_(owner),
      gone_(std::make_unique<std::uint64_t[]>(kDeletesAtOnce)),
      gone_records_(std::make_unique<std::byte[]>(kDeletesAtOnce * kDeleteBytes)) {}

std::string Journal::PathOf(std::uint64_t number) const {
  return fmt::format("{}/journal-{}", directory_, number);
}

class Journal::Role {
 public:
  Role(Journal* journal, Lock* lock) : journal_(journal), lock_(lock) { journal->TakeRole(lock); }
  ~Role() {
    if (!lock_->owns_lock()) lock_->lock();
    journal_->GiveRole();
  }
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;

 private:
  Journal* const journal_;
  Lock* const lock_;
};

Status Journal::Start(const Hash128& store) {
  JournalHeader header;
  header.store = store;
  header.epoch = 1;
  std::vector<Place> none;
  std::string why;
  Lock lock(mutex_);
  const Role role(this, &lock);
  lock.unlock();
  const Rewritten done = Replace(header, &none, &why);
  if (done == Rewritten::kDone) return {};
  return Error{Code::kUnavailable, why};
}

void Journal::Adopt(OpenFile file, std::uint64_t number, const JournalHeader& header, Bytes bytes,
                    std::uint64_t last_sequence) {
  std::string path = PathOf(number);
  const Lock lock(mutex_);
  file_ = std::make_shared<OpenFile>(std::move(file));
  path_ = std::move(path);
  number_ = number;
  header_ = header;
  bytes_ = bytes;
  is_dirty_ = true;  // Whoever wrote it may not have come so far.
  next_sequence_ = last_sequence + 1;
}

void Journal::TakeRole(Lock* lock) {
  changed_.wait(*lock, [this] { return !role_taken_; });
  role_taken_ = true;
}

void Journal::GiveRole() {
  role_taken_ = false;
  changed_.notify_all();
}

Status Journal::Flush() {
  Lock lock(mutex_);
  // Even with nothing queued: who has the role may be writing what was.
  const Role role(this, &lock);
  return WriteQueued(&lock);
}

std::uint64_t Journal::QueuePut(const PutRecord& put, std::uint32_t cookie,
                                std::optional<Status>* answer) {
  const Lock lock(mutex_);
  Item item;
  item.sequence = next_sequence_++;
  item.record = EncodePut(item.sequence, put);
  item.cookie = cookie;
  item.answer = answer;
  queue_.push_back(std::move(item));
  return next_sequence_ - 1;
}

Status Journal::Await(const std::optional<Status>* answer) {
  Lock lock(mutex_);
  while (!*answer) {
    if (role_taken_) {
      changed_.wait(lock);
      continue;
    }
    const Role role(this, &lock);
    (void)WriteQueued(&lock);  // Our answer is among those it gives.
  }
  return **answer;
}

// Puts that were queued before have smaller numbers than the deletes that are
// written now, and stand before them; those that come meanwhile have larger
// ones, and so have to wait. A delete stands behind its put.
Status Journal::WriteQueued(Lock* lock) {
  lock->unlock();
  std::size_t owed = owner_->Owed();
  lock->lock();
  Status status;
  do {
    std::list<Item> batch;
    batch.swap(queue_);
    const std::uint64_t first = next_sequence_;
    if (owed > 0) next_sequence_ += kDeletesAtOnce;
    lock->unlock();
    const Status put = WritePuts(batch);
    std::size_t told = 0;
    if (owed > 0) status = WriteDeletes(first, &told);
    lock->lock();
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

Status Journal::WriteDeletes(std::uint64_t first, std::size_t* told) {
  const std::size_t count = owner_->Gone(first, {gone_.get(), kDeletesAtOnce});
  for (std::size_t i = 0; i < count; ++i) {
    EncodeDelete(
        first + i, gone_[i], header_.Seed(),
        std::span<std::byte, kDeleteBytes>(gone_records_.get() + i * kDeleteBytes, kDeleteBytes));
  }
  if (count == 0) return {};
  try {
    const Status status = Append({gone_records_.get(), count * kDeleteBytes});
    if (!status) return status;
  } catch (const std::bad_alloc&) {
    return Error{Code::kNoMemory, "no memory"};
  }
  owner_->Told(count);
  *told = count;
  return {};
}

Status Journal::Append(std::span<const std::byte> bytes) {
  if (broken_ || file_ == nullptr) {
    return Error{Code::kUnavailable, "disk: the journal can't be written to"};
  }
  const int result = WriteFully(*files_, file_->get(), bytes_, bytes.data(), bytes.size());
  const bool taken_back = result == 0 || files_->Truncate(file_->get(), bytes_) == 0;
  const Lock lock(mutex_);
  is_dirty_ = true;
  if (result == 0) {
    bytes_ += bytes.size();
    written_ += bytes.size();
    return {};
  }
  if (!taken_back) broken_ = true;
  return SystemError(-result, "append to", path_);
}

void Journal::Alone(const std::function<void()>& work) {
  Lock lock(mutex_);
  const Role role(this, &lock);
  lock.unlock();
  work();
}

// Shorter than its header, or with a header that is damaged, it is one that
// tells of nothing.
bool Journal::VoidFile(Files& files, int file) {
  bool done = files.Truncate(file, 0) == 0;
  if (!done) {
    const auto header = VoidHeader();
    done = WriteFully(files, file, 0, header.data(), header.size()) == 0;
  }
  if (done) (void)files.Sync(file);
  return done;
}

// Whether what stands there by its name is ours.
bool Journal::IsInPlace() const {
  FileFacts ours;
  FileFacts there;
  return files_->StatFile(file_->get(), &ours) == 0 && files_->Stat(path_, &there) == 0 &&
         ours.number == there.number;
}

// Not being there at all does as well, unless that leaves an older one, which
// tells of still older things.
bool Journal::Void() {
  Lock lock(mutex_);
  const Role role(this, &lock);
  if (file_ == nullptr) return false;
  lock.unlock();
  bool done = VoidFile(*files_, file_->get());
  if (!done && !older_left_ && IsInPlace()) done = files_->Remove(path_) == 0;
  lock.lock();
  broken_ = true;
  return done;
}

void Journal::OlderIsLeft() {
  const Lock lock(mutex_);
  older_left_ = true;
}

int Journal::Sync() {
  std::shared_ptr<OpenFile> file;
  Lock lock(mutex_);
  {
    const Role role(this, &lock);
    const bool ends_page = bytes_ % kPageBytes == 0;
    lock.unlock();
    // On a full disk it can't be; that is no reason not to sync what is there.
    // Nor is a lack of memory.
    try {
      if (!ends_page) (void)Append(PaddingAt(bytes_, header_.Seed()));
    } catch (const std::bad_alloc&) {
      static_cast<void>(ends_page);
    }
    lock.lock();
    file = file_;
    is_dirty_ = false;
  }
  lock.unlock();
  const int result = files_->Sync(file->get());
  if (result == 0) return 0;
  lock.lock();
  is_dirty_ = true;
  return result;
}

Journal::Rewritten Journal::Rewrite(std::string* why) {
  Lock lock(mutex_);
  const Role role(this, &lock);
  JournalHeader header = header_;
  header.epoch = number_ + 1;
  header.first_sequence = queue_.empty() ? next_sequence_ : queue_.front().sequence;
  lock.unlock();
  std::vector<Place> places = owner_->Live();
  if (!places.empty()) {
    header.first_sequence = std::min(header.first_sequence, places.front().sequence);
  }
  const Rewritten done = Replace(header, &places, why);
  if (done != Rewritten::kNot) owner_->Moved(places);
  return done;
}

Journal::Rewritten Journal::Replace(const JournalHeader& header, std::vector<Place>* places,
                                    std::string* why) {
  std::string path = PathOf(header.epoch);
  const std::string beside = path + ".new";
  const auto fail = [&](int result, std::string_view doing) {
    Say(result, doing, beside, why);
    files_->Remove(beside);
    return Rewritten::kNot;
  };
  files_->Remove(beside);  // Of one who did not get further.
  const int opened = files_->Open(beside, {.create = true}, nullptr);
  if (opened < 0) return fail(opened, "create");
  // All that needs memory comes before the new one is in its place.
  OpenFile created(files_, opened);
  const auto file = std::make_shared<OpenFile>(std::move(created));
  Bytes end = 0;
  if (const int result = WriteNew(opened, header, places, &end); result != 0) {
    return fail(result, "write");
  }
  if (const int result = files_->Sync(opened); result != 0) return fail(result, "sync");
  if (const int result = files_->Rename(beside, path); result != 0) return fail(result, "rename");
  const int in_place = files_->SyncDirectory(directory_);
  std::string old = std::move(path);
  {
    const Lock lock(mutex_);
    file_ = file;
    path_.swap(old);
    number_ = header.epoch;
    header_ = header;
    next_sequence_ = std::max(next_sequence_, header.first_sequence);
    bytes_ = end;
    written_ += end;
    is_dirty_ = false;
    broken_ = false;
  }
  if (in_place != 0) {
    OlderIsLeft();
    Say(in_place, "sync", directory_, why);
    return Rewritten::kUntrusted;
  }
  // Left behind it is only older.
  if (!old.empty() && files_->Remove(old) != 0) OlderIsLeft();
  return Rewritten::kDone;
}

int Journal::WriteNew(int to, const JournalHeader& header, std::vector<Place>* places, Bytes* end) {
  constexpr Bytes kOnce = kMiB;
  std::vector<std::byte> out = Encode(header);
  std::vector<std::byte> window;
  Bytes window_at = 0;
  std::vector<Place> kept;
  kept.reserve(places->size());
  for (const Place& place : *places) {
    if (place.at < window_at || place.at + place.bytes > window_at + window.size()) {
      window_at = place.at;
      window.resize(std::min(bytes_ - place.at, kOnce + place.bytes));
      const int result = ReadFully(*files_, file_->get(), window_at, window.data(), window.size());
      if (result != 0) return result;
    }
    const std::span<const std::byte> record(window.data() + (place.at - window_at), place.bytes);
    const auto parsed = ParseRecord(record, header_.Seed());
    if (!parsed || parsed->record.sequence != place.sequence) continue;
    const auto body = record.first(record.size() - sizeof(std::uint64_t));
    std::vector<std::byte> copy(body.begin(), body.end());
    Finish(header.Seed(), &copy);
    kept.push_back({place.sequence, *end + out.size(), place.bytes});
    out.insert(out.end(), copy.begin(), copy.end());
    if (out.size() < kOnce) continue;
    if (const int result = WriteFully(*files_, to, *end, out.data(), out.size()); result != 0) {
      return result;
    }
    *end += out.size();
    out.clear();
  }
  const std::vector<std::byte> padding = PaddingAt(*end + out.size(), header.Seed());
  out.insert(out.end(), padding.begin(), padding.end());
  if (const int result = WriteFully(*files_, to, *end, out.data(), out.size()); result != 0) {
    return result;
  }
  *end += out.size();
  *places = std::move(kept);
  return 0;
}

bool Journal::anything_queued() const {
  const Lock lock(mutex_);
  return !queue_.empty() || role_taken_;
}

Bytes Journal::bytes() const {
  const Lock lock(mutex_);
  return bytes_;
}

Bytes Journal::written() const {
  const Lock lock(mutex_);
  return written_;
}

bool Journal::needs_sync() const {
  const Lock lock(mutex_);
  return !queue_.empty() || is_dirty_;
}

bool Journal::is_broken() const {
  const Lock lock(mutex_);
  return broken_;
}

}  // namespace spillway
