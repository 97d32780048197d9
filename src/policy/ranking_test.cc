// SPDX-License-Identifier: Apache-2.0
#include "policy/ranking.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace spillway {
namespace {

// A table of entries for the tests.
class Table : public FactReader {
 public:
  bool Read(EntryId id, Facts* facts) const override {
    const auto it = rows.find(id.slot);
    if (it == rows.end() || it->second.first != id.tag) return false;
    *facts = it->second.second;
    return true;
  }
  RankMarks* Marks(EntryId id) const override {
    ++looks;
    const auto it = rows.find(id.slot);
    return it == rows.end() || it->second.first != id.tag ? nullptr : &marks[id.slot];
  }
  EntryId Add(std::uint32_t slot, Duration last_use, Tokens tokens = 1,
              std::uint64_t accesses = 1) {
    Facts facts;
    facts.last_use = TimePoint(last_use);
    facts.tokens = tokens;
    facts.access_count = accesses;
    facts.place = ++places;
    rows[slot] = {++tags, facts};
    marks[slot] = 0;
    return {slot, tags};
  }
  Facts& At(std::uint32_t slot) { return rows.at(slot).second; }

  std::map<std::uint32_t, std::pair<std::uint32_t, Facts>> rows;
  mutable std::map<std::uint32_t, RankMarks> marks;
  mutable std::size_t looks = 0;
  std::uint64_t places = 0;
  std::uint32_t tags = 0;
};

using std::chrono::seconds;

TEST(Ranking, GivesTheLeastFirst) {
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  for (std::uint32_t slot = 0; slot < 5; ++slot) {
    const EntryId id = table.Add(slot, seconds((slot * 3) % 5));
    ranking.Enter(id, table.At(slot));
  }
  std::vector<std::uint32_t> order;
  while (const auto id = ranking.Next()) order.push_back(id->slot);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 2, 4, 1, 3}));
}

TEST(Ranking, EqualKeysLeaveInTheOrderTheyCame) {
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  for (const std::uint32_t slot : {4U, 1U, 3U, 0U, 2U}) {
    const EntryId id = table.Add(slot, seconds(7));
    ranking.Enter(id, table.At(slot));
  }
  std::vector<std::uint32_t> order;
  while (const auto id = ranking.Next()) order.push_back(id->slot);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{4, 1, 3, 0, 2}));
}

TEST(Ranking, SeesUsesNobodyToldItOf) {
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  const EntryId a = table.Add(0, seconds(1));
  const EntryId b = table.Add(1, seconds(2));
  ranking.Enter(a, table.At(0));
  ranking.Enter(b, table.At(1));
  table.At(0).last_use = TimePoint(seconds(3));
  EXPECT_EQ(ranking.Next(), b);
  EXPECT_EQ(ranking.Next(), a);
}

TEST(Ranking, ABoundStopsItWithoutTakingAnythingOut) {
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  const EntryId a = table.Add(0, seconds(5));
  ranking.Enter(a, table.At(0));
  EXPECT_EQ(ranking.Next(Duration(seconds(5)).count() - 1), std::nullopt);
  EXPECT_EQ(ranking.Next(Duration(seconds(5)).count()), a);
}

TEST(Ranking, SkipsParentsUntilTheyAreEnteredAgain) {
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  const EntryId parent = table.Add(0, seconds(1));
  const EntryId child = table.Add(1, seconds(2));
  ranking.Enter(parent, table.At(0));
  table.At(0).children = 1;
  ranking.Enter(child, table.At(1));
  EXPECT_EQ(ranking.Next(), child);
  EXPECT_EQ(ranking.Next(), std::nullopt);
  table.At(0).children = 0;
  ranking.Enter(parent, table.At(0));
  EXPECT_EQ(ranking.Next(), parent);
}

TEST(Ranking, EnteringTwiceQueuesOnce) {
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  const EntryId a = table.Add(0, seconds(1));
  ranking.Enter(a, table.At(0));
  ranking.Enter(a, table.At(0));
  EXPECT_EQ(ranking.Next(), a);
  EXPECT_EQ(ranking.Next(), std::nullopt);
}

TEST(Ranking, ForgetsTheFormerTenantOfASlot) {
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  const EntryId old = table.Add(0, seconds(1));
  ranking.Enter(old, table.At(0));
  ranking.Left(old);
  const EntryId fresh = table.Add(0, seconds(9));
  ranking.Enter(fresh, table.At(0));
  EXPECT_EQ(ranking.Next(), fresh);
  EXPECT_EQ(ranking.Next(), std::nullopt);
}

TEST(Ranking, WhoLeavesAndEntersAgainIsGivenOnce) {
  for (const std::uint32_t others : {0U, 3000U}) {
    Table table;
    Ranking ranking(KeyByLastUse, &table, RankMark{1});
    const EntryId id = table.Add(0, seconds(1));
    for (std::uint32_t slot = 1; slot <= others; ++slot) {
      const EntryId other = table.Add(slot, seconds(slot % 3));
      ranking.Enter(other, table.At(slot));
    }
    ranking.Enter(id, table.At(0));
    for (int i = 0; i < 20'000; ++i) {
      ranking.Left(id);
      EXPECT_FALSE(ranking.Holds(id));
      ranking.Enter(id, table.At(0));
    }
    std::size_t all = 0;
    std::size_t times = 0;
    while (const auto next = ranking.Next()) {
      ++all;
      times += *next == id ? 1 : 0;
    }
    EXPECT_EQ(times, 1U);
    EXPECT_EQ(all, others + 1);
  }
}

