// SPDX-License-Identifier: Apache-2.0
#include "fakes/gpu/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace fakes {

namespace {

std::byte* MapHost(std::size_t bytes, int access) {
  void* at = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

std::byte* Pointer(Address at) { return reinterpret_cast<std::byte*>(at); }
Address AddressOf(const void* at) { return reinterpret_cast<Address>(at); }

}  // namespace

class Memory::Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes), at_(MapHost(bytes, PROT_READ | PROT_WRITE)) {}
  // In a file, whose name says which process holds it.
  Pages(std::size_t bytes, const std::string& folder, bool stale)
      : bytes_(bytes), folder_(folder), at_(MapFile(stale)) {}
  ~Pages() {
    if (at_ != nullptr) munmap(at_, bytes_);
    if (!file_.empty()) std::rename(file_.c_str(), Named("free").c_str());
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* at() const { return at_; }

 private:
  std::string Named(const char* whose) const {
    static std::uint64_t last = 0;  // Guarded by the Gpu's mutex.
    return Text(folder_, "/", whose, "-", bytes_, "-", getpid(), "-", ++last);
  }
  // Takes a file that was released, or whose process has died.
  bool TakeLeft(const std::string& as) const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
      const std::string name = entry.path().filename();
      char whose[8] = {};
      std::size_t bytes = 0;
      int pid = 0;
      if (std::sscanf(name.c_str(), "%7[a-z]-%zu-%d-", whose, &bytes, &pid) != 3) continue;
      if (bytes != bytes_) continue;
      if (std::strcmp(whose, "free") != 0 && kill(pid, 0) == 0) continue;
      if (std::rename(entry.path().c_str(), as.c_str()) == 0) return true;
    }
    return false;
  }
  std::byte* MapFile(bool stale) {
    file_ = Named("used");
    const bool left = stale && TakeLeft(file_);
    const int fd = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return nullptr;
    void* at = MAP_FAILED;
    if (left || ftruncate(fd, static_cast<off_t>(bytes_)) == 0) {
      at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }

  const std::size_t bytes_;
  const std::string folder_;
  std::string file_;
  std::byte* const at_;
};

Memory::Memory(const Options& options, Complaints* complaints)
    : options_(options),
      complaints_(complaints),
      together_(options.together.empty() ? nullptr : std::make_unique<Together>(options.together)) {
  foreign_.fill(options.foreign);
}

Memory::~Memory() {
  for (const auto& [at, range] : ranges_) munmap(Pointer(at), range.bytes);
  for (const auto& [at, range] : host_) std::free(range.allocated);
}

// Ranges

Address Memory::TakeAddresses(std::size_t bytes, std::size_t align) {
  std::byte* const all = MapHost(bytes + align, PROT_NONE);
  if (all == nullptr) return 0;
  const Address from = AddressOf(all);
  const Address at = (from + align - 1) / align * align;
  if (at > from) munmap(all, at - from);
  if (from + align > at) munmap(Pointer(at + bytes), from + align - at);
  return at;
}

int Memory::Reserve(Address* at, std::size_t bytes, std::size_t align) {
  if (!IsWhole(bytes)) return Wrong(kInvalidValue, "reserving ", bytes, " bytes: no whole pages");
  if (align != 0 && !std::has_single_bit(align)) {
    return Wrong(kInvalidValue, "reserving at a multiple of ", align, ": no power of two");
  }
  *at = TakeAddresses(bytes, std::max<std::size_t>(align, options_.granularity));
  if (*at == 0) return kOutOfMemory;
  ranges_[*at] = {bytes, false};
  return 0;
}

int Memory::FreeRange(Address at, std::size_t bytes) {
  const auto range = ranges_.find(at);
  if (range == ranges_.end() || range->second.alloc || range->second.bytes != bytes) {
    return Wrong(kInvalidValue, "freeing addresses ", Hex{at}, " + ", bytes, ": not reserved so");
  }
  if (AnyMapped(at, bytes)) {
    return Wrong(kInvalidValue, "freeing addresses ", Hex{at}, ": memory is mapped there");
  }
  munmap(Pointer(at), bytes);
  ranges_.erase(range);
  if (const auto kept = kept_.extract(at); !kept.empty()) {
    for (std::size_t card = 0; card < kCardsMax; ++card) Count(card, 0, kept.mapped()[card]);
  }
  return 0;
}

