// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/card_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace spillway {
namespace {

// Beyond any content, so that a lock never covers bytes that are read.
constexpr long kLockByte = 1L << 20;
constexpr long kFirstSlotByte = kLockByte + 1;

struct flock OneByte(short type, long at) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = at;
  range.l_len = 1;
  return range;
}

Error SystemError(std::string_view what, const std::string& path, int number) {
  return Error{Code::kUnavailable,
               fmt::format("cannot {} card file {}: {}", what, path, std::strerror(number))};
}

Error Unreadable(const std::string& path, std::string_view why) {
  return Error{Code::kUnavailable,
               fmt::format("card file {} cannot be used: {}. End the programs that use it, delete "
                           "it, and start again: it holds no data",
                           path, why)};
}

int OpenFile(const std::string& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

}  // namespace

CardFile::CardFile(std::string path, Duration lock_wait)
    : path_(std::move(path)), lock_wait_(lock_wait) {}

CardFile::~CardFile() {
  if (block_ != nullptr) ::munmap(block_, sizeof(LedgerBlock));
  if (fd_ >= 0) ::close(fd_);
}

void CardFile::CloseInChild() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::unique_ptr<CardFile>> CardFile::Open(const std::string& path, Duration lock_wait) {
  // Another process may delete the file between our open and our lock; the card
  // would then be one that no other process can find. That is rare.
  constexpr int kAttemptsMax = 16;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    std::unique_ptr<CardFile> file(new CardFile(path, lock_wait));
    file->fd_ = OpenFile(path);
    if (file->fd_ < 0) return SystemError("open", path, errno);
    if (Status locked = file->Lock(); !locked) return locked.error();
    const Result<bool> prepared = file->Prepare();
    file->Unlock();
    if (!prepared) return prepared.error();
    if (*prepared) return file;
  }
  return Error{Code::kUnavailable, fmt::format("card file {} is deleted again and again", path)};
}

Result<bool> CardFile::Prepare() {
  // The mapping uses a file descriptor of its own. A mapping keeps its open
  // file alive, and with it that file's locks: made through fd_, the mapping
  // that a forked child inherits would hold the parent's locks.
  const int content = OpenFile(path_);
  if (content < 0) return SystemError("open", path_, errno);
  struct stat locked{};
  struct stat there{};
  Status ready;
  const bool known = ::fstat(fd_, &locked) == 0 && ::fstat(content, &there) == 0;
  const bool same = known && locked.st_ino == there.st_ino && locked.st_dev == there.st_dev;
  if (!known) ready = SystemError("look at", path_, errno);
  if (same) ready = Map(content, there);
  ::close(content);
  if (!ready) return ready.error();
  return same;
}

Status CardFile::Map(int content, const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) return Unreadable(path_, "it is not a plain file");
  if (Status ready = FormatOrCheck(content, static_cast<Bytes>(facts.st_size)); !ready) {
    return ready;
  }
  void* mapped =
      ::mmap(nullptr, sizeof(LedgerBlock), PROT_READ | PROT_WRITE, MAP_SHARED, content, 0);
  if (mapped == MAP_FAILED) return SystemError("map", path_, errno);
  block_ = static_cast<LedgerBlock*>(mapped);
  return {};
}

Status CardFile::FormatOrCheck(int content, Bytes size) {
  LedgerBlock block{};
  if (size == 0) {
    // One write of less than a page: if the process is killed here, the file
    // has all of it or nothing.
    Ledger::Format(&block, 0);
    const ssize_t written = ::pwrite(content, &block, sizeof(block), 0);
    if (written == static_cast<ssize_t>(sizeof(block))) return {};
    const int number = written < 0 ? errno : ENOSPC;
    if (::ftruncate(content, 0) != 0) return SystemError("write and empty", path_, errno);
    return SystemError("write", path_, number);
  }
  const ssize_t got = ::pread(content, &block, sizeof(block), 0);
  if (got < 0) return SystemError("read", path_, errno);
  if (static_cast<std::size_t>(got) >= offsetof(LedgerBlock, total)) {
    if (const std::string why = Ledger::WhyUnreadable(block); !why.empty()) {
      return Unreadable(path_, why);
    }
  }
  if (size != sizeof(block)) {
    return Unreadable(path_,
                      fmt::format("it has {} bytes instead of {}", size, sizeof(LedgerBlock)));
  }
  return {};
}

bool CardFile::SetLock(short type, long at) {
  struct flock range = OneByte(type, at);
  int result = 0;
  do {
    result = ::fcntl(fd_, F_OFD_SETLK, &range);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

Status CardFile::Lock() {
  threads_.lock();
  // The lock is held for microseconds: yield first, then sleep. The kernel's
  // own wait has no deadline, and the lock's owner may be stopped (Ctrl-Z).
  constexpr int kYields = 64;
  constexpr auto kNap = std::chrono::microseconds(200);
  const Duration::rep naps = lock_wait_ / kNap;
  for (Duration::rep tries = 0;; ++tries) {
    if (SetLock(F_WRLCK, kLockByte)) return {};
    const int number = errno;
    const bool busy = number == EAGAIN || number == EACCES;
    if (!busy || tries >= kYields + naps) {
      threads_.unlock();
      if (!busy) return SystemError("lock", path_, number);
      return Error{Code::kBusy, fmt::format("card file {} is locked by another process, which may "
                                            "be stopped (see fuser {})",
                                            path_, path_)};
    }
    if (tries < kYields) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);  // real world: the lock's owner is another process
    }
  }
}

bool CardFile::TryLock() {
  if (!threads_.try_lock()) return false;
  if (SetLock(F_WRLCK, kLockByte)) return true;
  threads_.unlock();
  return false;
}

void CardFile::Unlock() {
  const bool unlocked = SetLock(F_UNLCK, kLockByte);
  assert(unlocked);
  (void)unlocked;
  threads_.unlock();
}

bool CardFile::Claim(int slot) { return SetLock(F_WRLCK, kFirstSlotByte + slot); }

void CardFile::Release(int slot) { SetLock(F_UNLCK, kFirstSlotByte + slot); }

bool CardFile::Alive(int slot) {
  struct flock range = OneByte(F_WRLCK, kFirstSlotByte + slot);
  // If the kernel cannot say, the owner keeps its share. Taking memory from a live
  // process would break the card; taking it late from a dead one does no harm.
  if (::fcntl(fd_, F_OFD_GETLK, &range) != 0) return true;
  return range.l_type != F_UNLCK;
}

}  // namespace spillway
