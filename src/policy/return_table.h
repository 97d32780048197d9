// How soon those who wait come back, by class and age, and what it is worth to
// keep one of them: the learnt half of the one score.
//
// Classes form a tree: all, then by state and hint, then by use, and so on. A
// class leans on the one above it until it has seen enough of its own. For each
// class and bin of age the table counts returns and the time waited by all, also
// by those who wait still and by those whose bytes are long gone; so nothing is
// censored, and a rate is returns over time waited.
//
// Worth is a density: over the best horizon, the chance of a return within it
// over the time a place is held for it. The rate at this very age alone would be
// a trap: who has just left has a rate of nearly zero.
//
// Pure arithmetic on the times it is given; no clock, no device, no keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "policy/age_bins.h"

namespace spillway {

using ReturnClass = std::uint32_t;

class ReturnTable {
 public:
  static constexpr ReturnClass kAll = 0;
  // Under it stand those who were said to be done with.
  static constexpr std::uint32_t kDoneKey = ~std::uint32_t{0};
  // More than this many classes are not told apart: who would be in a new one
  // counts in the class above.
  static constexpr std::size_t kClassesMax = 4096;

  ReturnTable();

  // The class under `above` that `key` names; made when it is new.
  ReturnClass Under(ReturnClass above, std::uint32_t key);
  std::size_t classes() const { return classes_.size(); }

  // `weight` of one begins to wait in a bin at time `at`, and leaves it at `now`,
  // by returning or otherwise (it grew older, changed class, was forgotten).
  void Enter(ReturnClass c, std::size_t bin, double weight, double at);
  void Leave(ReturnClass c, std::size_t bin, double weight, double entered, double now);
  void Return(ReturnClass c, std::size_t bin, double weight, double entered, double now);

  // The same for those of whom it is found out later what they did.
  // Of `weight` in all, who wait in `bin` since `entered` (a sum over them) and
  // for whom the wait began at `since` (likewise): they are in bin `to` by now.
  void Pass(ReturnClass c, std::size_t bin, std::size_t to, double weight, double entered,
            double since);
  // Who began to wait at `since` and counts in `bin` since `entered` was back
  // after `gap_s`, whatever bins it was taken for having passed.
  void ReturnAfter(ReturnClass c, std::size_t bin, double weight, double entered, double since,
                   double gap_s);
  // One who waited for `gap_s` and was back, none of it counted yet.
  void WholeWait(ReturnClass c, double weight, double gap_s);
  // As if `weight` had waited for `for_s` in vain.
  void Doubt(ReturnClass c, double weight, double for_s);
  // Returns seen in all.
  double returns() const { return all_returns_; }
  double returns(ReturnClass c) const;

  // Returns per second of place held, for one of class `c` that has waited
  // `age_s`. Reads as of `now`, or as of a little before: it is worked out anew
  // when the class has seen a tenth more, or 64, or a 256th where that is more.
  double Worth(ReturnClass c, double age_s, double now);

 private:
  struct alignas(32) Bin {
    double returns = 0;
    double waited = 0;   // Seconds, of those who left the bin.
    double waiting = 0;  // Weight in the bin now...
    double entered = 0;  // ... times when it entered.
  };
  struct Class {
    std::array<Bin, kAgeBins> bins{};
    ReturnClass above = kAll;
    double seen = 0;  // What entered and returned, ever.
    double seen_at_worth = -1;
    std::array<float, kAgeBins> worth{};
  };
  using Rates = std::array<double, kAgeBins>;
  using Path = std::array<ReturnClass, 8>;

  template <typename Each>
  void ForEachAbove(ReturnClass c, Each&& each);
  Rates RatesOf(ReturnClass c, double now) const;
  void RefreshWorth(Class* c, const Rates& rates);

  std::vector<Class> classes_;
  double all_returns_ = 0;
  std::unordered_map<std::uint64_t, ReturnClass> by_key_;
};

}  // namespace spillway
