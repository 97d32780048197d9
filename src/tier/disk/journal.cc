#include "tier/disk/journal.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
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

// What fills up the page in which `at` lies.
std::vector<std::byte> PaddingAt(Bytes at, std::uint64_t seed) {
  const Bytes rest = PagesUp(at) - at;
  std::vector<std::byte> padding = EncodePadding(rest < kPaddingMin ? rest + kPageBytes : rest);
  Finish(seed, &padding);
  return padding;
}

}  // namespace

Journal::Journal(std::shared_ptr<Files> files, std::string directory, Owner* owner)
    : files_(std::move(files)), directory_(std::move(directory)), owner_(owner) {}

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
  const Lock lock(mutex_);
  file_ = std::make_shared<OpenFile>(std::move(file));
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

void Journal::QueueDelete(std::uint64_t sequence) {
  const Lock lock(mutex_);
  Item item;
  item.sequence = next_sequence_++;
  item.record = EncodeDelete(item.sequence, sequence);
  queue_.push_back(std::move(item));
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

Status Journal::WriteQueued(Lock* lock) {
  if (queue_.empty()) return {};
  std::list<Item> batch;
  batch.swap(queue_);
  const bool broken = broken_;
  lock->unlock();
  std::vector<Place> places;
  Status status;
  try {
    status = broken ? Error{Code::kUnavailable, "disk: the journal can't be written to"}
                    : WriteBatch(batch, &places);
  } catch (const std::bad_alloc&) {
    status = Error{Code::kNoMemory, "no memory"};
  }
  if (status) {
    auto place = places.begin();
    for (const Item& item : batch) {
      if (item.answer != nullptr) owner_->Recorded(item.cookie, *place);
      ++place;
    }
  }
  lock->lock();
  // Deletes are not given up: they wait, in front, for the next commit.
  for (auto item = batch.begin(); item != batch.end();) {
    const auto next = std::next(item);
    if (item->answer != nullptr) {
      Answer(item->answer, status);
      batch.erase(item);
    }
    item = next;
  }
  if (!status) queue_.splice(queue_.begin(), batch);
  return status;
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

Status Journal::Append(const std::vector<std::byte>& bytes) {
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
  return SystemError(-result, "append to", PathOf(number_));
}

int Journal::Sync() {
  std::shared_ptr<OpenFile> file;
  Lock lock(mutex_);
  {
    const Role role(this, &lock);
    const bool ends_page = bytes_ % kPageBytes == 0;
    lock.unlock();
    // On a full disk it can't be; that is no reason not to sync what is there.
    if (!ends_page) (void)Append(PaddingAt(bytes_, header_.Seed()));
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
  const std::string path = PathOf(header.epoch);
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
  const std::string old = number_ == 0 ? "" : PathOf(number_);
  Bytes end = 0;
  if (const int result = WriteNew(opened, header, places, &end); result != 0) {
    return fail(result, "write");
  }
  if (const int result = files_->Sync(opened); result != 0) return fail(result, "sync");
  if (const int result = files_->Rename(beside, path); result != 0) return fail(result, "rename");
  const int in_place = files_->SyncDirectory(directory_);
  {
    const Lock lock(mutex_);
    file_ = file;
    number_ = header.epoch;
    header_ = header;
    next_sequence_ = std::max(next_sequence_, header.first_sequence);
    bytes_ = end;
    written_ += end;
    is_dirty_ = false;
    broken_ = false;
  }
  if (in_place != 0) {
    Say(in_place, "sync", directory_, why);
    return Rewritten::kUntrusted;
  }
  if (!old.empty()) files_->Remove(old);  // Left behind it is only older.
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
