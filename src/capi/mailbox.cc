// SPDX-License-Identifier: Apache-2.0
#include "capi/mailbox.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

namespace spillway::capi {

spillway_operation* Flight::At(std::size_t i) const {
  auto* bytes = reinterpret_cast<std::byte*>(operations);
  return reinterpret_cast<spillway_operation*>(bytes + i * operations->size);
}

Result<std::unique_ptr<Mailbox>> Mailbox::Open() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    return Error{Code::kUnavailable,
                 "no eventfd for completions: " + std::generic_category().message(errno)};
  }
  return std::unique_ptr<Mailbox>(new Mailbox(fd));
}

Mailbox::~Mailbox() {
  // One by one: recursion could overflow the stack.
  while (first_ != nullptr) first_ = std::move(first_->next);
  close(fd_);
}

void Mailbox::Put(std::unique_ptr<Flight> flight) noexcept {
  const MutexLock lock(mutex_);
  Flight* arrived = flight.get();
  (first_ == nullptr ? first_ : last_->next) = std::move(flight);
  last_ = arrived;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

std::size_t Mailbox::Take(spillway_completion* completions, std::size_t max) noexcept {
  std::unique_ptr<Flight> taken;  // Freed after the lock is released.
  std::size_t count = 0;
  const MutexLock lock(mutex_);
  while (count < max && first_ != nullptr) {
    std::unique_ptr<Flight> flight = std::move(first_);
    first_ = std::move(flight->next);
    completions[count++] = {flight->tag, flight->operations, flight->count, flight->failed};
    flight->next = std::move(taken);
    taken = std::move(flight);
  }
  if (first_ == nullptr) {
    std::uint64_t rung = 0;
    [[maybe_unused]] const ssize_t got = read(fd_, &rung, sizeof rung);
  }
  while (taken != nullptr) taken = std::move(taken->next);
  return count;
}

bool Mailbox::Wait(std::int64_t timeout_ms) const {
  pollfd waiting{fd_, POLLIN, 0};
  const auto most = std::int64_t{std::numeric_limits<int>::max()};
  const int timeout = timeout_ms < 0 ? -1 : static_cast<int>(std::min(timeout_ms, most));
  return poll(&waiting, 1, timeout) > 0;
}

}  // namespace spillway::capi
