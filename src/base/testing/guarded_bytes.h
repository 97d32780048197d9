// SPDX-License-Identifier: Apache-2.0
// Memory that ends at the border of an inaccessible page: a read one byte too
// far ends the program, in every build and not only with a sanitizer. All of it
// can be made inaccessible, and then any read ends the program.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

namespace spillway::testing {

class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    readable_ = (bytes + page - 1) / page * page;
    mapped_ = readable_ + page;
    void* const at =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<std::byte*>(at);
    Forbid(start_ + readable_, page);
  }
  explicit GuardedBytes(std::span<const std::byte> from) : GuardedBytes(from.size()) {
    if (!from.empty()) std::memcpy(data(), from.data(), from.size());
  }
  ~GuardedBytes() { ::munmap(start_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::byte* data() { return start_ + readable_ - bytes_; }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() { return {data(), bytes_}; }
  void TakeAway() { Forbid(start_, readable_); }

 private:
  static void Forbid(std::byte* at, std::size_t bytes) {
    if (bytes > 0 && ::mprotect(at, bytes, PROT_NONE) != 0) throw std::bad_alloc();
  }

  const std::size_t bytes_;
  std::size_t readable_ = 0;
  std::size_t mapped_ = 0;
  std::byte* start_ = nullptr;
};

}  // namespace spillway::testing
