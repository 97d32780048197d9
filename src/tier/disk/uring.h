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
  // Null: the kernel refuses, or does not know the operations we need.
  static std::unique_ptr<Ring> Create();
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void Run(IoFeed& feed);

 private:
  struct Flight {
    Io io;
    Bytes done = 0;
  };
  struct Landing {
    Io io;
    std::int64_t result = 0;
  };

  Ring() = default;
  void Start(std::size_t slot);
  void Landed(std::size_t slot, int result);
  // False: the feed has no more.
  bool Refill(IoFeed& feed);
  // Hands over what is to be done and waits for as many as are named to end.
  void Submit(unsigned wait_for);
  void Collect();

  io_uring ring_ = {};
  std::array<Flight, Files::kDepth> flights_;
  std::vector<std::size_t> idle_;  // Slots of flights_.
  std::vector<Landing> landed_;    // Ended, and the feed does not know yet.
};

}  // namespace spillway
