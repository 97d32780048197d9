// SPDX-License-Identifier: Apache-2.0
#include "sim/coverage.h"

#include <fmt/format.h>

namespace spillway::sim {

std::string_view Name(Act act) {
  constexpr std::array<std::string_view, kActs> kNames = {
      "admitted", "refused", "commit", "cancelled", "hit",     "miss",     "release", "erase",
      "clear",    "match",   "sample", "look",      "relief",  "reap",     "expired", "idle",
      "heavy",    "order",   "room",   "budget",    "reserve", "replaced", "marked"};
  return kNames.at(static_cast<std::size_t>(act));
}

std::string_view Name(Fault fault) {
  constexpr std::array<std::string_view, kFaults> kNames = {
      "none", "memory", "failed", "hung", "lied", "clock", "hurry", "neighbour", "crash"};
  return kNames.at(static_cast<std::size_t>(fault));
}

void Coverage::Add(const Coverage& other) {
  const auto* from = &other.cells_[0][0][0][0];
  auto* to = &cells_[0][0][0][0];
  for (std::size_t i = 0; i < sizeof cells_ / sizeof *to; ++i) to[i] += from[i];
}

std::string_view Coverage::WhyImpossible(Level level, Act act, Fault fault, bool leased) {
  switch (act) {
    case Act::kRelease:
      if (!leased) return "a release needs a lease";
      break;
    case Act::kAdmitted:
    case Act::kRoom:
    case Act::kBudget:
    case Act::kReserve:
      if (level == Level::kEmergency) return "EMERGENCY admits nothing";
      break;
    case Act::kIdle:
      if (level != Level::kNormal && level != Level::kEmergency)
        return "only NORMAL and EMERGENCY ask who is idle";
      break;
    case Act::kHeavy:
    case Act::kOrder:
      if (level != Level::kPressure && level != Level::kCritical && fault != Fault::kFailed &&
          fault != Fault::kHung && fault != Fault::kClock && fault != Fault::kLied) {
        return "but at PRESSURE and CRITICAL only an unknown pressure asks for weight";
      }
      break;
    case Act::kMarked:
      if (level != Level::kCritical) return "only CRITICAL of preset seed marks";
      break;
    case Act::kCancelled:
      if (fault == Fault::kNone) return "only who is in a hurry is cancelled";
      break;
    default:
      break;
  }
  return {};
}

template <typename Visit>
void Coverage::ForEachPair(Visit&& visit) const {
  constexpr std::array<std::size_t, 4> kSizes = {kLevels, kActs, kFaults, 2};
  const auto name = [](std::size_t dimension, std::size_t at) -> std::string_view {
    switch (dimension) {
      case 0:
        return spillway::Name(static_cast<Level>(at));
      case 1:
        return Name(static_cast<Act>(at));
      case 2:
        return Name(static_cast<Fault>(at));
      default:
        return at != 0 ? "leased" : "unleased";
    }
  };
  for (std::size_t first = 0; first < 4; ++first) {
    for (std::size_t second = first + 1; second < 4; ++second) {
      for (std::size_t a = 0; a < kSizes[first]; ++a) {
        for (std::size_t b = 0; b < kSizes[second]; ++b) {
          Pair pair{name(first, a), name(second, b), 0, false};
          std::array<std::size_t, 4> at{};
          for (at[0] = 0; at[0] < kLevels; ++at[0])
            for (at[1] = 0; at[1] < kActs; ++at[1])
              for (at[2] = 0; at[2] < kFaults; ++at[2])
                for (at[3] = 0; at[3] < 2; ++at[3]) {
                  if (at[first] != a || at[second] != b) continue;
                  pair.count += cells_[at[0]][at[1]][at[2]][at[3]];
                  pair.possible |= WhyImpossible(static_cast<Level>(at[0]), static_cast<Act>(at[1]),
                                                 static_cast<Fault>(at[2]), at[3] != 0)
                                       .empty();
                }
          visit(first, second, pair);
        }
      }
    }
  }
}

std::uint64_t Coverage::MissingPairs() const {
  std::uint64_t missing = 0;
  ForEachPair([&](std::size_t, std::size_t, const Pair& pair) {
    missing += pair.possible && pair.count == 0 ? 1 : 0;
  });
  return missing;
}

std::uint64_t Coverage::MissingCells() const {
  std::uint64_t missing = 0;
  for (std::size_t l = 0; l < kLevels; ++l)
    for (std::size_t a = 0; a < kActs; ++a)
      for (std::size_t f = 0; f < kFaults; ++f)
        for (std::size_t h = 0; h < 2; ++h) {
          const bool possible = WhyImpossible(static_cast<Level>(l), static_cast<Act>(a),
                                              static_cast<Fault>(f), h != 0)
                                    .empty();
          missing += possible && cells_[l][a][f][h] == 0 ? 1 : 0;
        }
  return missing;
}

std::string Coverage::Print() const {
  std::string text = "how often each occurred, with leases held / without, in thousands\n";
  text += fmt::format("{:10} {:9}", "act", "level");
  for (std::size_t f = 0; f < kFaults; ++f)
    text += fmt::format(" {:>13}", Name(static_cast<Fault>(f)));
  text += "\n";
  std::uint64_t cells = 0;
  std::uint64_t possible = 0;
  std::string missing;
  for (std::size_t a = 0; a < kActs; ++a) {
    for (std::size_t l = 0; l < kLevels; ++l) {
      text += fmt::format("{:10} {:9}", Name(static_cast<Act>(a)),
                          spillway::Name(static_cast<Level>(l)));
      for (std::size_t f = 0; f < kFaults; ++f) {
        std::string cell;
        for (const std::size_t h : {std::size_t{1}, std::size_t{0}}) {
          const std::uint64_t count = cells_[l][a][f][h];
          const bool can = WhyImpossible(static_cast<Level>(l), static_cast<Act>(a),
                                         static_cast<Fault>(f), h != 0)
                               .empty();
          ++cells;
          possible += can ? 1 : 0;
          if (can && count == 0) {
            missing += fmt::format("  {} / {} / {} / {}\n", Name(static_cast<Act>(a)),
                                   spillway::Name(static_cast<Level>(l)),
                                   Name(static_cast<Fault>(f)), h != 0 ? "leased" : "unleased");
          }
          cell += count == 0     ? (can ? "0" : "-")
                  : count < 1000 ? fmt::format(".{:03}", count)
                                 : fmt::format("{}", count / 1000);
          if (h == 1) cell += "/";
        }
        text += fmt::format(" {:>13}", cell);
      }
      text += "\n";
    }
  }
  std::uint64_t pairs = 0;
  std::uint64_t pairs_seen = 0;
  std::string pairs_missing;
  ForEachPair([&](std::size_t, std::size_t, const Pair& pair) {
    if (!pair.possible) return;
    ++pairs;
    pairs_seen += pair.count > 0 ? 1 : 0;
    if (pair.count == 0) pairs_missing += fmt::format("  {} x {}\n", pair.a, pair.b);
  });
  text +=
      "'-': not asked for. A release needs a lease; EMERGENCY admits nothing, so makes no room; "
      "only NORMAL\n"
      "and EMERGENCY ask who is idle; weight is asked for by PRESSURE and CRITICAL, else only "
      "while pressure\n"
      "is unknown (failed, hung, lied, clock) or shortly after; only preset seed marks, in "
      "CRITICAL; only\n"
      "who is in a hurry is cancelled.\n";
  text +=
      fmt::format("pairs: {} of {} possible ones occurred\n{}", pairs_seen, pairs, pairs_missing);
  text += fmt::format("all four together: {} of {} possible ones occurred ({} in all)\n{}",
                      possible - MissingCells(), possible, cells, missing);
  return text;
}

}  // namespace spillway::sim
