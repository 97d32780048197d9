// SPDX-License-Identifier: Apache-2.0
// Numbers threads in the order of their first call, so that each of the first
// few threads gets a counter of its own.
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
