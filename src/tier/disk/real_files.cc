// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/mutex.h"
#include "tier/disk/files.h"
#include "tier/disk/uring.h"

namespace spillway {
namespace {

int Answer(int result) { return result < 0 ? -errno : result; }

template <typename Call>
int Repeat(Call call) {
  int result = 0;
  do result = Answer(call());
  while (result == -EINTR);
  return result;
}

int Fill(int result, const struct stat& from, FileFacts* facts) {
  if (result < 0) return -errno;
  facts->directory = S_ISDIR(from.st_mode);
  facts->owner = from.st_uid;
  facts->permissions = from.st_mode & 07777U;
  facts->bytes = static_cast<Bytes>(from.st_size);
  facts->number = from.st_ino;
  return 0;
}

class SystemFiles final : public Files {
 public:
  explicit SystemFiles(bool with_uring) {
    if (!with_uring) return;
    auto ring = Ring::Create();
    together_ = ring != nullptr;
    if (ring) idle_rings_.push_back(std::move(ring));
  }

  int Stat(const std::string& path, FileFacts* facts) override {
    struct stat is{};
    return Fill(::lstat(path.c_str(), &is), is, facts);
  }
  int MakeDirectory(const std::string& path) override {
    return Answer(::mkdir(path.c_str(), 0700));
  }
  int List(const std::string& path, std::vector<std::string>* names) override {
    const auto close = [](DIR* dir) { ::closedir(dir); };
    const std::unique_ptr<DIR, decltype(close)> dir(::opendir(path.c_str()), close);
    if (dir == nullptr) return -errno;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names->push_back(name);
      errno = 0;
    }
    return -errno;
  }
  int FreeSpace(const std::string& path, SpaceFacts* space) override {
    struct statvfs is{};
    if (::statvfs(path.c_str(), &is) != 0) return -errno;
    space->total = is.f_blocks * is.f_frsize;
    space->available = is.f_bavail * is.f_frsize;
    return 0;
  }
  int Rename(const std::string& from, const std::string& to) override {
    return Answer(::rename(from.c_str(), to.c_str()));
  }
  int Remove(const std::string& path) override { return Answer(::unlink(path.c_str())); }
  int SyncDirectory(const std::string& path) override {
    const int dir = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return -errno;
    const int result = Answer(::fsync(dir));
    ::close(dir);
    return result;
  }

  int Open(const std::string& path, OpenHow how, bool* direct) override {
    const int flags =
        (how.write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | (how.create ? O_CREAT : 0);
    int file = -EINVAL;
    if (how.direct) file = Repeat([&] { return ::open(path.c_str(), flags | O_DIRECT, 0600); });
    if (direct != nullptr) *direct = file >= 0;
    if (file != -EINVAL) return file;  // EINVAL: the file system does not support O_DIRECT.
    return Repeat([&] { return ::open(path.c_str(), flags, 0600); });
  }
  void Close(int file) override { ::close(file); }
  int Lock(int file) override {
    return Repeat([&] { return ::flock(file, LOCK_EX | LOCK_NB); });
  }
  int StatFile(int file, FileFacts* facts) override {
    struct stat is{};
    return Fill(::fstat(file, &is), is, facts);
  }

  std::int64_t ReadAt(int file, Bytes at, void* data, Bytes bytes) override {
    const ssize_t result = ::pread(file, data, bytes, static_cast<off_t>(at));
    return result < 0 ? -errno : result;
  }
  std::int64_t WriteAt(int file, Bytes at, const void* data, Bytes bytes) override {
    const ssize_t result = ::pwrite(file, data, bytes, static_cast<off_t>(at));
    return result < 0 ? -errno : result;
  }
  // Never retried: an error is reported only once.
  int Sync(int file) override { return Answer(::fdatasync(file)); }
  int Allocate(int file, Bytes at, Bytes bytes) override {
    return Repeat(
        [&] { return ::fallocate(file, 0, static_cast<off_t>(at), static_cast<off_t>(bytes)); });
  }
  int Punch(int file, Bytes at, Bytes bytes) override {
    return Repeat([&] {
      return ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                         static_cast<off_t>(bytes));
    });
  }
  int Truncate(int file, Bytes bytes) override {
    return Repeat([&] { return ::ftruncate(file, static_cast<off_t>(bytes)); });
  }

  void Run(IoFeed& feed) override {
    std::unique_ptr<Ring> ring = TakeRing();
    if (ring == nullptr) return Files::Run(feed);
    ring->Run(feed);
    const MutexLock lock(mutex_);
    idle_rings_.push_back(std::move(ring));
  }
  bool together() const override { return together_; }

  void Random(void* data, Bytes bytes) override {
    // Requests of up to 256 bytes cannot fail once the system is up.
    if (::getrandom(data, bytes, 0) < 0) std::memset(data, 0, bytes);
  }

 private:
  std::unique_ptr<Ring> TakeRing() {
    if (!together_) return nullptr;
    {
      const MutexLock lock(mutex_);
      if (!idle_rings_.empty()) {
        std::unique_ptr<Ring> ring = std::move(idle_rings_.back());
        idle_rings_.pop_back();
        return ring;
      }
    }
    return Ring::Create();
  }

  bool together_ = false;  // Constant after construction.
  Mutex mutex_;
  // As many as threads ran batches at once.
  std::vector<std::unique_ptr<Ring>> idle_rings_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Files> RealFiles(bool with_uring) {
  return std::make_shared<SystemFiles>(with_uring);
}

}  // namespace spillway
