#include "policy/entry_scores.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "policy/score_order.h"
#include "policy/testing/line_of_entries.h"

namespace spillway {
namespace {

using testing::LineOfEntries;

// `pairs` entries of which the first of each pair is used every 20 s and the
// other never; told apart by what they are said to wait for.
void Teach(LineOfEntries* line, std::uint32_t pairs, int rounds) {
  for (std::uint32_t i = 0; i < pairs; ++i) {
    line->Add(2 * i);
    line->Add(2 * i + 1);
    line->scores().Tell(line->IdOf(2 * i), Hint::kNone, {}, "tool");
    line->scores().Tell(line->IdOf(2 * i + 1), Hint::kNone, {}, "human");
  }
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 20; ++i) line->Pass(1);
    for (std::uint32_t i = 0; i < pairs; ++i) line->Use(2 * i);
  }
}

TEST(EntryScores, IsLastUseUntilItKnowsSomething) {
  LineOfEntries line("score");
  for (std::uint32_t slot : {3U, 1U, 2U}) {
    line.Add(slot);
    line.Pass(5);
  }
  line.Use(3);
  EXPECT_TRUE(line.scores().by_recency());
  EXPECT_EQ(line.order().name(Level::kPressure), "lru");
  EXPECT_EQ(line.Next()->slot, 1U);
  EXPECT_EQ(line.Next()->slot, 2U);
  EXPECT_EQ(line.Next()->slot, 3U);
}

