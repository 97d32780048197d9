#include "policy/plain_queues.h"

#include <chrono>
#include <map>
#include <ranges>
#include <vector>

#include <gtest/gtest.h>

#include "policy/use_levels.h"

namespace spillway {
namespace {

double Seconds(TimePoint at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

class Entries : public FactReader {
 public:
  bool Read(EntryId id, Facts* facts) const override {
    const auto at = rows.find(id.slot);
    if (at == rows.end() || at->second.tag != id.tag) return false;
    *facts = at->second.facts;
    return true;
  }
  RankMarks* Marks(EntryId id) const override {
    const auto at = rows.find(id.slot);
    return at == rows.end() || at->second.tag != id.tag ? nullptr : &at->second.marks;
  }

  EntryId Add(std::uint32_t slot, int second, std::uint64_t uses = 1) {
    Row& row = rows[slot];
    row = {++tags, {}, 0};
    row.facts.access_count = uses;
    row.facts.last_use = TimePoint(std::chrono::seconds(second));
    return {slot, row.tag};
  }
  Facts& At(EntryId id) { return rows.at(id.slot).facts; }
  void Use(EntryId id, int second) {
    ++At(id).access_count;
    At(id).last_use = TimePoint(std::chrono::seconds(second));
  }
  void Remove(EntryId id) { rows.erase(id.slot); }

  struct Row {
    std::uint32_t tag;
    Facts facts;
    RankMarks marks;
  };
  mutable std::map<std::uint32_t, Row> rows;
  std::uint32_t tags = 0;
};

class PlainQueuesTest : public ::testing::Test {
 protected:
  EntryId Enter(std::uint32_t slot, int second, std::uint64_t uses = 1) {
    const EntryId id = entries_.Add(slot, second, uses);
    EXPECT_TRUE(queues_.Enter(id, entries_.At(id), Seconds(entries_.At(id).last_use)));
    return id;
  }
  // All that leave, by slot. Worth: `levels` of the queue, or by age alone.
  std::vector<std::uint32_t> TakeAll(const std::vector<double>& by_level = {}) {
    std::vector<std::uint32_t> order;
    for (;;) {
      if (!queues_.serves()) {
        const auto worth = queues_.Compare([&](std::size_t level, double since) {
          return by_level.empty() ? since : by_level.at(level);
        });
        if (!worth) return order;
      }
      const auto id = queues_.TryTake(Seconds);
      if (id) order.push_back(id->slot);
    }
  }

  Entries entries_;
  PlainQueues queues_{&entries_, RankMark{4}};
};

using Slots = std::vector<std::uint32_t>;

TEST_F(PlainQueuesTest, LongestWaitingOfALevelLeavesFirst) {
  for (std::uint32_t slot = 0; slot < 5; ++slot) Enter(slot, static_cast<int>(slot));
  EXPECT_EQ(TakeAll(), (Slots{0, 1, 2, 3, 4}));
  EXPECT_EQ(queues_.places(), 0U);
}

TEST_F(PlainQueuesTest, WorthChoosesTheLevel) {
  Enter(0, 0, 1);
  Enter(1, 1, 7);
  Enter(2, 2, 1);
  std::vector<double> worth(PlainQueues::kLevels, 5);
  worth[UseLevel(7)] = 1;
  EXPECT_EQ(TakeAll(worth), (Slots{1, 0, 2}));
}

TEST_F(PlainQueuesTest, WhoWasUsedSinceStandsAmongThoseUsedAsOften) {
  const EntryId used = Enter(0, 0);
  Enter(1, 1);
  entries_.Use(used, 9);
  std::vector<double> worth(PlainQueues::kLevels, 5);
  worth[UseLevel(1)] = 1;
  EXPECT_EQ(TakeAll(worth), (Slots{1, 0}));
}

TEST_F(PlainQueuesTest, WhoWasUsedGoesAllTheSameWhereThatIsSaid) {
  const EntryId used = Enter(0, 0);
  entries_.Use(used, 9);
  ASSERT_TRUE(queues_.Compare([](std::size_t, double) { return 1.0; }));
  EXPECT_EQ(queues_.TryTake(Seconds, /*even_if_used=*/true), used);
  EXPECT_FALSE(queues_.Holds(used));
}

TEST_F(PlainQueuesTest, WhoLeftOtherwiseOrHasChildrenIsNotGiven) {
  const EntryId left = Enter(0, 0);
  const EntryId gone = Enter(1, 1);
  const EntryId parent = Enter(2, 2);
  Enter(3, 3);
  queues_.Left(left);
  entries_.Remove(gone);
  entries_.At(parent).children = 1;
  EXPECT_EQ(TakeAll(), (Slots{3}));
  // Its last child has left.
  entries_.At(parent).children = 0;
  EXPECT_TRUE(queues_.Enter(parent, entries_.At(parent), 2));
  EXPECT_EQ(TakeAll(), (Slots{2}));
}

// As a plan that comes to nothing puts them back, from its end, or as those who were
// passed by are.
TEST_F(PlainQueuesTest, WhoIsPutBackStandsWhereItStood) {
  for (std::uint32_t slot = 0; slot < 1'000; ++slot) Enter(slot, static_cast<int>(slot));
  const Slots all = TakeAll();
  const auto id_of = [&](std::uint32_t slot) { return EntryId{slot, entries_.rows.at(slot).tag}; };
  const auto put_back = [&](std::uint32_t slot) {
    const Facts& facts = entries_.At(id_of(slot));
    ASSERT_TRUE(queues_.Enter(id_of(slot), facts, Seconds(facts.last_use)));
  };
  for (const std::uint32_t slot : all | std::views::reverse) put_back(slot);
  EXPECT_EQ(TakeAll(), all);
  // Some of them leave otherwise, so many that their places are thrown away.
  for (std::uint32_t slot = 300; slot < 1'000; ++slot) put_back(slot);
  for (std::uint32_t i = 0; i < 300; ++i) put_back(i * 7 % 300);
  Enter(1'000, 1'000);
  Slots expected;
  for (std::uint32_t slot = 0; slot <= 1'000; ++slot) {
    if (slot % 4 == 0) {
      expected.push_back(slot);
    } else {
      queues_.Left(id_of(slot));
    }
  }
  EXPECT_LT(queues_.places(), 1'001U);
  EXPECT_EQ(TakeAll(), expected);
  EXPECT_EQ(queues_.places(), 0U);
}

// Those of a cache that has run for years, too.
TEST_F(PlainQueuesTest, TimeDoesNotEnd) {
  constexpr int kYear = 365 * 24 * 3600;
  for (std::uint32_t slot = 0; slot < 5; ++slot) Enter(slot, static_cast<int>(slot) * kYear);
  EXPECT_EQ(TakeAll(), (Slots{0, 1, 2, 3, 4}));
}

TEST_F(PlainQueuesTest, EnteringTwiceIsOnePlace) {
  const EntryId id = Enter(0, 0);
  EXPECT_TRUE(queues_.Holds(id));
  EXPECT_TRUE(queues_.Enter(id, entries_.At(id), 0));
  EXPECT_EQ(queues_.places(), 1U);
  EXPECT_EQ(TakeAll(), (Slots{0}));
  EXPECT_FALSE(queues_.Holds(id));
}

TEST_F(PlainQueuesTest, PlacesOfThoseWhoLeftDoNotPileUp) {
  const EntryId stays = Enter(0, 0);
  for (int i = 1; i < 100'000; ++i) {
    const EntryId id = Enter(1, i);
    queues_.Left(id);
    entries_.Remove(id);
    ASSERT_LE(queues_.places(), 200U);
  }
  // Nor do those of one who leaves and enters again.
  for (int i = 1; i < 100'000; ++i) {
    queues_.Left(stays);
    ASSERT_TRUE(queues_.Enter(stays, entries_.At(stays), i));
    ASSERT_LE(queues_.places(), 400U);
  }
  EXPECT_EQ(TakeAll(), (Slots{0}));
  // Nor of those who were put back.
  Enter(0, 1'000);
  for (int i = 1; i < 1'000; ++i) {
    const EntryId id = Enter(1, 1'000 - i);
    queues_.Left(id);
    entries_.Remove(id);
    ASSERT_LE(queues_.places(), 200U);
  }
  EXPECT_EQ(TakeAll(), (Slots{0}));
}

}  // namespace
}  // namespace spillway
