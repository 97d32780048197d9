// What every order of the product keeps to, whatever it ranks by. The orders of
// `spillway replay` have the same contract over blocks (replay/order), the
// engine's own use of them has it over entries (cache/order_contract_test.cc).
#include <algorithm>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "policy/testing/line_of_entries.h"

namespace spillway {
namespace {

using Line = testing::LineOfEntries;

class EveryOrder : public ::testing::TestWithParam<std::string_view> {};

// Chains come, grow, are used and go, so that there is something to learn.
void Live(Line* line, std::uint64_t seed, int events) {
  std::mt19937_64 dice(seed);
  for (int i = 0; i < events; ++i) {
    line->Pass(static_cast<double>(dice() % 4000) / 1000);
    const auto slot = static_cast<std::uint32_t>(dice() % 300);
    if (line->size() > 200) {
      if (const auto next = line->Next(i % 2 == 0 ? Level::kNormal : Level::kPressure)) {
        line->Remove(next->slot);
      }
    }
    if (line->Has(slot)) {
      line->Use(slot);
    } else {
      const auto parent = static_cast<std::uint32_t>(dice() % 300);
      line->Add(slot, line->Has(parent) && dice() % 2 == 0 ? parent : Line::kNobody);
    }
  }
}

// All leave, each once, none before what continues it.
std::vector<std::uint32_t> Drain(Line* line, Level level = Level::kPressure) {
  std::vector<std::uint32_t> left;
  while (const std::optional<EntryId> next = line->Next(level)) {
    EXPECT_TRUE(line->Has(next->slot)) << "one that is not there";
    if (!line->Has(next->slot)) break;
    EXPECT_TRUE(line->IsLeaf(next->slot)) << "a parent before its child";
    left.push_back(next->slot);
    line->Remove(next->slot);
  }
  return left;
}

TEST_P(EveryOrder, EmptiesItselfLeavesFirst) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Line line(GetParam());
    Live(&line, seed, 3000);
    const std::vector<std::uint32_t> all = line.Slots();
    std::vector<std::uint32_t> left =
        Drain(&line, seed % 2 == 0 ? Level::kNormal : Level::kCritical);
    std::ranges::sort(left);
    EXPECT_EQ(left, all) << "seed " << seed;
    EXPECT_EQ(line.size(), 0U);
    EXPECT_FALSE(line.Next());
  }
}

TEST_P(EveryOrder, GivesNobodyTwiceUnlessItEntersAgain) {
  Line line(GetParam());
  Live(&line, 5, 2000);
  std::set<std::uint32_t> taken;
  while (const auto next = line.Next()) EXPECT_TRUE(taken.insert(next->slot).second);
  std::size_t leaves = 0;
  for (const std::uint32_t slot : line.Slots()) leaves += line.IsLeaf(slot) ? 1 : 0;
  EXPECT_EQ(taken.size(), leaves);
  for (const std::uint32_t slot : taken) line.Enter(slot);
  std::set<std::uint32_t> again;
  while (const auto next = line.Next()) EXPECT_TRUE(again.insert(next->slot).second);
  EXPECT_EQ(again, taken);
}

TEST_P(EveryOrder, EnteringTwiceIsEnteringOnce) {
  Line line(GetParam());
  Live(&line, 6, 500);
  for (const std::uint32_t slot : line.Slots()) {
    line.Enter(slot);
    line.Enter(slot);
  }
  const std::size_t all = line.size();
  EXPECT_EQ(Drain(&line).size(), all);
}

TEST_P(EveryOrder, ForgetsWhoHasLeft) {
  Line line(GetParam());
  Live(&line, 7, 2000);
  std::set<std::uint32_t> gone;
  for (const std::uint32_t slot : line.Slots()) {
    if (slot % 3 == 0 && line.IsLeaf(slot)) {
      line.Remove(slot);
      gone.insert(slot);
    }
  }
  for (const std::uint32_t slot : Drain(&line)) EXPECT_FALSE(gone.contains(slot));
}

TEST_P(EveryOrder, ASlotsNextTenantIsAnother) {
  Line line(GetParam());
  line.Add(1);
  line.Remove(1);
  const EntryId second = line.Add(1);
  EXPECT_EQ(line.Next(), second);
  EXPECT_FALSE(line.Next());
}

TEST_P(EveryOrder, IsTheSameEveryTime) {
  const auto run = [&](std::uint64_t seed) {
    Line line(GetParam());
    Live(&line, seed, 3000);
    return Drain(&line);
  };
  for (std::uint64_t seed = 10; seed < 14; ++seed) EXPECT_EQ(run(seed), run(seed));
}

TEST_P(EveryOrder, RanksByTheKeyItNames) {
  // Where time stands still the key alone decides; of equals the earlier.
  Line line(GetParam());
  Live(&line, 9, 4000);
  const auto key = [&](EntryId id) {
    Facts facts;
    EXPECT_TRUE(line.Read(id, &facts));
    return line.order().KeyOf(Level::kPressure, id, facts);
  };
  std::vector<std::int64_t> keys;
  while (const auto next = line.Next()) keys.push_back(key(*next));
  EXPECT_GT(keys.size(), 50U);
  if (GetParam() == "score") {
    // Buckets are compared by their first; ages in one differ by less than half,
    // and so does what they are worth, as a rule.
    std::size_t falls = 0;
    for (std::size_t i = 1; i < keys.size(); ++i) falls += keys[i] < keys[i - 1] ? 1 : 0;
    EXPECT_LT(falls, keys.size() / 3);
  } else {
    EXPECT_TRUE(std::ranges::is_sorted(keys));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOrder,
                         ::testing::Values("documented", "hybrid", "lru", "workflow", "score",
                                           "seed"),
                         [](const auto& order) { return std::string(order.param); });

TEST(ScoreContract, TheScoreWasInForceInThisSuite) {
  std::size_t in_force = 0;
  for (std::uint64_t seed = 1; seed <= 14; ++seed) {
    Line line("score");
    Live(&line, seed, 3000);
    in_force += line.scores().by_recency() ? 0 : 1;
    EXPECT_GT(line.scores().remembered(), 0U);
  }
  EXPECT_GE(in_force, 1U);
}

}  // namespace
}  // namespace spillway
