// Batches on their way and back. A Flight is one submitted batch; when it ends
// it goes into the Mailbox, whose eventfd is readable exactly while flights
// wait there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "spillway/cache.h"
#include "spillway/result.h"
#include "spillway/spillway.h"

namespace spillway::capi {

class Mailbox;

struct Flight {
  spillway_operation* operations = nullptr;  // The caller's, which may be larger than ours.
  std::size_t count = 0;
  std::uint64_t tag = 0;
  std::vector<Operation> inside;  // Ours, in the same order.
  std::size_t failed = 0;
  std::unique_ptr<Flight> next;  // In the mailbox.

  spillway_operation* At(std::size_t i) const;
};

class Mailbox {
 public:
  static Result<std::unique_ptr<Mailbox>> Open();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int fd() const { return fd_; }

  // From any thread; allocates nothing, so it can't fail.
  void Put(std::unique_ptr<Flight> flight) noexcept;
  // Up to `max`, first come first served. Does not wait.
  std::size_t Take(spillway_completion* completions, std::size_t max) noexcept;
  // True: there may be something to take.
  bool Wait(std::int64_t timeout_ms) const;

 private:
  explicit Mailbox(int fd) : fd_(fd) {}

  const int fd_;
  std::mutex mutex_;
  std::unique_ptr<Flight> first_;  // Guarded by mutex_, as last_.
  Flight* last_ = nullptr;
};

}  // namespace spillway::capi
