// SPDX-License-Identifier: Apache-2.0
// What a client says about an entry besides its bytes: when and by which step it will
// be used next, and what it would cost to recompute.
#pragma once

#include <optional>
#include <string_view>

#include "spillway/cache.h"

namespace spillway {

struct Advice {
  Hint hint = Hint::kNone;
  std::optional<Duration> eta{};
  std::string_view step{};
  std::optional<Duration> recompute{};

  Advice() = default;
  Advice(Hint said, std::optional<Duration> when, std::string_view by)
      : hint(said), eta(when), step(by) {}
  explicit Advice(const SetOptions& set)
      : hint(set.hint), eta(set.eta), step(set.step), recompute(set.recompute) {}
  explicit Advice(const GetOptions& get) : hint(get.hint), eta(get.eta), step(get.step) {}
  bool empty() const { return hint == Hint::kNone && step.empty() && !recompute; }
};

}  // namespace spillway