std::map<Address, Memory::Range>::const_iterator Memory::RangeOf(Address at) const {
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return ranges_.end();
  --range;
  return at - range->first < range->second.bytes ? range : ranges_.end();
}

bool Memory::IsDevice(Address at) const { return RangeOf(at) != ranges_.end(); }

// Physical memory

std::shared_ptr<Memory::Pages> Memory::TakePages(std::size_t bytes) {
  if (!options_.backing.empty()) {
    auto pages = std::make_shared<Pages>(bytes, options_.backing, options_.stale);
    return pages->at() == nullptr ? nullptr : pages;
  }
  if (options_.stale) {
    std::vector<std::shared_ptr<Pages>>& left = left_[bytes];
    // Pages that a copy still uses must not be handed out.
    if (!left.empty() && left.back().use_count() == 1) {
      std::shared_ptr<Pages> pages = std::move(left.back());
      left.pop_back();
      return pages;
    }
  }
  auto pages = std::make_shared<Pages>(bytes);
  if (pages->at() == nullptr) return nullptr;
  if (options_.stale) std::memset(pages->at(), 0xDB, bytes);  // Left by another program.
  return pages;
}

int Memory::Create(std::uint64_t* handle, std::size_t bytes, int card) {
  if (!IsWhole(bytes)) return Wrong(kInvalidValue, "creating ", bytes, " bytes: no whole pages");
  if (card < 0 || card >= options_.cards) {
    return Wrong(kInvalidDevice, "creating memory on card ", card, ", which is not there");
  }
  if (bytes > free_bytes(card)) return kOutOfMemory;
  std::shared_ptr<Pages> pages = TakePages(bytes);
  if (pages == nullptr) return kOutOfMemory;
  *handle = ++last_handle_;
  physical_[*handle] = {.card = card, .pages = std::move(pages), .bytes = bytes};
  Count(static_cast<std::size_t>(card), bytes, 0);
  return 0;
}

int Memory::Release(std::uint64_t handle, bool must_be_unmapped) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.released) {
    return Wrong(kInvalidValue, "releasing handle ", Hex{handle}, ", which is not held");
  }
  if (must_be_unmapped && found->second.mappings != 0) {
    complaints_->Add("releasing handle ", Hex{handle}, " while mapped: HIP loses count");
  }
  found->second.released = true;
  Settle(handle);
  return 0;
}

void Memory::Settle(std::uint64_t handle) {
  const auto found = physical_.find(handle);
  Physical& physical = found->second;
  if (!physical.released || physical.mappings != 0) return;
  const auto card = static_cast<std::size_t>(physical.card);
  if (!StaysTaken(physical)) {
    Count(card, 0, physical.bytes);
  } else if (options_.vmm == Options::Vmm::kKeeps) {
    kept_[physical.range][card] += physical.bytes;
  }
  if (options_.stale && options_.backing.empty())
    left_[physical.bytes].push_back(std::move(physical.pages));
  physical_.erase(found);
}

bool Memory::StaysTaken(const Physical& physical) const {
  if (physical.allocated) return false;
  if (options_.vmm == Options::Vmm::kLeaks) return true;
  return options_.vmm == Options::Vmm::kKeeps && physical.range != 0;
}

void Memory::Count(std::size_t card, std::uint64_t taken, std::uint64_t returned) {
  used_[card] += taken - returned;
  if (together_ != nullptr) together_->Have(card, used_[card]);
}

std::uint64_t Memory::free_bytes(int card) const {
  const auto index = static_cast<std::size_t>(card);
  const std::uint64_t others = together_ == nullptr ? 0 : together_->Others(index);
  const std::uint64_t taken = used_[index] + foreign_[index] + others;
  return taken >= options_.total ? 0 : options_.total - taken;
}

void Memory::SetForeign(int card, std::uint64_t bytes) {
  foreign_[static_cast<std::size_t>(card)] = bytes;
}

// Mappings

std::map<Address, Memory::Mapping>::const_iterator Memory::MappingOf(Address at) const {
  auto mapping = mappings_.upper_bound(at);
  if (mapping == mappings_.begin()) return mappings_.end();
  --mapping;
  return at - mapping->first < mapping->second.bytes ? mapping : mappings_.end();
}

bool Memory::AnyMapped(Address at, std::size_t bytes) const {
  if (MappingOf(at) != mappings_.end()) return true;
  const auto next = mappings_.lower_bound(at);
  return next != mappings_.end() && next->first < at + bytes;
}

