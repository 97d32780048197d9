// SPDX-License-Identifier: Apache-2.0
#include "policy/entry_scores.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "policy/score_order.h"
#include "policy/testing/queue_of_entries.h"

namespace spillway {
namespace {

using testing::QueueOfEntries;

// `pairs` pairs of entries: the first of each is used every 20 s, the other never. They differ in
// what they are said to wait for.
void Teach(QueueOfEntries* queue, std::uint32_t pairs, int rounds) {
  for (std::uint32_t i = 0; i < pairs; ++i) {
    queue->Add(2 * i);
    queue->Add(2 * i + 1);
    queue->scores().Tell(queue->IdOf(2 * i), Hint::kNone, {}, "tool");
    queue->scores().Tell(queue->IdOf(2 * i + 1), Hint::kNone, {}, "human");
  }
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 20; ++i) queue->Pass(1);
    for (std::uint32_t i = 0; i < pairs; ++i) queue->Use(2 * i);
  }
}

TEST(EntryScores, IsLastUseUntilItKnowsSomething) {
  QueueOfEntries queue("score");
  for (std::uint32_t slot : {3U, 1U, 2U}) {
    queue.Add(slot);
    queue.Pass(5);
  }
  queue.Use(3);
  EXPECT_TRUE(queue.scores().by_recency());
  EXPECT_EQ(queue.order().name(Level::kPressure), "lru");
  EXPECT_EQ(queue.Next()->slot, 1U);
  EXPECT_EQ(queue.Next()->slot, 2U);
  EXPECT_EQ(queue.Next()->slot, 3U);
}

