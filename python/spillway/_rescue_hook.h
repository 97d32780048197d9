// SPDX-License-Identifier: Apache-2.0
// Finds and replaces one entry of a C++ class's table of virtual functions. Through it torch's
// allocator tells us the size of each request. Only for classes of the Itanium ABI on x86-64;
// elsewhere there is no such entry, and callers do without.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <c10/core/Allocator.h>

namespace spillway_rescue {

using Allocate = c10::DataPtr (*)(c10::Allocator* self, std::size_t bytes);

// The entry of `allocate` in the allocator's table of virtual functions. Null if its place is
// unknown with this C++ ABI.
inline void** EntryOfAllocate(c10::Allocator* allocator) {
#if defined(__x86_64__) && defined(__GNUC__)
  c10::DataPtr (c10::Allocator::*function)(std::size_t) = &c10::Allocator::allocate;
  struct {
    std::uintptr_t offset_and_one;
    std::ptrdiff_t adjust;
  } raw;
  static_assert(sizeof raw == sizeof function);
  std::memcpy(&raw, &function, sizeof raw);
  if (raw.offset_and_one % 2 == 0 || raw.adjust != 0) return nullptr;
  char* table = *reinterpret_cast<char**>(allocator);
  return reinterpret_cast<void**>(table + raw.offset_and_one - 1);
#else
  (void)allocator;
  return nullptr;
#endif
}

// The protection of the page at an address. -1: it cannot be found out.
inline int ProtectionOf(std::uintptr_t address) {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return -1;
  int found = -1;
  char line[512];
  while (found < 0 && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0;
    unsigned long to = 0;
    char may[5] = "";
    if (std::sscanf(line, "%lx-%lx %4s", &from, &to, may) != 3) continue;
    if (address < from || address >= to) continue;
    found = (may[0] == 'r' ? PROT_READ : 0) | (may[1] == 'w' ? PROT_WRITE : 0) |
            (may[2] == 'x' ? PROT_EXEC : 0);
  }
  std::fclose(maps);
  return found;
}

// Replaces `allocate` of that object's class by `ours`; *was is the function before.
inline bool HookAllocate(c10::Allocator* allocator, Allocate ours, Allocate* was) {
  void** entry = EntryOfAllocate(allocator);
  if (entry == nullptr) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(entry);
  void* start = reinterpret_cast<void*>(address / page * page);
  const std::size_t length = address + sizeof(void*) - address / page * page;
  const int before = ProtectionOf(address);
  if (before < 0 || mprotect(start, length, before | PROT_WRITE) != 0) return false;
  std::memcpy(was, entry, sizeof *was);
  std::atomic_ref<void*>(*entry).store(reinterpret_cast<void*>(ours), std::memory_order_release);
  mprotect(start, length, before);
  return true;
}

}  // namespace spillway_rescue
