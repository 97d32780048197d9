// SPDX-License-Identifier: Apache-2.0
#include "base/reserved_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace spillway {

namespace {

// A table with random access misses the TLB as often as the data cache, unless
// it is on large pages. But a small table should not take a whole large page.
// So the memory begins a little before the border of a large page, and only
// longer tables reach it.
constexpr std::uintptr_t kLargePage = kLargePageBytes;
constexpr std::uintptr_t kSmallPart = kSmallPagesBytes;

std::uintptr_t RoundUp(std::uintptr_t address) {
  return (address + kLargePage - 1) / kLargePage * kLargePage;
}

void Unmap(std::uintptr_t from, std::uintptr_t to) {
  if (from < to) munmap(reinterpret_cast<void*>(from), to - from);
}

}  // namespace

void* ReserveZeroed(std::size_t bytes, Pages pages) {
  const std::size_t room = bytes + 2 * kLargePage;
  void* mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t border = RoundUp(begin + kSmallPart);
  const std::uintptr_t base = border - kSmallPart;
  const std::uintptr_t end = RoundUp(base + bytes);
  Unmap(begin, base);
  Unmap(end, begin + room);
  // Without large pages it works, only slower.
  if (pages == Pages::kLargeBeyondFirst && border < end) {
    madvise(reinterpret_cast<void*>(border), end - border, MADV_HUGEPAGE);
  }
  return reinterpret_cast<void*>(base);
}

void UnreserveZeroed(void* base, std::size_t bytes) {
  if (base == nullptr) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  Unmap(begin, RoundUp(begin + bytes));
}

void ForgetZeroed(void* from, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t begin = (at + page - 1) / page * page;
  const std::uintptr_t end = (at + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// Moves the pages and their contents elsewhere in one step of the kernel; the
// old range reads as zero and is never unmapped. A write before that step is
// visible in the moved pages; a write after it goes to the old range.
bool SwapForZeroed(void* from, std::size_t bytes,
                   const std::function<void(const std::byte* was)>& look) {
  constexpr int kKeepMapped = 4;  // MREMAP_DONTUNMAP, since Linux 5.7.
  // At the same offset within a large page, so that large pages move whole.
  const std::size_t room = bytes + kLargePage;
  void* const elsewhere =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (elsewhere == MAP_FAILED) return false;
  const auto base = reinterpret_cast<std::uintptr_t>(elsewhere);
  const std::uintptr_t to = base + (reinterpret_cast<std::uintptr_t>(from) - base) % kLargePage;
  void* const moved = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | kKeepMapped,
                             reinterpret_cast<void*>(to));
  if (moved != MAP_FAILED) look(static_cast<const std::byte*>(moved));
  munmap(elsewhere, room);
  return moved != MAP_FAILED;
}

}  // namespace spillway
