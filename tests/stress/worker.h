// SPDX-License-Identifier: Apache-2.0
// A Worker is one thread's share of the mixed load: it does random operations, verifies
// every byte it reads, keeps leases over evictions, and verifies the bytes again when
// it releases them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spillway/cache.h"
#include "spillway/testing.h"
#include "stress/board.h"
#include "stress/value.h"

namespace spillway::stress {

// The world around the cache, which workers also change.
struct Surroundings {
  testing::ManualClock* clock;
  testing::ManualPressure* pressure;
};

class Worker {
 public:
  Worker(unsigned number, Board* board, Cache* cache, Surroundings surroundings);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Run(std::uint64_t ops);

  // Its operations, by its own count.
  struct Counts {
    std::uint64_t sets = 0;
    std::uint64_t refused = 0;
    std::uint64_t no_memory = 0;  // Of those refused.
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t erased = 0;
    std::uint64_t leases_over_departures = 0;  // The key was removed or changed before the release.
    std::uint64_t late = 0;                    // Ended with Deadline.
    std::uint64_t passes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Held {
    Lease lease;
    std::size_t key;
    std::optional<std::uint64_t> count;
  };
  struct Flight;

  void One();
  void SetOwn();
  void SetCommon();
  void SetChain();
  bool Set(std::size_t key, std::size_t parent);
  void Get();
  void GetMany();
  void GetInto();
  void GetChain();
  // `fresh`: read just now, so it is the newest version this thread has read.
  void Hold(std::size_t key, Lease lease, bool fresh = true);
  void Release(std::size_t at);
  void ReleaseSome();
  void Submit();
  void Land(bool wait);
  void Rare();
  void Apply();
  void Look();

  // Checks the bytes read for `key`; returns `count`.
  std::optional<std::uint64_t> Verify(std::size_t key, const std::byte* data, std::size_t size,
                                      const char* how);
  std::size_t AnyKey() { return random_.Below(Keys::kAll); }
  std::size_t OwnKey();
  SetOptions OptionsFor(std::size_t key, std::uint64_t count, std::size_t parent);

  const unsigned number_;
  Board& board_;
  Cache& cache_;
  const Surroundings surroundings_;
  Random random_;
  Counts counts_;
  std::vector<std::byte> buffer_;
  std::vector<Held> held_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<std::uint64_t> acknowledged_;  // By key: count of my last acknowledged set.
  std::vector<std::uint64_t> seen_;          // By key: the newest count I have read.
};

}  // namespace spillway::stress
