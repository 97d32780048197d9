// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/testing/memory_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway::testing {
namespace {

constexpr Bytes kPage = 4096;
constexpr Bytes kSector = 512;  // Disks write these whole.

std::uint64_t Next(std::uint64_t* state) {  // SplitMix64
  std::uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

MemoryFiles::MemoryFiles(Bytes space) : space_(space) {
  MakeDirectory("/disk");
  SyncDirectory("/");
}

MemoryFiles::NodePtr MemoryFiles::NodeOf(int file) const {
  const auto found = open_.find(file);
  return found == open_.end() ? nullptr : found->second;
}

MemoryFiles::NodePtr MemoryFiles::Find(const std::string& path) const {
  const auto found = names_.find(path);
  return found == names_.end() ? nullptr : found->second;
}

void MemoryFiles::Change(std::vector<NameChange> changes) {
  for (const NameChange& change : changes) {
    if (change.node) {
      names_[change.path] = change.node;
    } else {
      names_.erase(change.path);
    }
  }
  changes_.push_back(std::move(changes));
}

// Remembers what stable storage has of a page before the page changes.
void MemoryFiles::Touch(Node* node, Bytes page) {
  if (node->before.contains(page)) return;
  const auto found = node->pages.find(page);
  node->before[page] = found == node->pages.end() ? std::nullopt : std::optional(found->second);
}

Bytes MemoryFiles::UsedBytes() const {
  Bytes pages = 0;
  for (const auto& [path, node] : names_) pages += node->pages.size();
  return pages * kPage;
}

void MemoryFiles::CrashNode(Node* node, std::uint64_t* random) {
  for (auto& [at, before] : node->before) {
    const std::uint64_t fate = Next(random) % 3;
    if (fate == 0) continue;  // Kept.
    Page& page = node->pages.try_emplace(at).first->second;
    const Page old = before.value_or(Page{});
    for (Bytes sector = 0; sector < kPage; sector += kSector) {
      const std::uint64_t part = Next(random) % 8;
      if (fate == 1 || part < 4) {
        std::memcpy(page.data() + sector, old.data() + sector, kSector);
      } else if (part == 7 &&
                 std::memcmp(page.data() + sector, old.data() + sector, kSector) != 0) {
        // The disk was writing this sector.
        std::memset(page.data() + sector, static_cast<int>(Next(random) & 0xff), kSector);
      }
    }
  }
  if (node->facts.bytes != node->synced_bytes && Next(random) % 2 == 0) {
    node->facts.bytes = node->synced_bytes;
    node->pages.erase(node->pages.lower_bound((node->facts.bytes + kPage - 1) / kPage),
                      node->pages.end());
  }
  node->before.clear();
  node->synced_bytes = node->facts.bytes;
  node->locked_by = -1;
}

void MemoryFiles::Crash(std::uint64_t seed) {
  const MutexLock lock(mutex_);
  std::uint64_t random = seed;
  const std::size_t kept = changes_.empty() ? 0 : Next(&random) % (changes_.size() + 1);
  for (std::size_t i = 0; i < kept; ++i) {
    for (const NameChange& change : changes_[i]) {
      if (change.node) {
        synced_names_[change.path] = change.node;
      } else {
        synced_names_.erase(change.path);
      }
    }
  }
  changes_.clear();
  names_ = synced_names_;
  open_.clear();
  for (const auto& [path, node] : names_) CrashNode(node.get(), &random);
}

void MemoryFiles::SetSpace(Bytes total) {
  const MutexLock lock(mutex_);
  space_ = total;
}

std::size_t MemoryFiles::open_files() const {
  const MutexLock lock(mutex_);
  return open_.size();
}

std::vector<std::byte> MemoryFiles::Content(const std::string& path) const {
  const MutexLock lock(mutex_);
  const NodePtr node = Find(path);
  if (!node) return {};
  std::vector<std::byte> content((node->facts.bytes + kPage - 1) / kPage * kPage);
  for (const auto& [at, page] : node->pages) {
    if (at * kPage < content.size()) std::memcpy(content.data() + at * kPage, page.data(), kPage);
  }
  content.resize(node->facts.bytes);
  return content;
}

void MemoryFiles::SetContent(const std::string& path, const std::vector<std::byte>& content) {
  const MutexLock lock(mutex_);
  const NodePtr node = Find(path);
  node->pages.clear();
  node->before.clear();
  for (Bytes at = 0; at < content.size(); at += kPage) {
    Page page{};
    std::memcpy(page.data(), content.data() + at, std::min(kPage, content.size() - at));
    node->pages[at / kPage] = page;
  }
  node->facts.bytes = node->synced_bytes = content.size();
}

void MemoryFiles::FlipBit(const std::string& path, Bytes at, int bit) {
  const MutexLock lock(mutex_);
  Page& page = Find(path)->pages.try_emplace(at / kPage).first->second;
  page[at % kPage] ^= static_cast<std::byte>(1 << bit);
}

void MemoryFiles::SetOwner(const std::string& path, std::uint32_t owner) {
  const MutexLock lock(mutex_);
  Find(path)->facts.owner = owner;
}

void MemoryFiles::SetPermissions(const std::string& path, std::uint32_t permissions) {
  const MutexLock lock(mutex_);
  Find(path)->facts.permissions = permissions;
}

std::vector<std::string> MemoryFiles::Names() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [path, node] : names_) names.push_back(path);
  return names;
}

int MemoryFiles::Stat(const std::string& path, FileFacts* facts) {
  const MutexLock lock(mutex_);
  const NodePtr node = Find(path);
  if (!node) return -ENOENT;
  *facts = node->facts;
  return 0;
}