TEST(EntryScores, LearnsWhoComesBackWithoutBeingTold) {
  LineOfEntries line("score");
  Teach(&line, 20, 6);
  for (int i = 0; i < 10; ++i) line.Pass(1);
  EXPECT_FALSE(line.scores().by_recency());
  EXPECT_EQ(line.order().name(Level::kPressure), "score");
  // By last use it would be the "tool" ones last, too; so let the others be used
  // once, just now, and the "tool" ones be due.
  for (std::uint32_t i = 0; i < 20; ++i) line.Use(2 * i + 1);
  line.Pass(3);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(line.Next()->slot % 2, 1U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(line.Next()->slot % 2, 0U);
}

TEST(EntryScores, FindsUsesByItself) {
  LineOfEntries line("score");
  Teach(&line, 10, 4);
  // Nobody told it of the uses: it saw the count when an age passed a step.
  EXPECT_GE(line.scores().returns(), 30);
  const Note& note = line.scores().note(line.scores().Find(line.IdOf(0)));
  EXPECT_GE(note.uses, 4U);
  EXPECT_EQ(line.scores().note(line.scores().Find(line.IdOf(1))).uses, 1U);
}

TEST(EntryScores, RemembersWhoIsGoneAndForgetsTheOldest) {
  LineOfEntries line("score", 4);
  for (std::uint32_t slot = 0; slot < 6; ++slot) {
    line.Add(slot);
    line.Pass(1);
    line.Remove(slot);
  }
  EXPECT_EQ(line.scores().remembered(), 4U);
  const EntryId back = line.Add(5);
  EXPECT_EQ(line.scores().note(line.scores().Find(back)).uses, 2U);
  EXPECT_EQ(line.scores().remembered(), 3U);
  const EntryId fresh = line.Add(0);  // Forgotten.
  EXPECT_EQ(line.scores().note(line.scores().Find(fresh)).uses, 1U);
}

TEST(EntryScores, AMissIsAUseOfWhoIsGone) {
  LineOfEntries line("score");
  line.Add(1);
  line.Pass(10);
  line.Remove(1);
  line.Pass(10);
  line.scores().Missed(2, line.now());  // The hash of slot 1.
  line.scores().Missed(99, line.now());
  EXPECT_EQ(line.scores().returns(), 1);
  line.Pass(1);
  const EntryId back = line.Add(1);  // For that very miss: no use of its own.
  EXPECT_EQ(line.scores().note(line.scores().Find(back)).uses, 2U);
  EXPECT_EQ(line.scores().returns(), 1);
}

TEST(EntryScores, WhoIsErasedIsForgotten) {
  LineOfEntries line("score");
  const EntryId id = line.Add(1);
  line.scores().Gone(id, line.FactsOf(1), true, line.now());
  EXPECT_EQ(line.scores().remembered(), 0U);
  EXPECT_EQ(line.scores().notes(), 0U);
}

TEST(EntryScores, WhoIsSaidToBeDoneLeavesFirst) {
  LineOfEntries line("score");
  Teach(&line, 20, 4);
  line.Use(4);
  line.scores().Tell(line.IdOf(4), Hint::kDone, {}, {});
  EXPECT_EQ(line.Next()->slot, 4U);
}

TEST(EntryScores, AWrongWordLosesItsWeight) {
  LineOfEntries line("score");
  Teach(&line, 20, 3);
  // "Done" is said of all the time, and they are back all the same.
  for (int round = 0; round < 12; ++round) {
    for (std::uint32_t i = 0; i < 20; ++i)
      line.scores().Tell(line.IdOf(2 * i), Hint::kDone, {}, {});
    for (int i = 0; i < 20; ++i) line.Pass(1);
    for (std::uint32_t i = 0; i < 20; ++i) line.Use(2 * i);
  }
  for (std::uint32_t i = 0; i < 20; ++i) line.scores().Tell(line.IdOf(2 * i), Hint::kDone, {}, {});
  for (int i = 0; i < 5; ++i) line.Pass(1);
  std::size_t human_first = 0;
  for (int i = 0; i < 20; ++i) human_first += line.Next()->slot % 2;
  EXPECT_EQ(human_first, 20U);
}

TEST(EntryScores, AChainWaitsOnceAndItsEndHandsOnWhatIsKnown) {
  LineOfEntries line("score");
  line.Add(0);
  line.Add(1, 0);
  line.Add(2, 1);
  const auto note = [&](std::uint32_t slot) -> const Note& {
    return line.scores().note(line.scores().Find(line.IdOf(slot)));
  };
  EXPECT_FALSE(note(0).waits);
  EXPECT_FALSE(note(1).waits);
  EXPECT_TRUE(note(2).waits);
  line.scores().Tell(line.IdOf(2), Hint::kAgain, {}, "tool");
  line.Pass(30);
  line.Remove(2);
  EXPECT_TRUE(note(1).waits);
  EXPECT_EQ(line.scores().StateName(note(1)), "tool");
  EXPECT_EQ(note(1).hint, kSaidAgain);
  // What several continue is nobody's.
  line.Add(3, 0);
  EXPECT_TRUE(note(0).shared);
  line.Remove(3);
  line.Remove(1);
  EXPECT_TRUE(note(0).waits);
  EXPECT_EQ(note(0).hint, kSaidNothing);
}

TEST(EntryScores, WhatANewcomerContinuesIsNotTakenForIt) {
  LineOfEntries line("score");
  Teach(&line, 20, 4);
  line.Pass(3);
  const std::optional<EntryId> first = line.Next();
  line.Enter(first->slot);
  line.scores().Spare(*first);
  std::vector<std::uint32_t> left;
  while (const auto next = line.Next()) left.push_back(next->slot);
  EXPECT_EQ(left.size(), 40U);
  EXPECT_EQ(left.back(), first->slot);  // When there is nobody else.
}

// Costs: of two alike the one leaves that is cheaper to have again, by the byte.
TEST(EntryScores, WhatAMissCostsCounts) {
  LineOfEntries line("score");
  Teach(&line, 20, 4);
  for (std::uint32_t slot : {100U, 101U}) {
    line.Add(slot);
    line.scores().Tell(line.IdOf(slot), Hint::kNone, {}, "human");
  }
  line.scores().Declare(line.IdOf(100), 50, line.FactsOf(100).tokens);
  line.Pass(10);
  std::vector<std::uint32_t> order;
  while (const auto next = line.Next()) order.push_back(next->slot);
  const auto at = [&](std::uint32_t slot) {
    return std::ranges::find(order, slot) - order.begin();
  };
  EXPECT_LT(at(101), at(100));
  const auto* const appraiser = line.order().appraiser();
  EXPECT_NEAR(appraiser->MissCost(line.IdOf(100), line.FactsOf(100)) *
                  static_cast<double>(line.FactsOf(100).bytes),
              50, 1e-6);
}

// The guard: what the score throws away is used, and last use would have kept it.
TEST(EntryScores, StepsBackWhenLastUseDoesBetter) {
  LineOfEntries line("score");
  Teach(&line, 20, 4);
  ASSERT_FALSE(line.scores().by_recency());
  std::uint32_t next = 1000;
  for (int i = 0; i < 4000 && line.scores().guard().fallbacks() == 0; ++i) {
    const std::uint32_t slot = next + static_cast<std::uint32_t>(i) % 8;
    if (line.Has(slot)) line.Remove(slot);  // As the score would have it.
    line.Pass(0.5);
    line.Add(slot);
  }
  EXPECT_EQ(line.scores().guard().fallbacks(), 1U);
  EXPECT_TRUE(line.scores().by_recency());
  EXPECT_EQ(line.order().name(Level::kPressure), "lru");
}

// Most were used since they were looked at: last use ranks for a while, and knows
// those who were taken out before.
TEST(EntryScores, NobodyIsHandedOutTwiceWhereLastUseTakesOver) {
  LineOfEntries line("score");
  Teach(&line, 200, 6);
  line.Pass(1);
  ASSERT_FALSE(line.scores().by_recency());
  std::set<std::uint32_t> taken;
  for (int i = 0; i < 50; ++i) taken.insert(line.Next()->slot);
  EXPECT_EQ(taken.size(), 50U);
  for (const std::uint32_t slot : line.Slots()) {
    if (!taken.contains(slot)) line.Use(slot);
  }
  while (const auto next = line.Next()) {
    EXPECT_TRUE(taken.insert(next->slot).second) << next->slot << " was taken out before";
    if (taken.size() > line.size()) break;
  }
  EXPECT_EQ(taken.size(), line.size());
  // And all who enter again are found again.
  for (const std::uint32_t slot : line.Slots()) line.Enter(slot);
  std::set<std::uint32_t> again;
  while (const auto next = line.Next()) again.insert(next->slot);
  EXPECT_EQ(again.size(), line.size());
}

TEST(GoneTable, AgreesWithASet) {
  NotePool pool(2048);
  GoneTable table(&pool);
  std::mt19937_64 dice(9);
  std::map<std::uint64_t, NoteId> there;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t hash = (dice() % 400 + 1) << (dice() % 3 * 20);  // Many share a home.
    const auto at = there.find(hash);
    ASSERT_EQ(table.Find(hash), at == there.end() ? kNoNote : at->second);
    if (at == there.end()) {
      const NoteId id = pool.Take();
      pool[id].hash = hash;
      table.Add(id);
      there[hash] = id;
    } else if (dice() % 3 != 0) {
      table.Remove(at->second);
      pool.Give(at->second);
      there.erase(at);
    }
    ASSERT_EQ(table.size(), there.size());
  }
}

