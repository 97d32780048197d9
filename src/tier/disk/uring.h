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
  // A request goes to the kernel in parts, which a disk serves side by side: one of
  // 1 MiB, whose memory is in one piece, would keep one of its queues for long.
  static constexpr Bytes kPartBytes = 256 * kKiB;
  static constexpr std::size_t kParts = 4;
  struct Part {
    Bytes at = 0;  // In the request.
    Bytes bytes = 0;
  };
  struct Flight {
    Io io;
    Bytes done = 0;
    int error = 0;
    std::size_t flying = 0;
    std::array<Part, kParts> parts;
  };

  Ring() = default;
  struct Landing {
    Io io;
    std::int64_t result = 0;
  };
  void Start(std::size_t slot);
  void StartPart(std::size_t slot, std::size_t part);
  void PartLanded(std::size_t slot, std::size_t part, int result);
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
