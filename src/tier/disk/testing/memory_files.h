// SPDX-License-Identifier: Apache-2.0
// Files in memory that can lose power. Unsynced data is kept, lost or torn,
// page by page, as the seed decides. Names behave alike: names created, changed
// or removed since the directory was synced are kept up to some point.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tier/disk/files.h"

namespace spillway::testing {

class MemoryFiles final : public Files {
 public:
  // Contains one directory to put stores into, "/disk".
  explicit MemoryFiles(Bytes space = 1024 * kMiB);

  // The power fails. Open files can no longer be used (EBADF).
  void Crash(std::uint64_t seed);

  void SetSpace(Bytes total);
  std::size_t open_files() const;
  // Reads or changes a file's bytes directly, without counting calls.
  std::vector<std::byte> Content(const std::string& path) const;
  void SetContent(const std::string& path, const std::vector<std::byte>& content);
  void FlipBit(const std::string& path, Bytes at, int bit);
  void SetOwner(const std::string& path, std::uint32_t owner);
  void SetPermissions(const std::string& path, std::uint32_t permissions);
  std::vector<std::string> Names() const;

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
  void Random(void* data, Bytes bytes) override;

 private:
  using Page = std::array<std::byte, 4096>;
  struct Node {
    FileFacts facts;                              // What readers see.
    std::map<Bytes, Page> pages;                  // The same; a missing page is zero.
    Bytes synced_bytes = 0;                       // On stable storage,
    std::map<Bytes, std::optional<Page>> before;  // with pages changed since.
    int locked_by = -1;
  };
  using NodePtr = std::shared_ptr<Node>;
  struct NameChange {  // A null node: removed.
    std::string path;
    NodePtr node;
  };

  NodePtr NodeOf(int file) const SPILLWAY_REQUIRES(mutex_);
  NodePtr Find(const std::string& path) const SPILLWAY_REQUIRES(mutex_);
  void Change(std::vector<NameChange> changes) SPILLWAY_REQUIRES(mutex_);
  void Touch(Node* node, Bytes page) SPILLWAY_REQUIRES(mutex_);
  Bytes UsedBytes() const SPILLWAY_REQUIRES(mutex_);
  void CrashNode(Node* node, std::uint64_t* random) SPILLWAY_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Bytes space_ SPILLWAY_GUARDED_BY(mutex_);
  std::map<std::string, NodePtr> names_ SPILLWAY_GUARDED_BY(mutex_);
  std::map<std::string, NodePtr> synced_names_ SPILLWAY_GUARDED_BY(mutex_);
  // Since the directory was synced.
  std::vector<std::vector<NameChange>> changes_ SPILLWAY_GUARDED_BY(mutex_);
  std::map<int, NodePtr> open_ SPILLWAY_GUARDED_BY(mutex_);
  int next_file_ SPILLWAY_GUARDED_BY(mutex_) = 3;
  std::uint64_t next_number_ SPILLWAY_GUARDED_BY(mutex_) = 1;
  std::uint64_t random_ SPILLWAY_GUARDED_BY(mutex_) = 42;
};

}  // namespace spillway::testing
