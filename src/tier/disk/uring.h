// SPDX-License-Identifier: Apache-2.0
// One io_uring, used by one thread at a time.
#pragma once

#include <liburing.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "tier/disk/files.h"

namespace spillway {

class Ring {
 public:
  // Returns null if the kernel refuses or lacks the operations used here.
  static std::unique_ptr<Ring> Create();
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Runs all operations of the feed, up to Files::kDepth at a time. Returns
  // when all have ended and the feed has their results.
  void Run(IoFeed& feed);

 private:
  // An operation that was submitted, and how much of it is done.
  struct Flight {
    Io io;
    Bytes done = 0;
  };
  // An operation that has ended, with its result.
  struct Completed {
    Io io;
    std::int64_t result = 0;
  };

  Ring() = default;
  void Start(std::size_t slot);
  void Landed(std::size_t slot, int result);
  // Returns false if the feed has no more operations.
  bool Refill(IoFeed& feed);
  // Submits the prepared operations and waits until `wait_for` of them have ended.
  void Submit(unsigned wait_for);
  // Takes all finished operations from the ring.
  void Collect();

  io_uring ring_ = {};
  std::array<Flight, Files::kDepth> flights_;
  std::vector<std::size_t> idle_;     // Slots of flights_.
  std::vector<Completed> completed_;  // Ended, and not yet reported to the feed.
};

}  // namespace spillway
