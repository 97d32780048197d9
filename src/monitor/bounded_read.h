// Work that may never return, waited for a bounded time: on a thread of its
// own, which is left behind when it is late.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

// What `work` returns; empty: it has not returned within `within`, or no thread
// could be had. Whatever `work` refers to must live as long as it may run.
template <typename Work>
auto RunBounded(Duration within, Work work) -> std::optional<decltype(work())> {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<decltype(work())> value;
  };
  const auto shared = std::make_shared<Shared>();
  try {
    std::thread([shared, work = std::move(work)]() mutable {
      auto value = work();
      const std::lock_guard lock(shared->mutex);
      shared->value.emplace(std::move(value));
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  std::unique_lock lock(shared->mutex);
  // Real world: only time tells that a call does not return.
  shared->changed.wait_for(lock, within, [&] { return shared->value.has_value(); });
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
