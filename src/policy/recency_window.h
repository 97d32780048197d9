// What a cache by last use would hold, without holding it: everything used since
// the moment from which on the bytes used make up its capacity. That moment is
// all there is to know, also of times past, since uses are found out late. The
// guard over the score asks it whether such a cache would have hit.
//
// Uses are gathered in stretches of time, each of a small part of the capacity
// or a second at most. Arithmetic only.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "spillway/units.h"

namespace spillway {

class RecencyWindow {
 public:
  // How much it may hold from now on.
  void SetCapacity(Bytes capacity) { capacity_ = capacity; }
  // Used at `at` for the first time, or not since `since`.
  void Add(double at, Bytes bytes);
  void Move(double since, double at, Bytes bytes);
  void Remove(double since, Bytes bytes);
  // Whether what had last been used at `since` was there at `at`; empty: that is
  // too long ago to say.
  std::optional<bool> Held(double since, double at) const;

  Bytes bytes() const { return total_; }
  std::size_t stretches() const { return stretches_.size(); }

 private:
  static constexpr Bytes kParts = 256;
  static constexpr double kLongestS = 1;
  static constexpr std::size_t kStretchesMax = std::size_t{1} << 16;
  struct Stretch {
    double from = 0;
    double held_from = 0;  // What such a cache held then begins here.
    Bytes bytes = 0;
  };
  // The one that has `at`; null: that has passed out.
  Stretch* Find(double at);
  void Trim();

  Bytes capacity_ = 0;
  Bytes total_ = 0;
  double held_from_ = -1;
  std::deque<Stretch> stretches_;  // Ascending.
};

}  // namespace spillway