int MemoryFiles::MakeDirectory(const std::string& path) {
  const MutexLock lock(mutex_);
  if (Find(path)) return -EEXIST;
  auto node = std::make_shared<Node>();
  node->facts = {true, ::geteuid(), 0700, 0, next_number_++};
  Change({{path, node}});
  return 0;
}

int MemoryFiles::List(const std::string& path, std::vector<std::string>* names) {
  const MutexLock lock(mutex_);
  if (!Find(path)) return -ENOENT;
  const std::string prefix = path + "/";
  for (const auto& [name, node] : names_) {
    if (name.starts_with(prefix)) names->push_back(name.substr(prefix.size()));
  }
  return 0;
}

int MemoryFiles::FreeSpace(const std::string& path, SpaceFacts* space) {
  const MutexLock lock(mutex_);
  if (!Find(path)) return -ENOENT;
  space->total = space_;
  space->available = space_ - std::min(space_, UsedBytes());
  return 0;
}

int MemoryFiles::Rename(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  const NodePtr node = Find(from);
  if (!node) return -ENOENT;
  Change({{to, node}, {from, nullptr}});
  return 0;
}

int MemoryFiles::Remove(const std::string& path) {
  const MutexLock lock(mutex_);
  if (!Find(path)) return -ENOENT;
  Change({{path, nullptr}});
  return 0;
}

int MemoryFiles::SyncDirectory(const std::string&) {
  const MutexLock lock(mutex_);
  synced_names_ = names_;
  changes_.clear();
  return 0;
}

int MemoryFiles::Open(const std::string& path, OpenHow how, bool* direct) {
  const MutexLock lock(mutex_);
  if (direct != nullptr) *direct = how.direct;
  NodePtr node = Find(path);
  if (!node) {
    if (!how.create || !Find(path.substr(0, path.rfind('/')))) return -ENOENT;
    node = std::make_shared<Node>();
    node->facts = {false, ::geteuid(), 0600, 0, next_number_++};
    Change({{path, node}});
  }
  open_[next_file_] = node;
  return next_file_++;
}

void MemoryFiles::Close(int file) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (node && node->locked_by == file) node->locked_by = -1;
  open_.erase(file);
}

int MemoryFiles::Lock(int file) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  if (node->locked_by >= 0 && node->locked_by != file) return -EWOULDBLOCK;
  node->locked_by = file;
  return 0;
}

int MemoryFiles::StatFile(int file, FileFacts* facts) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  *facts = node->facts;
  return 0;
}

std::int64_t MemoryFiles::ReadAt(int file, Bytes at, void* data, Bytes bytes) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  if (at >= node->facts.bytes) return 0;
  bytes = std::min(bytes, node->facts.bytes - at);
  auto* to = static_cast<std::byte*>(data);
  for (Bytes done = 0; done < bytes;) {
    const Bytes inside = (at + done) % kPage;
    const Bytes take = std::min(bytes - done, kPage - inside);
    const auto page = node->pages.find((at + done) / kPage);
    if (page == node->pages.end()) {
      std::memset(to + done, 0, take);
    } else {
      std::memcpy(to + done, page->second.data() + inside, take);
    }
    done += take;
  }
  return static_cast<std::int64_t>(bytes);
}

std::int64_t MemoryFiles::WriteAt(int file, Bytes at, const void* data, Bytes bytes) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  const auto* from = static_cast<const std::byte*>(data);
  Bytes room = space_ - std::min(space_, UsedBytes());
  Bytes done = 0;
  while (done < bytes) {
    const Bytes number = (at + done) / kPage;
    const Bytes inside = (at + done) % kPage;
    const Bytes take = std::min(bytes - done, kPage - inside);
    if (!node->pages.contains(number)) {
      if (room < kPage) break;
      room -= kPage;
    }
    Touch(node.get(), number);
    std::memcpy(node->pages.try_emplace(number).first->second.data() + inside, from + done, take);
    done += take;
  }
  node->facts.bytes = std::max(node->facts.bytes, at + done);
  return done == 0 && bytes > 0 ? -ENOSPC : static_cast<std::int64_t>(done);
}

int MemoryFiles::Sync(int file) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  node->before.clear();
  node->synced_bytes = node->facts.bytes;
  return 0;
}

int MemoryFiles::Allocate(int file, Bytes at, Bytes bytes) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  // Written pages are counted as space; here only check that there is enough.
  if (bytes > space_ - std::min(space_, UsedBytes())) return -ENOSPC;
  node->facts.bytes = std::max(node->facts.bytes, at + bytes);
  return 0;
}

int MemoryFiles::Punch(int file, Bytes at, Bytes bytes) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  const auto first = node->pages.lower_bound(at / kPage);
  const auto end = node->pages.lower_bound((at + bytes) / kPage);
  for (auto page = first; page != end; ++page) Touch(node.get(), page->first);
  node->pages.erase(first, end);
  return 0;
}

int MemoryFiles::Truncate(int file, Bytes bytes) {
  const MutexLock lock(mutex_);
  const NodePtr node = NodeOf(file);
  if (!node) return -EBADF;
  const auto first = node->pages.lower_bound((bytes + kPage - 1) / kPage);
  for (auto page = first; page != node->pages.end(); ++page) Touch(node.get(), page->first);
  node->pages.erase(first, node->pages.end());
  const auto last = node->pages.find(bytes / kPage);
  if (last != node->pages.end()) {
    Touch(node.get(), last->first);
    std::memset(last->second.data() + bytes % kPage, 0, kPage - bytes % kPage);
  }
  node->facts.bytes = bytes;
  return 0;
}

void MemoryFiles::Random(void* data, Bytes bytes) {
  const MutexLock lock(mutex_);
  auto* to = static_cast<std::byte*>(data);
  for (Bytes i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(Next(&random_) & 0xff);
}

}  // namespace spillway::testing
