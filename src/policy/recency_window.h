// SPDX-License-Identifier: Apache-2.0
// What an LRU cache of the same capacity would hold, without holding it. LRU holds everything used
// since a certain moment: the moment from which on the bytes used add up to the capacity. The
// window keeps that moment for the present and the recent past, since uses are found late. The LRU
// fallback of the score asks it whether LRU would have had a hit.
//
// Uses are collected in stretches of time, each with a small part of the capacity or a second at
// most. Arithmetic only.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "spillway/units.h"

namespace spillway {

// Owned by EntryScores. Times are seconds.
class RecencyWindow {
 public:
  // Sets the capacity of the imagined LRU cache.
  void SetCapacity(Bytes capacity) { capacity_ = capacity; }
  // Bytes used at `at`: for the first time (Add), or last used at `since` (Move).
  void Add(double at, Bytes bytes);
  void Move(double since, double at, Bytes bytes);
  void Remove(double since, Bytes bytes);
  // Whether bytes last used at `since` would have been held at `at`. Empty: too long ago to say.
  std::optional<bool> Held(double since, double at) const;

  Bytes bytes() const { return total_; }
  std::size_t stretches() const { return stretches_.size(); }

 private:
  static constexpr Bytes kParts = 256;
  static constexpr double kLongestS = 1;
  static constexpr std::size_t kStretchesMax = std::size_t{1} << 16;
  // Uses in a stretch of time, which lasts until the next one begins.
  struct Stretch {
    double from = 0;
    double held_from = 0;  // The LRU cache at this time held what was used since then.
    Bytes bytes = 0;
  };
  // The stretch that contains `at`. Null: it is no longer kept.
  Stretch* Find(double at);
  // Drops the oldest stretches until the rest fits the capacity.
  void Trim();

  Bytes capacity_ = 0;
  Bytes total_ = 0;
  double held_from_ = -1;
  std::deque<Stretch> stretches_;  // Ascending.
};

}  // namespace spillway
