// SPDX-License-Identifier: Apache-2.0
// Files whose calls can be made to fail. Calls are counted; before each call
// `script` decides whether it fails. Batches run one operation after another,
// so that the counts are the same in every run.
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
  // Returns the errno with which the call fails; 0: it runs. `number` counts
  // all calls from 0; `file` is -1 for calls by path. The script may also take
  // time (a slow disk) or inspect the state.
  using Script = std::function<int(FileCall call, std::uint64_t number, int file)>;

  explicit FaultyFiles(std::shared_ptr<Files> files) : files_(std::move(files)) {}

  // Not while calls are in flight.
  void SetScript(Script script) { script_ = std::move(script); }
  // Fails the call with this number, or that one and all later ones.
  void FailAt(std::uint64_t number, int error, bool for_good);
  // Fails all calls of one kind from now on.
  void FailAll(FileCall call, int error);
  void Heal() { script_ = nullptr; }
  // A write moves at most this many bytes at once; 0: no limit.
  void SetWriteMax(Bytes bytes) { write_max_ = bytes; }
  // Flips this bit of each range read or written.
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
