// SPDX-License-Identifier: Apache-2.0
#include "sweep/failing_new.h"

#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace spillway::sweep {

namespace {
std::atomic<bool> armed{false};
std::atomic<std::uint64_t> count{0};
std::atomic<std::uint64_t> fail_at{0};
std::atomic<bool> fail_for_good{false};
std::atomic<bool> show_first{false};
thread_local int exempt = 0;

bool Refused() {
  if (!armed.load(std::memory_order_relaxed) || exempt > 0) return false;
  const std::uint64_t number = count.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t at = fail_at.load(std::memory_order_relaxed);
  if (number == at && show_first.load(std::memory_order_relaxed)) {
    void* frames[40];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 40), STDERR_FILENO);
  }
  return number == at || (number > at && fail_for_good.load(std::memory_order_relaxed));
}
}  // namespace

void FailNewAt(std::uint64_t number, bool for_good) {
  fail_at = number;
  fail_for_good = for_good;
  count = 0;
  armed = true;
}

void ShowFirstRefused() { show_first = true; }
void HealNew() { armed = false; }
std::uint64_t CountedNews() { return count; }

Exempt::Exempt() { ++exempt; }
Exempt::~Exempt() { --exempt; }
Counted::Counted() : before_(exempt) { exempt = 0; }
Counted::~Counted() { exempt = before_; }

}  // namespace spillway::sweep

namespace {

void* Take(std::size_t bytes, std::size_t align) {
  if (spillway::sweep::Refused()) return nullptr;
  if (bytes == 0) bytes = 1;
  if (align <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(bytes);
  return std::aligned_alloc(align, (bytes + align - 1) / align * align);
}

void* TakeOrThrow(std::size_t bytes, std::size_t align) {
  void* const block = Take(bytes, align);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(std::size_t bytes) { return TakeOrThrow(bytes, 1); }
void* operator new[](std::size_t bytes) { return TakeOrThrow(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return TakeOrThrow(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align) {
  return TakeOrThrow(bytes, static_cast<std::size_t>(align));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return Take(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return Take(bytes, 1); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
