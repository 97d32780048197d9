// SPDX-License-Identifier: Apache-2.0
// The first failure that a world found. Later ones are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace spillway::sim {

// Lines of ARCHITECTURE.md, "What must hold".
enum Invariant : int {
  kAccounting = 1,
  kLeases = 2,
  kValues = 3,
  kAllOrNothing = 4,
  kOneOwner = 5,
  kLevelAndRefusal = 6,
  kWhoLeaves = 7,
  kLiveness = 8,
  kAfterCrash = 9,
  kSameEvents = 10
};

class Verdict {
 public:
  // `told` is called with the failure at once: the process may not live much longer.
  explicit Verdict(std::function<void(const Verdict&)> told) : told_(std::move(told)) {}

  void Fail(int invariant, std::string what) {
    if (failed()) return;
    invariant_ = invariant;
    what_ = std::move(what);
    if (told_) told_(*this);
  }
  bool failed() const { return invariant_ != 0; }
  int invariant() const { return invariant_; }
  const std::string& what() const { return what_; }

  std::uint64_t event = 0;  // The present one.

 private:
  const std::function<void(const Verdict&)> told_;
  int invariant_ = 0;
  std::string what_;
};

// How a world has ended.
struct Outcome {
  bool failed = false;
  std::uint64_t fingerprint = 0;
  std::uint64_t events = 0;
  std::size_t most_live = 0;
};

}  // namespace spillway::sim