std::vector<Address> Memory::Whole(Address at, std::size_t bytes) const {
  std::vector<Address> parts;
  const Address end = at + bytes;
  while (at < end) {
    const auto mapping = mappings_.find(at);
    if (mapping == mappings_.end()) return {};
    parts.push_back(at);
    at += mapping->second.bytes;
  }
  if (at != end) parts.clear();
  return parts;
}

int Memory::Map(Address at, std::size_t bytes, std::size_t offset, std::uint64_t handle) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.released) {
    return Wrong(kInvalidValue, "mapping handle ", Hex{handle}, ", which is not held");
  }
  if (offset != 0 || bytes != found->second.bytes || at % options_.granularity != 0) {
    return Wrong(kInvalidValue, "mapping ", bytes, " bytes from ", offset, " of ",
                 found->second.bytes, " at ", Hex{at}, ": only whole handles, at whole pages");
  }
  const auto range = RangeOf(at);
  if (range == ranges_.end() || range->second.alloc ||
      at + bytes > range->first + range->second.bytes) {
    return Wrong(kInvalidValue, "mapping at ", Hex{at}, ": not reserved");
  }
  if (AnyMapped(at, bytes)) {
    return Wrong(kInvalidValue, "mapping at ", Hex{at}, ": something is mapped there");
  }
  if (options_.vmm == Options::Vmm::kForgets && found->second.range != 0) {
    std::memset(found->second.pages->at(), 0x77, bytes);
  }
  mappings_[at] = {bytes, handle, {}};
  ++found->second.mappings;
  found->second.range = range->first;
  return 0;
}

void Memory::Unmapped(std::map<Address, Mapping>::const_iterator mapping) {
  const std::uint64_t handle = mapping->second.handle;
  mappings_.erase(mapping);
  --physical_.at(handle).mappings;
  Settle(handle);
}

int Memory::Unmap(Address at, std::size_t bytes, bool one_by_one) {
  const std::vector<Address> parts = Whole(at, bytes);
  const auto range = RangeOf(at);
  if (parts.empty() || range == ranges_.end() || range->second.alloc) {
    return Wrong(kInvalidValue, "unmapping ", Hex{at}, " + ", bytes, ": not whole mappings");
  }
  if (one_by_one && parts.size() > 1) {
    complaints_->Add("unmapping ", parts.size(), " handles at once: HIP can't free the range then");
  }
  for (const Address part : parts) Unmapped(mappings_.find(part));
  return 0;
}

int Memory::SetAccess(Address at, std::size_t bytes, int card, int flags) {
  const std::vector<Address> parts = Whole(at, bytes);
  if (parts.empty()) {
    return Wrong(kInvalidValue, "access to ", Hex{at}, " + ", bytes, ": not whole mappings");
  }
  if (card < 0 || card >= options_.cards || (flags != 0 && flags != 1 && flags != 3)) {
    return Wrong(kInvalidValue, "access ", flags, " for card ", card);
  }
  if (options_.vmm == Options::Vmm::kRefuses) return kInvalidValue;
  for (const Address part : parts) mappings_[part].access[static_cast<std::size_t>(card)] = flags;
  return 0;
}

std::optional<std::vector<Span>> Memory::Resolve(Address at, std::size_t bytes, int card,
                                                 bool write) const {
  std::vector<Span> spans;
  while (bytes > 0) {
    const auto mapping = MappingOf(at);
    if (mapping == mappings_.end()) return std::nullopt;
    const int needed = write ? 2 : 1;
    if (card >= 0 && (mapping->second.access[static_cast<std::size_t>(card)] & needed) == 0) {
      return std::nullopt;
    }
    const std::size_t offset = at - mapping->first;
    const std::size_t here = std::min(bytes, mapping->second.bytes - offset);
    const std::shared_ptr<Pages>& pages = physical_.at(mapping->second.handle).pages;
    spans.push_back({pages->at() + offset, here, pages});
    at += here;
    bytes -= here;
  }
  return spans;
}

// Memory that is range, mapping and handle in one

