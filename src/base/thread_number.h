// Threads, numbered as they first ask: to give each its own of a few counters, or
// lanes, without two of the first few sharing one.
#pragma once

#include <atomic>
#include <cstddef>

namespace spillway {

inline std::size_t ThreadNumber() {
  static std::atomic<std::size_t> threads{0};
  static thread_local const std::size_t kNumber = threads.fetch_add(1, std::memory_order_relaxed);
  return kNumber;
}

}  // namespace spillway
