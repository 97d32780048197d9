// Work that may never return, waited for a bounded time: on a thread of its
// own, which is left behind when it is late.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "base/quiet_thread.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

// What `work` returns; empty: it has not returned within `within`, or no thread
// or no memory could be had. Whatever `work` refers to must live as long as it may run.
template <typename Work>
auto RunBounded(Duration within, Work work) -> std::optional<decltype(work())> {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<decltype(work())> value;
    bool ended = false;
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
      const std::lock_guard lock(shared->mutex);
      shared->value = std::move(value);
      shared->ended = true;
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  std::unique_lock lock(shared->mutex);
  // Real world: only time tells that a call does not return.
  shared->changed.wait_for(lock, within, [&] { return shared->ended; });
  return std::move(shared->value);
}

// One source, read by hand now and then. While a call is out that was too late,
// there is no other: it answers Deadline at once.
class BoundedReader {
 public:
  explicit BoundedReader(std::shared_ptr<PressureSource> source);
  // From any thread.
  Result<Reading> Read(Duration within);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace spillway