TEST(RecencyWindow, HoldsWhatWasUsedLast) {
  RecencyWindow window;
  window.SetCapacity(10);
  for (int i = 0; i < 20; ++i) window.Add(i, 1);
  EXPECT_LE(window.bytes(), 10U);
  EXPECT_TRUE(*window.Held(19, 19.5));
  EXPECT_TRUE(*window.Held(11, 19.5));
  EXPECT_FALSE(*window.Held(5, 19.5));
  // As it was then.
  EXPECT_TRUE(*window.Held(8, 15));
  EXPECT_FALSE(window.Held(1, 2));  // Too long ago to say.
  window.Move(11, 20, 1);
  EXPECT_LE(window.bytes(), 10U);
}

// Against the obvious: a list.
TEST(RecencyWindow, AgreesWithAList) {
  std::mt19937_64 dice(4);
  RecencyWindow window;
  window.SetCapacity(1000);
  std::vector<std::pair<double, int>> list;  // Last use, key; ascending.
  std::size_t same = 0;
  std::size_t all = 0;
  for (int i = 0; i < 20000; ++i) {
    const double now = i * 0.01;
    const int key = static_cast<int>(std::min(dice() % 1500, dice() % 3000));
    const auto at = std::ranges::find(list, key, &std::pair<double, int>::second);
    if (at == list.end()) {
      window.Add(now, 1);
    } else {
      const bool held = list.end() - at <= 1000;
      const std::optional<bool> said = window.Held(at->first, now);
      ASSERT_TRUE(said);
      same += held == *said ? 1 : 0;
      ++all;
      window.Move(at->first, now, 1);
      list.erase(at);
    }
    list.emplace_back(now, key);
  }
  EXPECT_GT(static_cast<double>(same) / static_cast<double>(all), 0.99);
}

}  // namespace
}  // namespace spillway
