// Reads all blocks that agents had from a daemon that was started anew, and
// compares every byte, on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "demo/context.h"
#include "spillway/units.h"

namespace spillway::demo {

class Verifier {
 public:
  // Begins at once.
  Verifier(const std::string& socket, std::vector<Block> blocks, Bytes bytes_per_token);

  bool done() const { return done_.load(std::memory_order_acquire); }
  struct Outcome {
    std::uint64_t found = 0;  // As they must be, every byte.
    std::uint64_t missing = 0;
    Bytes bytes = 0;
    std::uint64_t wrong_bytes = 0;
    std::string trouble;  // Why it ended early; empty: it did not.
  };
  // Once it is done.
  const Outcome& outcome() const { return outcome_; }

 private:
  void Run(const std::stop_token& stop);
  void Check(const Block& block, bool there, Tokens tokens, std::span<const std::byte> bytes);

  const std::string socket_;
  const std::vector<Block> blocks_;
  const Bytes bytes_per_token_;
  Outcome outcome_;  // The thread's, until it is done.
  std::atomic<bool> done_{false};
  std::jthread thread_;
};

}  // namespace spillway::demo
