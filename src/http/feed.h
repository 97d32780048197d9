// A Feed keeps the last of what a cache told: departures and changes of level, each
// with a number. It is told on the cache's strand, so it is quick and of bounded
// size; whoever reads too late is told how many were passed over.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "spillway/event.h"
#include "spillway/units.h"

namespace spillway::http {

class Feed {
 public:
  static constexpr std::size_t kKept = 4096;
  static constexpr std::size_t kKeyMax = 256;  // Of a key, the first so many bytes.

  struct Item {
    std::uint64_t number = 0;
    std::int64_t unix_ms = 0;
    bool is_level = false;  // A change of level; else a departure.
    std::string key;
    std::size_t key_bytes = 0;  // All of it.
    Action action = Action::kDestroy;
    Reason reason = Reason::kErased;
    Level level = Level::kRelaxed;  // After a change; at a departure.
    Level from = Level::kRelaxed;   // Before a change.
    double pressure = 0;
    std::string order;
    std::string tier;
    Bytes bytes = 0;
    Tokens tokens = 0;
  };

  Feed() : items_(kKept) {}

  // What is set anew has not left: that is not told.
  void Hear(const Event& event);
  void Hear(const LevelChange& change);

  // The number of the latest; 0: there was none.
  std::uint64_t latest() const;
  // Those after `number`, oldest first, at most `most`, the latest ones. `passed`:
  // how many between were not kept or not wanted.
  std::vector<Item> After(std::uint64_t number, std::size_t most, std::uint64_t* passed) const;

 private:
  Item& Next();

  mutable std::mutex mutex_;
  std::vector<Item> items_;  // Item n at n % kKept.
  std::uint64_t latest_ = 0;
};

}  // namespace spillway::http
