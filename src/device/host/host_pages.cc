// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_pages.h"

#include <sys/mman.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "base/parse.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14.
#endif

namespace spillway {
namespace {

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// The pool's thread needs an answer, too, even without memory for the message.
Error NoMemory(std::string_view what, Bytes bytes, int number) {
  try {
    return Error{Code::kNoMemory, fmt::format("the system refused {} of {}: {}", FormatBytes(bytes),
                                              what, std::strerror(number))};
  } catch (const std::bad_alloc&) {
    return Error{Code::kNoMemory, "no memory"};
  }
}

// Only advice: without huge pages the memory is slower but works.
void AdviseHuge(std::byte* at, Bytes bytes) { (void)::madvise(at, bytes, MADV_HUGEPAGE); }

}  // namespace

Result<std::byte*> ReservePages(Bytes bytes, Bytes align, bool huge) {
  // With this much more the range always contains an aligned one; the edges are
  // unmapped at once.
  const Bytes padded = bytes + align;
  void* got = ::mmap(nullptr, padded, PROT_NONE, kPrivate, -1, 0);
  if (got == MAP_FAILED) return NoMemory("address space", padded, errno);
  auto* start = static_cast<std::byte*>(got);
  const Bytes skip = (0 - reinterpret_cast<std::uintptr_t>(start)) & (align - 1);
  std::byte* const base = start + skip;
  if (skip > 0) ReleasePages(start, skip);
  ReleasePages(base + bytes, align - skip);
  if (huge) AdviseHuge(base, bytes);
  return base;
}

void ReleasePages(std::byte* at, Bytes bytes) {
  const int result = ::munmap(at, bytes);
  assert(result == 0);
  (void)result;
}

Status OpenPages(std::byte* at, Bytes bytes) {
  if (::mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0) return {};
  return NoMemory("memory", bytes, errno);
}

Status PopulatePages(std::byte* at, Bytes bytes) {
  if (::madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return {};
  if (errno != EINVAL) return NoMemory("memory", bytes, errno);
  TouchPages(at, bytes);
  return {};
}

void TouchPages(std::byte* at, Bytes bytes) {
  for (Bytes i = 0; i < bytes; i += kHostPage) {
    // Writes 0 over 0 and leaves any other value alone. (Adding 0 would work as
    // well, but compilers know that it needs no write.)
    std::byte zero{0};
    std::atomic_ref<std::byte>(at[i]).compare_exchange_strong(zero, std::byte{0});
  }
}

void ReturnPages(std::byte* at, Bytes bytes, bool huge) {
  // madvise returns the pages and leaves the mapping as it is; it fails only
  // for locked memory, which needs a new mapping. The mprotect may need one
  // mapping more than the system allows. If it fails the pages stay untouched
  // zeros, which take no memory.
  if (::madvise(at, bytes, MADV_DONTNEED) == 0) {
    (void)::mprotect(at, bytes, PROT_NONE);
    return;
  }
  void* got = ::mmap(at, bytes, PROT_NONE, kPrivate | MAP_FIXED, -1, 0);
  assert(got == at);
  (void)got;
  if (huge) AdviseHuge(at, bytes);
}

}  // namespace spillway
