// Files that go wrong when told to. Calls are counted; before each of them
// `script` says whether it fails. Batches run one after another, so that the
// count is the same in every run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tier/disk/files.h"

namespace spillway::testing {

enum class FileCall : std::uint8_t {
  kStat,
  kMakeDirectory,
  kList,
  kFreeSpace,
  kRename,
  kRemove,
  kSyncDirectory,
  kOpen,
  kLock,
  kStatFile,
  kRead,
  kWrite,
  kSync,
  kAllocate,
  kPunch,
  kTruncate
};

class FaultyFiles final : public Files {
 public:
  // The errno with which the call fails; 0: it goes through. `number` counts
  // all calls from 0; `file` is -1 for calls by path. It may also take its
  // time (slow disks), or look at the world.
  using Script = std::function<int(FileCall call, std::uint64_t number, int file)>;

  explicit FaultyFiles(std::shared_ptr<Files> files) : files_(std::move(files)) {}

  // Not while calls are under way.
  void SetScript(Script script) { script_ = std::move(script); }
  // The call with this number, or it and all after it.
  void FailAt(std::uint64_t number, int error, bool for_good);
  // All of a kind from now on.
  void FailAll(FileCall call, int error);
  void Heal() { script_ = nullptr; }
  // Writes move at most this many bytes at once; 0: all of them.
  void SetWriteMax(Bytes bytes) { write_max_ = bytes; }
  // This bit of each read or written range changes on its way.
  void FlipOnRead(Bytes bit) { flip_read_ = bit + 1; }
  void FlipOnWrite(Bytes bit) { flip_write_ = bit + 1; }
  void FlipNothing() { flip_read_ = flip_write_ = 0; }

  std::uint64_t calls() const { return calls_; }
  std::int64_t open_files() const { return open_; }

  int Stat(const std::string& path, FileFacts* facts) override;
  int MakeDirectory(const std::string& path) override;
  int List(const std::string& path, std::vector<std::string>* names) override;
  int FreeSpace(const std::string& path, SpaceFacts* space) override;
  int Rename(const std::string& from, const std::string& to) override;
  int Remove(const std::string& path) override;
  int SyncDirectory(const std::string& path) override;
  int Open(const std::string& path, OpenHow how, bool* direct) override;
  void Close(int file) override;
  int Lock(int file) override;
  int StatFile(int file, FileFacts* facts) override;
  std::int64_t ReadAt(int file, Bytes at, void* data, Bytes bytes) override;
  std::int64_t WriteAt(int file, Bytes at, const void* data, Bytes bytes) override;
  int Sync(int file) override;
  int Allocate(int file, Bytes at, Bytes bytes) override;
  int Punch(int file, Bytes at, Bytes bytes) override;
  int Truncate(int file, Bytes bytes) override;
  void Random(void* data, Bytes bytes) override { files_->Random(data, bytes); }

 private:
  int Before(FileCall call, int file = -1);

  const std::shared_ptr<Files> files_;
  Script script_;
  Bytes write_max_ = 0;
  Bytes flip_read_ = 0;  // 1 + the bit; 0: none.
  Bytes flip_write_ = 0;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::int64_t> open_{0};
};

}  // namespace spillway::testing
