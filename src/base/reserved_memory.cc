#include "base/reserved_memory.h"

#include <sys/mman.h>

#include <cstdint>

namespace spillway {

namespace {

// A table read at random misses the translation cache as often as the data
// cache, unless it lies on large pages. But a small one should not take a whole
// large page: so it begins a little before the border of one, and only what is
// longer than that reaches it.
constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
constexpr std::uintptr_t kSmallPart = std::uintptr_t{128} << 10;

std::uintptr_t RoundUp(std::uintptr_t address) {
  return (address + kLargePage - 1) / kLargePage * kLargePage;
}

void Unmap(std::uintptr_t from, std::uintptr_t to) {
  if (from < to) munmap(reinterpret_cast<void*>(from), to - from);
}

}  // namespace

void* ReserveZeroed(std::size_t bytes) {
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
  // A kernel that gives none is as good, only slower.
  if (border < end) madvise(reinterpret_cast<void*>(border), end - border, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(base);
}

void UnreserveZeroed(void* base, std::size_t bytes) {
  if (base == nullptr) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  Unmap(begin, RoundUp(begin + bytes));
}

}  // namespace spillway
