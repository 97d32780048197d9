// What a client says of an entry beside its bytes: when it is used next, by
// whom, and what it would cost to make it anew.
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
