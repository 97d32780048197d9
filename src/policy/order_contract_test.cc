// SPDX-License-Identifier: Apache-2.0
// What every order of the product guarantees, whatever it ranks by. The orders of `spillway replay`
// have the same contract over blocks (replay/order); the engine's own use of them has it over
// entries (cache/order_contract_test.cc).
#include <algorithm>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "policy/testing/queue_of_entries.h"

namespace spillway {
namespace {

using EvictionQueue = testing::QueueOfEntries;

class EveryOrder : public ::testing::TestWithParam<std::string_view> {};

// Chains are set, grow, are used and removed, so that there is something to learn.
void Live(EvictionQueue* queue, std::uint64_t seed, int events) {
  std::mt19937_64 dice(seed);
  for (int i = 0; i < events; ++i) {
    queue->Pass(static_cast<double>(dice() % 4000) / 1000);
    const auto slot = static_cast<std::uint32_t>(dice() % 300);
    if (queue->size() > 200) {
      if (const auto next = queue->Next(i % 2 == 0 ? Level::kNormal : Level::kPressure)) {
        queue->Remove(next->slot);
      }
    }
    if (queue->Has(slot)) {
      queue->Use(slot);
    } else {
      const auto parent = static_cast<std::uint32_t>(dice() % 300);
      queue->Add(slot, queue->Has(parent) && dice() % 2 == 0 ? parent : EvictionQueue::kNoParent);
    }
  }
}

// All entries are taken, each once, none before its children.
std::vector<std::uint32_t> Drain(EvictionQueue* queue, Level level = Level::kPressure) {
  std::vector<std::uint32_t> left;
  while (const std::optional<EntryId> next = queue->Next(level)) {
    EXPECT_TRUE(queue->Has(next->slot)) << "one that is not there";
    if (!queue->Has(next->slot)) break;
    EXPECT_TRUE(queue->IsLeaf(next->slot)) << "a parent before its child";
    left.push_back(next->slot);
    queue->Remove(next->slot);
  }
  return left;
}

TEST_P(EveryOrder, EmptiesItselfLeavesFirst) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    EvictionQueue queue(GetParam());
    Live(&queue, seed, 3000);
    const std::vector<std::uint32_t> all = queue.Slots();
    std::vector<std::uint32_t> left =
        Drain(&queue, seed % 2 == 0 ? Level::kNormal : Level::kCritical);
    std::ranges::sort(left);
    EXPECT_EQ(left, all) << "seed " << seed;
    EXPECT_EQ(queue.size(), 0U);
    EXPECT_FALSE(queue.Next());
  }
}

TEST_P(EveryOrder, GivesNobodyTwiceUnlessItEntersAgain) {
  EvictionQueue queue(GetParam());
  Live(&queue, 5, 2000);
  std::set<std::uint32_t> taken;
  while (const auto next = queue.Next()) EXPECT_TRUE(taken.insert(next->slot).second);
  std::size_t leaves = 0;
  for (const std::uint32_t slot : queue.Slots()) leaves += queue.IsLeaf(slot) ? 1 : 0;
  EXPECT_EQ(taken.size(), leaves);
  for (const std::uint32_t slot : taken) queue.Enter(slot);
  std::set<std::uint32_t> again;
  while (const auto next = queue.Next()) EXPECT_TRUE(again.insert(next->slot).second);
  EXPECT_EQ(again, taken);
}

TEST_P(EveryOrder, EnteringTwiceIsEnteringOnce) {
  EvictionQueue queue(GetParam());
  Live(&queue, 6, 500);
  for (const std::uint32_t slot : queue.Slots()) {
    queue.Enter(slot);
    queue.Enter(slot);
  }
  const std::size_t all = queue.size();
  EXPECT_EQ(Drain(&queue).size(), all);
}

// The entries stay and can be read, like entries that moved to another queue: only the order can
// know that they are no longer in its queue.
TEST_P(EveryOrder, ForgetsWhoHasLeft) {
  EvictionQueue queue(GetParam());
  Live(&queue, 7, 2000);
  std::set<std::uint32_t> gone;
  std::set<std::uint32_t> stays;
  for (const std::uint32_t slot : queue.Slots()) {
    if (!queue.IsLeaf(slot)) continue;
    if (slot % 3 == 0) queue.Leave(slot);
    (slot % 3 == 0 ? gone : stays).insert(slot);
  }
  ASSERT_GT(gone.size(), 10U);
  std::set<std::uint32_t> offered;
  while (const auto next = queue.Next()) offered.insert(next->slot);
  EXPECT_EQ(offered, stays);
  for (const std::uint32_t slot : gone) queue.Enter(slot);
  std::set<std::uint32_t> again;
  while (const auto next = queue.Next()) again.insert(next->slot);
  EXPECT_EQ(again, gone) << "who enters again is known again";
}

TEST_P(EveryOrder, ASlotsNextTenantIsAnother) {
  EvictionQueue queue(GetParam());
  queue.Add(1);
  queue.Remove(1);
  const EntryId second = queue.Add(1);
  EXPECT_EQ(queue.Next(), second);
  EXPECT_FALSE(queue.Next());
}

TEST_P(EveryOrder, IsTheSameEveryTime) {
  const auto run = [&](std::uint64_t seed) {
    EvictionQueue queue(GetParam());
    Live(&queue, seed, 3000);
    return Drain(&queue);
  };
  for (std::uint64_t seed = 10; seed < 14; ++seed) EXPECT_EQ(run(seed), run(seed));
}

TEST_P(EveryOrder, RanksByTheKeyItNames) {
  // While time stands still only the key decides; of equal keys, the earlier entry comes first.
  EvictionQueue queue(GetParam());
  Live(&queue, 9, 4000);
  const auto key = [&](EntryId id) {
    Facts facts;
    EXPECT_TRUE(queue.Read(id, &facts));
    return queue.order().KeyOf(Level::kPressure, id, facts);
  };
  std::vector<std::int64_t> keys;
  while (const auto next = queue.Next()) keys.push_back(key(*next));
  EXPECT_GT(keys.size(), 50U);
  if (GetParam() == "score") {
    // Buckets are compared by their first entries. Ages within a bucket differ by less than half,
    // and usually so do the worths.
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
    EvictionQueue queue("score");
    Live(&queue, seed, 3000);
    in_force += queue.scores().by_recency() ? 0 : 1;
    EXPECT_GT(queue.scores().remembered(), 0U);
  }
  EXPECT_GE(in_force, 1U);
}

}  // namespace
}  // namespace spillway
