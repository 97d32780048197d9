// SPDX-License-Identifier: Apache-2.0
// Calls that may never return, with a bounded wait: each runs on a thread of
// its own, which is abandoned if it is late.
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "base/mutex.h"
#include "base/quiet_thread.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

// Returns the result of `work`. Empty: it did not return within `within`, or
// there was no thread or no memory. Everything that `work` refers to must live
// as long as `work` may run.
template <typename Work>
auto RunBounded(Duration within, Work work) -> std::optional<decltype(work())> {
  struct Shared {
    Mutex mutex;
    CondVar changed;
    std::optional<decltype(work())> value SPILLWAY_GUARDED_BY(mutex);
    bool ended SPILLWAY_GUARDED_BY(mutex) = false;
  };
  const auto shared = std::make_shared<Shared>();
  try {
    QuietThread([shared, work = std::move(work)]() mutable {
      std::optional<decltype(work())> value;
      try {
        value.emplace(work());
      } catch (const std::bad_alloc&) {
        value.reset();
      }
      const MutexLock lock(shared->mutex);
      shared->value = std::move(value);
      shared->ended = true;
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  const MutexLock lock(shared->mutex);
  // Real world: only time tells that a call does not return.
  shared->changed.wait_for(shared->mutex, within,
                           [&]() SPILLWAY_REQUIRES(shared->mutex) { return shared->ended; });
  return std::move(shared->value);
}

// One source, read on demand. While a late call has not returned, no other is
// made: Read returns Deadline at once.
class BoundedReader {
 public:
  explicit BoundedReader(std::shared_ptr<PressureSource> source);
  // Any thread.
  Result<Reading> Read(Duration within);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace spillway
