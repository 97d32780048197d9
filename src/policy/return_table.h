// SPDX-License-Identifier: Apache-2.0
// How soon waiting entries are used again, by class and age, and what it is worth to keep one: the
// learned part of the score.
//
// Classes form a tree: all entries, then by state and hint, then by number of uses, and so on. A
// class uses the figures of the class above it until it has seen enough of its own. For each class
// and age bin the table counts returns and time waited, also of entries that still wait and of
// those whose bytes are long gone. So the data is not censored, and a rate is returns over time
// waited.
//
// Worth is a density: over the best horizon, the probability of a return within it, divided by the
// expected time the memory is held for it. The rate at the present age alone would mislead: right
// after a use it is nearly zero.
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

// Owned by EntryScores. Times are seconds.
class ReturnTable {
 public:
  static constexpr ReturnClass kAll = 0;
  // The class of entries that were said to be done.
  static constexpr std::uint32_t kDoneKey = ~std::uint32_t{0};
  // The most classes. Entries of further classes count in the class above.
  static constexpr std::size_t kClassesMax = 4096;

  ReturnTable();

  // The class under `above` named by `key`, made if it is new.
  ReturnClass Under(ReturnClass above, std::uint32_t key);
  std::size_t classes() const { return classes_.size(); }

  // `weight` entries begin to wait in a bin at `at`; or end waiting at `now` without a return,
  // because the class changed or the entry was forgotten.
  void Enter(ReturnClass c, std::size_t bin, double weight, double at);
  void Leave(ReturnClass c, std::size_t bin, double weight, double entered, double now);

  // The next calls are for entries whose behaviour is found out later. `weight` entries wait in
  // `bin` since `entered` and began to wait at `since` (both are sums over the entries): by now
  // they are in bin `to`.
  void Pass(ReturnClass c, std::size_t bin, std::size_t to, double weight, double entered,
            double since);
  // An entry began to wait at `since`, counts in `bin` since `entered`, and returned after `gap_s`.
  // The bins it was counted in meanwhile are corrected.
  void ReturnAfter(ReturnClass c, std::size_t bin, double weight, double entered, double since,
                   double gap_s);
  // An entry waited for `gap_s` and returned; none of it is counted yet.
  void WholeWait(ReturnClass c, double weight, double gap_s);
  // Counts `weight` imagined entries that waited for `for_s` without a return.
  void Doubt(ReturnClass c, double weight, double for_s);
  // All returns seen.
  double returns() const { return all_returns_; }

  // Expected returns per second that the memory is held, for an entry of class `c` that has waited
  // `age_s`. Computed at `now` or a little earlier: it is computed again when the class has seen a
  // tenth more, or 64 more, or a 256th more if that is larger.
  double Worth(ReturnClass c, double age_s, double now);

 private:
  // Counts of one class in one age bin.
  struct alignas(32) Bin {
    double returns = 0;
    double waited = 0;   // Seconds, of entries that have left the bin.
    double waiting = 0;  // Entries in the bin now.
    double entered = 0;  // Sum of the times at which these entered.
  };
  // Counts of one class, and the worths computed from them.
  struct Class {
    std::array<Bin, kAgeBins> bins{};
    ReturnClass above = kAll;
    double seen = 0;  // Entries and returns so far.
    double seen_at_worth = -1;
    std::array<float, kAgeBins> worth{};
  };
  using Rates = std::array<double, kAgeBins>;
  using Path = std::array<ReturnClass, 8>;

  template <typename Each>
  void ForEachAbove(ReturnClass c, Each&& each);
  // Returns per second of waiting, by age bin.
  Rates RatesOf(ReturnClass c, double now) const;
  // Computes a class's worths from its rates.
  void RefreshWorth(Class* c, const Rates& rates);

  std::vector<Class> classes_;
  double all_returns_ = 0;
  std::unordered_map<std::uint64_t, ReturnClass> by_key_;
};

}  // namespace spillway
