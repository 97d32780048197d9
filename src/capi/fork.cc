// SPDX-License-Identifier: Apache-2.0
// Counts forks. After a fork the cache's threads do not exist in the child, so no call may wait for
// them.
#include <pthread.h>

#include <atomic>

#include "capi/guard.h"
#include "capi/handle.h"

namespace spillway::capi {

namespace {
std::atomic<std::uint64_t> forks{0};
}  // namespace

std::uint64_t ForkCount() { return forks.load(std::memory_order_relaxed); }

void CountForks() {
  // The child has only one thread; nothing but an atomic is safe here.
  static const int kRegistered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)kRegistered;
}

Status CheckHandle(const spillway_cache* cache) {
  if (cache == nullptr) return Bad("cache is NULL");
  if (cache->forks == ForkCount()) return {};
  return Error{Code::kClosed,
               "the cache was opened before a fork, by the parent; open one in this process"};
}

}  // namespace spillway::capi
