// SPDX-License-Identifier: Apache-2.0
// The LossLog tells the operator when last copies are destroyed: the first at once,
// then at most one line a minute with the number of entries, their bytes and the
// reasons. Entries that were erased, replaced, cleared or expired were removed as
// asked, and are no loss. Strand only.
#pragma once

#include <array>
#include <cstdint>

#include "spillway/event.h"
#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway {

// Whether an event destroyed a last copy that should have been kept.
constexpr bool IsLoss(Action action, Reason reason) {
  return action == Action::kDestroy && reason != Reason::kErased && reason != Reason::kReplaced &&
         reason != Reason::kCleared;
}

class LossLog {
 public:
  static constexpr Duration kEvery = std::chrono::minutes(1);

  // `serious`: there is a lower tier, so the entries should have had another copy.
  explicit LossLog(bool serious) : serious_(serious) {}

  // Reports that an entry was destroyed (IsLoss).
  void Record(const Event& event);
  // Writes what was not written yet, if a minute has passed since the last line.
  void Tick(TimePoint now);
  // Writes what was not written yet.
  void Close(TimePoint now) { Say(now); }

 private:
  void Say(TimePoint now);

  const bool serious_;
  std::array<std::uint64_t, kReasons> entries_{};  // Not written yet, by reason.
  std::array<Bytes, kReasons> bytes_{};
  bool any_ = false;
  bool said_ = false;  // A line has been written, at `at_`.
  TimePoint at_{};
};

}  // namespace spillway
