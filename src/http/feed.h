// SPDX-License-Identifier: Apache-2.0
// A Feed keeps the latest events of a cache: evictions, removals and changes of level, each with a
// number. It is called on the cache's strand, so it is fast and bounded. A reader that comes too
// late learns how many events it missed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "spillway/event.h"
#include "spillway/units.h"

namespace spillway::http {

// Written on the cache's strand, read from any thread.
class Feed {
 public:
  static constexpr std::size_t kKept = 4096;
  static constexpr std::size_t kKeyMax = 256;  // Only the first bytes of a key are kept.

  struct Item {
    std::uint64_t number = 0;
    std::int64_t unix_ms = 0;
    bool is_level = false;  // True: a change of level. False: a copy was removed from a tier.
    std::string key;
    std::size_t key_bytes = 0;  // The key's full length.
    Action action = Action::kDestroy;
    Reason reason = Reason::kErased;
    Level level = Level::kRelaxed;  // After a change of level; at the time of a removal.
    Level from = Level::kRelaxed;   // Before a change of level.
    double pressure = 0;
    std::string order;
    std::string tier;
    Bytes bytes = 0;
    Tokens tokens = 0;
  };

  Feed() : items_(kKept) {}

  // Adds an event. Replaced values are not recorded.
  void OnEvent(const Event& event);
  void OnEvent(const LevelChange& change);

  // The number of the latest event. 0: none so far.
  std::uint64_t latest() const;
  // Up to `most` events after `number`, the latest ones, oldest first. `passed`: how many in
  // between are missing because they were dropped or exceed `most`.
  std::vector<Item> After(std::uint64_t number, std::size_t most, std::uint64_t* passed) const;

 private:
  Item& Next() SPILLWAY_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Item> items_ SPILLWAY_GUARDED_BY(mutex_);  // Item n is at n % kKept.
  std::uint64_t latest_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway::http
