// Files as an argument: every file call of the disk tier goes through here, so
// that a test can make any of them fail and a simulation can lose power.
//
// Answers are the system's own: what was asked for (0, a descriptor, bytes), or
// -errno. Nothing throws. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spillway/units.h"

namespace spillway {

struct FileFacts {
  bool directory = false;
  std::uint32_t owner = 0;
  std::uint32_t permissions = 0;  // Of the mode, the lower twelve bits.
  Bytes bytes = 0;
  std::uint64_t number = 0;  // The inode: another one under the same name is another file.
};

struct SpaceFacts {
  Bytes total = 0;
  Bytes available = 0;  // To us.
};

struct OpenHow {
  bool write = true;
  bool create = false;  // With permissions 0600.
  bool direct = false;  // Past the page cache, where the file system can.
};

// One read or write, under way together with others.
struct Io {
  int file = -1;
  Bytes at = 0;
  std::byte* data = nullptr;  // Not changed by a write.
  Bytes bytes = 0;
  bool write = false;
  std::uint64_t tag = 0;  // The feed's own.
};

// Where a batch comes from and where its answers go. Both are called on the
// thread that called Files::Run, while the others are in flight.
class IoFeed {
 public:
  virtual ~IoFeed() = default;
  // The next one, if there is one; false: nothing more is to be started.
  virtual bool Next(Io* io) = 0;
  // Bytes moved (fewer than asked for: there is no more file), or -errno.
  virtual void Done(const Io& io, std::int64_t result) = 0;
};

class Files {
 public:
  // At most this many of one batch are in flight: a feed needs no more buffers.
  static constexpr std::size_t kDepth = 16;

  virtual ~Files() = default;

  virtual int Stat(const std::string& path, FileFacts* facts) = 0;  // Follows no link.
  virtual int MakeDirectory(const std::string& path) = 0;           // With permissions 0700.
  virtual int List(const std::string& path, std::vector<std::string>* names) = 0;
  virtual int FreeSpace(const std::string& path, SpaceFacts* space) = 0;
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  virtual int Remove(const std::string& path) = 0;
  virtual int SyncDirectory(const std::string& path) = 0;

  // A descriptor, for Close. `direct`, if given, says whether it is.
  virtual int Open(const std::string& path, OpenHow how, bool* direct) = 0;
  virtual void Close(int file) = 0;
  // Exclusive, for as long as the file is open. -EWOULDBLOCK: somebody has it.
  virtual int Lock(int file) = 0;
  virtual int StatFile(int file, FileFacts* facts) = 0;

  virtual std::int64_t ReadAt(int file, Bytes at, void* data, Bytes bytes) = 0;
  virtual std::int64_t WriteAt(int file, Bytes at, const void* data, Bytes bytes) = 0;
  virtual int Sync(int file) = 0;  // Data, and what is needed to find it.
  virtual int Allocate(int file, Bytes at, Bytes bytes) = 0;
  virtual int Punch(int file, Bytes at, Bytes bytes) = 0;
  virtual int Truncate(int file, Bytes bytes) = 0;

  // Runs a batch to its end. Here: one after another, by ReadAt and WriteAt.
  virtual void Run(IoFeed& feed);
  // Whether batches run in flight together.
  virtual bool together() const { return false; }

  // Bytes that nobody can guess, for the name of a store.
  virtual void Random(void* data, Bytes bytes) = 0;
};

// The machine's. Batches run by io_uring; where that is refused, one after
// another.
std::shared_ptr<Files> RealFiles(bool with_uring = true);

// An open file that closes itself.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(std::shared_ptr<Files> files, int file) : files_(std::move(files)), file_(file) {}
  OpenFile(OpenFile&& other) noexcept { *this = std::move(other); }
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~OpenFile() {
    if (file_ >= 0) files_->Close(file_);
  }
  int get() const { return file_; }
  bool is_open() const { return file_ >= 0; }

 private:
  std::shared_ptr<Files> files_;
  int file_ = -1;
};

// All of it, however many calls that takes. 0 or -errno; -EIO when the file
// ends before.
int ReadFully(Files& files, int file, Bytes at, void* data, Bytes bytes);
int WriteFully(Files& files, int file, Bytes at, const void* data, Bytes bytes);

}  // namespace spillway