TEST(EntryScores, LearnsWhoComesBackWithoutBeingTold) {
  QueueOfEntries queue("score");
  Teach(&queue, 20, 6);
  for (int i = 0; i < 10; ++i) queue.Pass(1);
  EXPECT_FALSE(queue.scores().by_recency());
  EXPECT_EQ(queue.order().name(Level::kPressure), "score");
  // By last use the "tool" entries would also come last. So the others are used once, just now, and
  // the "tool" entries are due.
  for (std::uint32_t i = 0; i < 20; ++i) queue.Use(2 * i + 1);
  queue.Pass(3);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(queue.Next()->slot % 2, 1U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(queue.Next()->slot % 2, 0U);
}

TEST(EntryScores, FindsUsesByItself) {
  QueueOfEntries queue("score");
  Teach(&queue, 10, 4);
  // No call announced the uses: the count was read when an age passed a step.
  EXPECT_GE(queue.scores().returns(), 30);
  const HistoryRecord& record = queue.scores().record(queue.scores().Find(queue.IdOf(0)));
  EXPECT_GE(record.uses, 4U);
  EXPECT_EQ(queue.scores().record(queue.scores().Find(queue.IdOf(1))).uses, 1U);
}

TEST(EntryScores, RemembersWhoIsGoneAndForgetsTheOldest) {
  QueueOfEntries queue("score", 4);
  for (std::uint32_t slot = 0; slot < 6; ++slot) {
    queue.Add(slot);
    queue.Pass(1);
    queue.Remove(slot);
  }
  EXPECT_EQ(queue.scores().remembered(), 4U);
  const EntryId back = queue.Add(5);
  EXPECT_EQ(queue.scores().record(queue.scores().Find(back)).uses, 2U);
  EXPECT_EQ(queue.scores().remembered(), 3U);
  const EntryId fresh = queue.Add(0);  // Its record was forgotten.
  EXPECT_EQ(queue.scores().record(queue.scores().Find(fresh)).uses, 1U);
}

TEST(EntryScores, AMissIsAUseOfWhoIsGone) {
  QueueOfEntries queue("score");
  queue.Add(1);
  queue.Pass(10);
  queue.Remove(1);
  queue.Pass(10);
  queue.scores().Missed(2, queue.now());  // The hash of slot 1.
  queue.scores().Missed(99, queue.now());
  EXPECT_EQ(queue.scores().returns(), 1);
  queue.Pass(1);
  const EntryId back = queue.Add(1);  // The insert that follows the miss; not another use.
  EXPECT_EQ(queue.scores().record(queue.scores().Find(back)).uses, 2U);
  EXPECT_EQ(queue.scores().returns(), 1);
}

TEST(EntryScores, WhoIsErasedIsForgotten) {
  QueueOfEntries queue("score");
  const EntryId id = queue.Add(1);
  queue.scores().Gone(id, queue.FactsOf(1), true, queue.now());
  EXPECT_EQ(queue.scores().remembered(), 0U);
  EXPECT_EQ(queue.scores().notes(), 0U);
}

TEST(EntryScores, WhoIsSaidToBeDoneLeavesFirst) {
  QueueOfEntries queue("score");
  Teach(&queue, 20, 4);
  queue.Use(4);
  queue.scores().Tell(queue.IdOf(4), Hint::kDone, {}, {});
  EXPECT_EQ(queue.Next()->slot, 4U);
}

TEST(EntryScores, AWrongWordLosesItsWeight) {
  QueueOfEntries queue("score");
  Teach(&queue, 20, 3);
  // "Done" is said again and again, but the entries are used again.
  for (int round = 0; round < 12; ++round) {
    for (std::uint32_t i = 0; i < 20; ++i)
      queue.scores().Tell(queue.IdOf(2 * i), Hint::kDone, {}, {});
    for (int i = 0; i < 20; ++i) queue.Pass(1);
    for (std::uint32_t i = 0; i < 20; ++i) queue.Use(2 * i);
  }
  for (std::uint32_t i = 0; i < 20; ++i)
    queue.scores().Tell(queue.IdOf(2 * i), Hint::kDone, {}, {});
  for (int i = 0; i < 5; ++i) queue.Pass(1);
  std::size_t human_first = 0;
  for (int i = 0; i < 20; ++i) human_first += queue.Next()->slot % 2;
  EXPECT_EQ(human_first, 20U);
}

// The end of a chain is said to be done, and the chain continues without its last entry.
TEST(EntryScores, AWordIsWrongAlsoWhereTheChainGoesOnAnotherWay) {
  QueueOfEntries queue("score");
  EXPECT_TRUE(queue.scores().believes_done());
  for (std::uint32_t chain = 0; chain < 20; ++chain) {
    const std::uint32_t root = 10 * chain;
    queue.Add(root);
    queue.Add(root + 1, root);
    queue.Add(root + 2, root + 1);
    queue.scores().Tell(queue.IdOf(root + 2), Hint::kDone, {}, {});
    queue.Pass(10);
    queue.Use(root + 1);
    queue.Add(root + 3, root + 1);
  }
  EXPECT_FALSE(queue.scores().believes_done());
}

TEST(EntryScores, AUseBeforeAWordIsNotWhatCameOfIt) {
  QueueOfEntries queue("score");
  queue.Add(0);
  queue.Add(1, 0);
  queue.Pass(10);
  queue.Use(1);
  queue.Pass(10);
  queue.Add(2, 1);  // Used less often than 1, so 1 waits for itself.
  const auto record = [&](std::uint32_t slot) -> const HistoryRecord& {
    return queue.scores().record(queue.scores().Find(queue.IdOf(slot)));
  };
  ASSERT_TRUE(record(1).ends);
  queue.Pass(5);
  queue.Use(2);
  ASSERT_EQ(record(1).uses, 2U);
  queue.scores().Tell(queue.IdOf(2), Hint::kDone, {}, {});
  EXPECT_EQ(record(1).uses, 3U);
  EXPECT_EQ(record(1).hint, kSaidDone);
}

TEST(EntryScores, AChainThatIsNotContinuedWhileOthersAreIsTakenToBeWhole) {
  QueueOfEntries queue("score");
  const auto open = [&](std::uint32_t slot) {
    return queue.scores().record(queue.scores().Find(queue.IdOf(slot))).open;
  };
  queue.Add(0);
  queue.Add(100);
  for (std::uint32_t i = 1; i < 10; ++i) {  // Two clients alternate.
    queue.Add(i, i - 1);
    queue.Add(100 + i, 99 + i);
    EXPECT_TRUE(open(i)) << i;
    EXPECT_TRUE(open(100 + i)) << i;
    EXPECT_FALSE(open(i - 1)) << i;
  }
  for (std::uint32_t i = 10; i < 15; ++i) queue.Add(i, i - 1);
  EXPECT_TRUE(open(14));
  EXPECT_FALSE(open(109));
}

// A superseded end of a chain is evicted before entries that are hardly ever used again.
TEST(EntryScores, AnEndThatWasSupersededLeavesBeforeAllThatIsNotOver) {
  QueueOfEntries queue("score");
  Teach(&queue, 20, 20);
  queue.Add(500);
  queue.Add(501, 500);
  queue.Add(502, 501);
  for (int i = 0; i < 5; ++i) queue.Pass(1);
  queue.Use(501);
  queue.Add(503, 501);
  queue.Pass(1);
  EXPECT_EQ(queue.Next()->slot, 502U);
}

TEST(EntryScores, AChainWaitsOnceAndItsEndHandsOnWhatIsKnown) {
  QueueOfEntries queue("score");
  queue.Add(0);
  queue.Add(1, 0);
  queue.Add(2, 1);
  const auto record = [&](std::uint32_t slot) -> const HistoryRecord& {
    return queue.scores().record(queue.scores().Find(queue.IdOf(slot)));
  };
  EXPECT_FALSE(record(0).waits);
  EXPECT_FALSE(record(1).waits);
  EXPECT_TRUE(record(2).waits);
  queue.scores().Tell(queue.IdOf(2), Hint::kAgain, {}, "tool");
  queue.Pass(30);
  queue.Remove(2);
  EXPECT_TRUE(record(1).waits);
  EXPECT_EQ(queue.scores().StateName(record(1)), "tool");
  EXPECT_EQ(record(1).hint, kSaidAgain);
  // What is known of an entry that several others continue belongs to none of them.
  queue.Add(3, 0);
  EXPECT_TRUE(record(0).shared);
  queue.Remove(3);
  queue.Remove(1);
  EXPECT_TRUE(record(0).waits);
  EXPECT_EQ(record(0).hint, kSaidNothing);
}

TEST(EntryScores, WhatANewcomerContinuesIsNotTakenForIt) {
  QueueOfEntries queue("score");
  Teach(&queue, 20, 4);
  queue.Pass(3);
  const std::optional<EntryId> first = queue.Next();
  queue.Enter(first->slot);
  queue.scores().Protect(*first);
  std::vector<std::uint32_t> left;
  while (const auto next = queue.Next()) left.push_back(next->slot);
  EXPECT_EQ(left.size(), 40U);
  EXPECT_EQ(left.back(), first->slot);  // Only if there is no other.
}

// Costs: of two entries with the same rate, the one that is cheaper to get again, per byte, is
// evicted.
TEST(EntryScores, WhatAMissCostsCounts) {
  QueueOfEntries queue("score");
  Teach(&queue, 20, 4);
  for (std::uint32_t slot : {100U, 101U}) {
    queue.Add(slot);
    queue.scores().Tell(queue.IdOf(slot), Hint::kNone, {}, "human");
  }
  queue.scores().Declare(queue.IdOf(100), 50, queue.FactsOf(100).tokens);
  queue.Pass(10);
  std::vector<std::uint32_t> order;
  while (const auto next = queue.Next()) order.push_back(next->slot);
  const auto at = [&](std::uint32_t slot) {
    return std::ranges::find(order, slot) - order.begin();
  };
  EXPECT_LT(at(101), at(100));
  const auto* const cost_model = queue.order().cost_model();
  EXPECT_NEAR(cost_model->MissCost(queue.IdOf(100), queue.FactsOf(100)) *
                  static_cast<double>(queue.FactsOf(100).bytes),
              50, 1e-6);
}

// The LRU fallback: entries evicted by the score are used, and LRU would have kept them.
TEST(EntryScores, StepsBackWhenLastUseDoesBetter) {
  QueueOfEntries queue("score");
  Teach(&queue, 20, 4);
  ASSERT_FALSE(queue.scores().by_recency());
  std::uint32_t next = 1000;
  for (int i = 0; i < 4000 && queue.scores().lru_fallback().fallbacks() == 0; ++i) {
    const std::uint32_t slot = next + static_cast<std::uint32_t>(i) % 8;
    if (queue.Has(slot)) queue.Remove(slot);  // As if the score had evicted it.
    queue.Pass(0.5);
    queue.Add(slot);
  }
  EXPECT_EQ(queue.scores().lru_fallback().fallbacks(), 1U);
  EXPECT_TRUE(queue.scores().by_recency());
  EXPECT_EQ(queue.order().name(Level::kPressure), "lru");
}

// Most entries were used since they were inspected. LRU then ranks for a while, and does not return
// entries that were taken out before.
TEST(EntryScores, NobodyIsHandedOutTwiceWhereLastUseTakesOver) {
  QueueOfEntries queue("score");
  Teach(&queue, 200, 6);
  queue.Pass(1);
  ASSERT_FALSE(queue.scores().by_recency());
  std::set<std::uint32_t> taken;
  for (int i = 0; i < 50; ++i) taken.insert(queue.Next()->slot);
  EXPECT_EQ(taken.size(), 50U);
  for (const std::uint32_t slot : queue.Slots()) {
    if (!taken.contains(slot)) queue.Use(slot);
  }
  while (const auto next = queue.Next()) {
    EXPECT_TRUE(taken.insert(next->slot).second) << next->slot << " was taken out before";
    if (taken.size() > queue.size()) break;
  }
  EXPECT_EQ(taken.size(), queue.size());
  // Entries that are inserted again are found again.
  for (const std::uint32_t slot : queue.Slots()) queue.Enter(slot);
  std::set<std::uint32_t> again;
  while (const auto next = queue.Next()) again.insert(next->slot);
  EXPECT_EQ(again.size(), queue.size());
}

TEST(GoneTable, AgreesWithASet) {
  HistoryPool pool(2048);
  GoneTable table(&pool);
  std::mt19937_64 dice(9);
  std::map<std::uint64_t, HistoryRecordId> there;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t hash = (dice() % 400 + 1) << (dice() % 3 * 20);  // Many share a home cell.
    const auto at = there.find(hash);
    ASSERT_EQ(table.Find(hash), at == there.end() ? kNoRecord : at->second);
    if (at == there.end()) {
      const HistoryRecordId id = pool.Take();
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

// Records whose memory was returned are made anew, and with numbers that no position of the
// earlier ones has.
TEST(HistoryPool, ShrinksToTheLastRecordInUse) {
  HistoryPool pool(4096);
  std::vector<HistoryRecordId> ids;
  for (int i = 0; i < 4000; ++i) {
    ids.push_back(pool.Take());
    pool[ids.back()].here = true;
  }
  const std::uint32_t queued = pool[ids[3000]].queued;
  const std::uint32_t life = pool[ids[3000]].life;
  for (int i = 0; i < 4000; ++i) {
    if (i != 7 && i != 1000) pool.Give(ids[static_cast<std::size_t>(i)]);
  }
  pool[ids[1000]].here = false;  // Its bytes are gone, but it is remembered.
  pool[ids[1000]].hash = 99;
  pool.Shrink();
  EXPECT_EQ(pool.size(), 2U);
  EXPECT_TRUE(pool[ids[7]].here);
  EXPECT_EQ(pool[ids[1000]].hash, 99U);
  EXPECT_EQ(pool[ids[3000]].queued, 0U) << "its memory was returned";
  std::set<HistoryRecordId> taken = {ids[7], ids[1000]};
  for (int i = 0; i < 3998; ++i) {
    const HistoryRecordId id = pool.Take();
    pool[id].here = true;
    ASSERT_TRUE(taken.insert(id).second) << id;
    if (id == ids[3000]) {
      EXPECT_GT(pool[id].queued, queued);
      EXPECT_GT(pool[id].life, life);
    }
  }
  EXPECT_TRUE(taken.contains(ids[3000]));
  EXPECT_EQ(pool.size(), 4000U);
}

TEST(RecencyWindow, HoldsWhatWasUsedLast) {
  RecencyWindow window;
  window.SetCapacity(10);
  for (int i = 0; i < 20; ++i) window.Add(i, 1);
  EXPECT_LE(window.bytes(), 10U);
  EXPECT_TRUE(*window.Held(19, 19.5));
  EXPECT_TRUE(*window.Held(11, 19.5));
  EXPECT_FALSE(*window.Held(5, 19.5));
  // As it was at that time.
  EXPECT_TRUE(*window.Held(8, 15));
  EXPECT_FALSE(window.Held(1, 2));  // Too long ago to say.
  window.Move(11, 20, 1);
  EXPECT_LE(window.bytes(), 10U);
}

// Compared with a plain list.
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
