// The figures that a demo tells its daemon, so that they stand on /metrics beside
// the daemon's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "demo/agent.h"
#include "demo/caption.h"
#include "demo/chronicle.h"
#include "demo/review.h"
#include "demo/totals.h"

namespace spillway::demo {

struct FigureTold {
  std::string name;
  double value = 0;
};

struct DemoFacts {
  std::size_t contexts = 0;
  std::uint64_t rounds = 0;
  AgentCounts counts;
  Chronicle::Totals turns;
  Totals totals;
  Bytes verified_bytes = 0;  // After kills, besides what agents checked.
  std::uint64_t verified_wrong = 0;
  Duration prefill_per_token{};
  std::size_t strangers = 0;
  std::optional<Stranger> stranger;
  std::optional<ReviewSum> reviews;  // While squeezed.
  std::vector<Killed> kills;
};

std::vector<FigureTold> FiguresTold(const DemoFacts& facts);

}  // namespace spillway::demo
