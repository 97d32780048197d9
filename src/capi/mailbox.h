// SPDX-License-Identifier: Apache-2.0
// Batches in flight and ended batches. A Flight is one submitted batch. When it ends it is put into
// the Mailbox, whose eventfd is readable exactly while flights are in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "spillway/cache.h"
#include "spillway/result.h"
#include "spillway/spillway.h"

namespace spillway::capi {

class Mailbox;

// One submitted batch: the caller's operations and ours.
struct Flight {
  // The caller's array; its elements may be larger than our struct.
  spillway_operation* operations = nullptr;
  std::size_t count = 0;
  std::uint64_t tag = 0;
  // Our operations, in the same order; without those that were refused at once.
  std::vector<Operation> inside;
  std::size_t failed = 0;
  std::unique_ptr<Flight> next;  // The next flight in the mailbox.

  spillway_operation* At(std::size_t i) const;
};

// The ended batches of one cache, in the order they ended.
class Mailbox {
 public:
  // Unavailable: the system has no eventfd left.
  static Result<std::unique_ptr<Mailbox>> Open();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int fd() const { return fd_; }

  // Adds an ended batch. From any thread. Allocates nothing, so it cannot fail.
  void Put(std::unique_ptr<Flight> flight) noexcept;
  // Takes out up to `max` batches, in the order they ended. Does not wait.
  std::size_t Take(spillway_completion* completions, std::size_t max) noexcept;
  // Waits until a batch may be ready. False: the time has passed.
  bool Wait(std::int64_t timeout_ms) const;

 private:
  explicit Mailbox(int fd) : fd_(fd) {}

  const int fd_;
  Mutex mutex_;
  std::unique_ptr<Flight> first_ SPILLWAY_GUARDED_BY(mutex_);
  Flight* last_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace spillway::capi