// The entries nearest to eviction have all been used: they move farther away, and no others need to
// be read.
TEST(Ranking, ABandThatEmptiesCostsNoLookAtAllOthers) {
  constexpr std::uint32_t kAll = 100'000;
  Table table;
  Ranking ranking(KeyByLastUse, &table, RankMark{1});
  for (std::uint32_t slot = 0; slot < kAll; ++slot) {
    const EntryId id = table.Add(slot, seconds(slot + 1));
    ranking.Enter(id, table.At(slot));
  }
  for (std::uint32_t slot = 0; slot < kAll / 5; ++slot) {
    table.At(slot).last_use = TimePoint(seconds(2 * kAll + slot));
  }
  table.looks = 0;
  for (std::uint32_t slot = kAll / 5; slot < kAll / 5 + 100; ++slot) {
    EXPECT_EQ(ranking.Next()->slot, slot);
  }
  EXPECT_LT(table.looks, kAll / 2) << "each of those used, and some";
}

TEST(Ranking, HeavyMeansTokensPerAccess) {
  Facts light;
  light.tokens = 900;
  light.access_count = 3;
  Facts heavy;
  heavy.tokens = 301;
  heavy.access_count = 1;
  EXPECT_LT(KeyByWeight(heavy), KeyByWeight(light));
  heavy.access_count = 0;  // Counts as 1.
  EXPECT_LT(KeyByWeight(heavy), KeyByWeight(light));
  light.tokens = 0;
  EXPECT_EQ(KeyByWeight(light), 0);
}

TEST(Ranking, HybridIsLastUsePlusTenSecondsPerAccess) {
  Facts facts;
  facts.last_use = TimePoint(seconds(100));
  facts.access_count = 3;
  EXPECT_EQ(KeyByHybrid(facts), Duration(seconds(130)).count());
}

// Compared with a sort of all entries, through uses, removals and inserts.
TEST(Ranking, AgreesWithASortWhateverHappens) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    Table table;
    Ranking ranking(seed % 2 == 0 ? KeyByLastUse : KeyByWeight, &table, RankMark{1});
    std::int64_t now = 0;
    for (int step = 0; step < 4000; ++step) {
      const auto slot = static_cast<std::uint32_t>(random() % 300);
      const auto it = table.rows.find(slot);
      ++now;
      switch (random() % 4) {
        case 0:
        case 1:
          if (it == table.rows.end()) {
            const EntryId id = table.Add(slot, Duration(now), static_cast<Tokens>(random() % 50));
            ranking.Enter(id, table.At(slot));
          } else {
            it->second.second.last_use = TimePoint(Duration(now));
            ++it->second.second.access_count;
          }
          break;
        case 2:
          if (it != table.rows.end()) {
            const EntryId id{slot, it->second.first};
            ranking.Left(id);
            table.rows.erase(it);
          }
          break;
        default: {
          const auto got = ranking.Next();
          if (table.rows.empty()) {
            ASSERT_FALSE(got) << "seed " << seed;
            break;
          }
          const auto least = std::min_element(
              table.rows.begin(), table.rows.end(), [&](const auto& a, const auto& b) {
                const auto ka = ranking.KeyFor(a.second.second);
                const auto kb = ranking.KeyFor(b.second.second);
                return ka != kb ? ka < kb : a.second.second.place < b.second.second.place;
              });
          ASSERT_TRUE(got) << "seed " << seed << " step " << step;
          ASSERT_EQ(got->slot, least->first) << "seed " << seed << " step " << step;
          ranking.Enter(*got, table.At(got->slot));
        }
      }
    }
  }
}

// Enough entries for several bands, which are cut by stored keys or read again.
TEST(Ranking, AgreesWithASortOfManyHoweverManyWereUsed) {
  constexpr std::uint32_t kEntries = 20'000;
  for (const unsigned used_percent : {0U, 30U, 60U, 80U, 100U}) {
    std::mt19937 random(used_percent + 1);
    Table table;
    Ranking ranking(KeyByWeight, &table, RankMark{2});
    for (std::uint32_t slot = 0; slot < kEntries; ++slot) {
      const EntryId id = table.Add(slot, seconds(1), static_cast<Tokens>(random() % 4096));
      ranking.Enter(id, table.At(slot));
    }
    for (int round = 0; round < 3; ++round) {
      for (auto& [slot, row] : table.rows) {
        if (random() % 100 < used_percent) ++row.second.access_count;
        if (slot % 50 == 7) row.second.children = static_cast<std::uint32_t>(round) % 2;
      }
      std::vector<std::pair<std::int64_t, std::uint64_t>> expected;
      for (const auto& [slot, row] : table.rows) {
        if (row.second.children > 0) continue;
        ranking.Enter({slot, row.first}, row.second);
        expected.emplace_back(ranking.KeyFor(row.second), row.second.place);
      }
      std::sort(expected.begin(), expected.end());
      for (std::size_t i = 0; i < 3000; ++i) {
        const std::optional<EntryId> got = ranking.Next();
        ASSERT_TRUE(got) << used_percent << " % used, round " << round << ", number " << i;
        const Facts& facts = table.At(got->slot);
        ASSERT_EQ(std::pair(ranking.KeyFor(facts), facts.place), expected[i])
            << used_percent << " % used, round " << round << ", number " << i;
        ranking.Left(*got);
        table.rows.erase(got->slot);
      }
    }
  }
}

}  // namespace
}  // namespace spillway