int Memory::Alloc(Address* at, std::size_t bytes, int card) {
  if (bytes == 0) return Wrong(kInvalidValue, "allocating nothing");
  const std::size_t whole =
      (bytes + options_.granularity - 1) / options_.granularity * options_.granularity;
  std::uint64_t handle = 0;
  if (const int code = Create(&handle, whole, card)) return code;
  *at = TakeAddresses(whole, options_.granularity);
  if (*at == 0) {
    Release(handle, false);
    return kOutOfMemory;
  }
  ranges_[*at] = {whole, true};
  mappings_[*at] = {bytes, handle, {}};  // Not a byte more than was asked for.
  mappings_[*at].access[static_cast<std::size_t>(card)] = 3;
  ++physical_[handle].mappings;
  physical_[handle].allocated = true;
  return Release(handle, false);
}

std::optional<Address> Memory::AllocEnd(Address at) const {
  const auto range = ranges_.find(at);
  if (range == ranges_.end() || !range->second.alloc) return std::nullopt;
  return at + range->second.bytes;
}

int Memory::Free(Address at) {
  const std::optional<Address> end = AllocEnd(at);
  if (!end) return Wrong(kInvalidValue, "freeing ", Hex{at}, ": not allocated");
  Unmapped(mappings_.find(at));
  munmap(Pointer(at), *end - at);
  ranges_.erase(at);
  return 0;
}

// The host's memory

int Memory::HostAlloc(void** at, std::size_t bytes) {
  if (bytes == 0) return Wrong(kInvalidValue, "allocating nothing of the host");
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  void* memory = std::aligned_alloc(4096, whole);
  if (memory == nullptr) return kOutOfMemory;
  std::memset(memory, 0xCD, whole);
  host_[AddressOf(memory)] = {bytes, static_cast<std::byte*>(memory)};
  *at = memory;
  return 0;
}

std::optional<Address> Memory::HostEnd(const void* at) const {
  const auto found = host_.find(AddressOf(at));
  if (found == host_.end()) return std::nullopt;
  return found->first + found->second.bytes;
}

int Memory::HostFree(const void* at) {
  const auto found = host_.find(AddressOf(at));
  if (found == host_.end() || found->second.allocated == nullptr) {
    return Wrong(kInvalidValue, "freeing host memory ", Hex{AddressOf(at)}, ": not allocated");
  }
  std::free(found->second.allocated);
  host_.erase(found);
  return 0;
}

bool Memory::AnyHost(Address at, std::size_t bytes) const {
  const auto next = host_.lower_bound(at);
  if (next != host_.end() && next->first < at + bytes) return true;
  if (next == host_.begin()) return false;
  const auto before = std::prev(next);
  return at - before->first < before->second.bytes;
}

int Memory::Register(const void* at, std::size_t bytes) {
  const Address from = AddressOf(at);
  if (from == 0 || bytes == 0 || IsDevice(from)) {
    return Wrong(kInvalidValue, "registering ", Hex{from}, " + ", bytes);
  }
  if (AnyHost(from, bytes)) {
    return Wrong(kAlreadyRegistered, "registering ", Hex{from}, " + ", bytes, ": known already");
  }
  host_[from] = {bytes, nullptr};
  return 0;
}

int Memory::Unregister(const void* at) {
  const auto found = host_.find(AddressOf(at));
  if (found == host_.end() || found->second.allocated != nullptr) {
    return Wrong(kNotRegistered, "unregistering ", Hex{AddressOf(at)}, ": not registered");
  }
  host_.erase(found);
  return 0;
}

Memory::Host Memory::HostKind(Address at, std::size_t bytes) const {
  if (!AnyHost(at, bytes)) return Host::kPageable;
  auto found = host_.upper_bound(at);
  if (found == host_.begin()) return Host::kTorn;
  --found;
  return at + bytes <= found->first + found->second.bytes ? Host::kPinned : Host::kTorn;
}

std::string Memory::Ledger() const {
  std::string all;
  for (const auto& [handle, physical] : physical_) {
    if (!physical.released) all += Text("handle ", Hex{handle}, " of ", physical.bytes, " bytes\n");
  }
  for (const auto& [at, mapping] : mappings_) {
    if (!AllocEnd(at)) all += Text("mapping at ", Hex{at}, " of ", mapping.bytes, " bytes\n");
  }
  for (const auto& [at, range] : ranges_) {
    all += Text(range.alloc ? "device memory at " : "reservation at ", Hex{at}, " of ", range.bytes,
                " bytes\n");
  }
  for (const auto& [at, range] : host_) {
    all += Text(range.allocated != nullptr ? "host memory at " : "registration of ", Hex{at},
                " of ", range.bytes, " bytes\n");
  }
  return all;
}

}  // namespace fakes
