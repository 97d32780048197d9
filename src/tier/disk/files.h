// SPDX-License-Identifier: Apache-2.0
// The file system as an interface: each file call of the disk tier goes through
// Files, so that a test can make any call fail and a simulation can cut the power.
//
// Results are the system's own: 0, a descriptor or a number of bytes on
// success, -errno on failure. Nothing throws. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spillway/units.h"

namespace spillway {

// The result of stat.
struct FileFacts {
  bool directory = false;
  std::uint32_t owner = 0;
  std::uint32_t permissions = 0;  // The lower twelve bits of the mode.
  Bytes bytes = 0;
  std::uint64_t number = 0;  // The inode: tells apart two files that had the same name.
};

// The size of a file system and the space left on it.
struct SpaceFacts {
  Bytes total = 0;
  Bytes available = 0;  // To this process.
};

struct OpenHow {
  bool write = true;
  bool create = false;  // With permissions 0600.
  bool direct = false;  // Past the page cache, where the file system supports it.
};

// One read or write, in flight together with others.
struct Io {
  int file = -1;
  Bytes at = 0;
  std::byte* data = nullptr;  // Not changed by a write.
  Bytes bytes = 0;
  bool write = false;
  std::uint64_t tag = 0;  // For the feed's own use.
};

// The source of a batch of reads and writes, and the receiver of their results.
// Both functions are called on the thread that called Files::Run, while other
// operations are in flight.
class IoFeed {
 public:
  virtual ~IoFeed() = default;
  // Fills in the next operation. Returns false if nothing more is to be started.
  virtual bool Next(Io* io) = 0;
  // `result`: bytes moved (fewer than asked for at the end of the file), or -errno.
  virtual void Done(const Io& io, std::int64_t result) = 0;
};

class Files {
 public:
  // At most this many operations of one batch are in flight, so a feed needs at
  // most this many buffers.
  static constexpr std::size_t kDepth = 16;

  virtual ~Files() = default;

  virtual int Stat(const std::string& path, FileFacts* facts) = 0;  // Follows no link.
  virtual int MakeDirectory(const std::string& path) = 0;           // With permissions 0700.
  virtual int List(const std::string& path, std::vector<std::string>* names) = 0;
  virtual int FreeSpace(const std::string& path, SpaceFacts* space) = 0;
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  virtual int Remove(const std::string& path) = 0;
  virtual int SyncDirectory(const std::string& path) = 0;

  // Returns a descriptor, for Close. `direct`, if given, receives whether the
  // file is open with O_DIRECT.
  virtual int Open(const std::string& path, OpenHow how, bool* direct) = 0;
  virtual void Close(int file) = 0;
  // Exclusive, for as long as the file is open. -EWOULDBLOCK: another process
  // holds the lock.
  virtual int Lock(int file) = 0;
  virtual int StatFile(int file, FileFacts* facts) = 0;

  virtual std::int64_t ReadAt(int file, Bytes at, void* data, Bytes bytes) = 0;
  virtual std::int64_t WriteAt(int file, Bytes at, const void* data, Bytes bytes) = 0;
  virtual int Sync(int file) = 0;  // Data, and the metadata needed to find it.
  virtual int Allocate(int file, Bytes at, Bytes bytes) = 0;
  virtual int Punch(int file, Bytes at, Bytes bytes) = 0;
  virtual int Truncate(int file, Bytes bytes) = 0;

  // Runs a batch to its end. This version runs one operation after another, by
  // ReadAt and WriteAt.
  virtual void Run(IoFeed& feed);
  // Whether operations of a batch are in flight together.
  virtual bool together() const { return false; }

  // Unpredictable bytes, for the name of a store.
  virtual void Random(void* data, Bytes bytes) = 0;
};

// The real file system. Batches run by io_uring; where that is refused, one
// operation after another.
std::shared_ptr<Files> RealFiles(bool with_uring = true);

// An open file that is closed on destruction.
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

// Reads or writes all bytes, in as many calls as that takes. Returns 0 or
// -errno; -EIO when the file ends early.
int ReadFully(Files& files, int file, Bytes at, void* data, Bytes bytes);
int WriteFully(Files& files, int file, Bytes at, const void* data, Bytes bytes);

}  // namespace spillway
