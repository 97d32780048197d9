// SPDX-License-Identifier: Apache-2.0
#include "policy/workflow_order.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Kind = NextUse::Kind;
using Filter = WorkflowOrder::CandidateFilter;

// A table of entries for the tests.
class WorkflowOrderTest : public ::testing::Test, public FactReader {
 protected:
  WorkflowOrderTest() {
    outlooks.armed = outlooks.in_force = true;
    outlooks.now = TimePoint(seconds(1000));
    running.most = 100;
  }
  bool Read(EntryId id, Facts* facts) const override {
    const auto found = rows.find(id.slot);
    if (found == rows.end()) return false;
    *facts = found->second;
    return true;
  }
  RankMarks* Marks(EntryId id) const override {
    return rows.contains(id.slot) ? &marks[id.slot] : nullptr;
  }
  // An entry idle for so many seconds, with unknown next use.
  EntryId Add(std::uint32_t slot, int idle) {
    Facts facts;
    facts.last_use = outlooks.now - seconds(idle);
    facts.place = slot;
    facts.bytes = 10;
    rows[slot] = facts;
    return {slot, 1};
  }
  EntryId Add(std::uint32_t slot, int idle, Kind kind, std::uint32_t steps, double p = 1) {
    const EntryId id = Add(slot, idle);
    NextUse* const next_use = outlooks.Make(id);
    next_use->kind = kind;
    next_use->steps = steps;
    next_use->eta_s = steps * 10;
    next_use->p = p;
    next_use->bytes = 10;
    next_use->as_of = outlooks.now;
    next_use->running_since = outlooks.now;
    return id;
  }
  void EnterAll() {
    for (const auto& [slot, facts] : rows) workflow_order.Entered({slot, 1}, facts);
  }
  std::string All(Filter filter) {
    std::string order;
    while (const auto next = workflow_order.Next(filter))
      order += static_cast<char>('0' + next->slot);
    return order;
  }

  std::map<std::uint32_t, Facts> rows;
  mutable std::map<std::uint32_t, RankMarks> marks;
  NextUseTable outlooks;
  WorkflowOrder::Running running;
  WorkflowOrder workflow_order{this, &outlooks, 1, RankMark{1}, &running};
};

TEST_F(WorkflowOrderTest, TheDeadGoFirstThenTheFurthestAndRunnersLast) {
  Add(1, 5, Kind::kRunning, 0);
  Add(2, 5, Kind::kWanted, 1);
  Add(3, 5, Kind::kWanted, 4);
  Add(4, 0, Kind::kDead, 0);
  Add(5, 5, Kind::kNext, 0);
  Add(6, 5, Kind::kWanted, 4, 0.5);
  EnterAll();
  EXPECT_EQ(All(Filter::kAny), "463251");
}

TEST_F(WorkflowOrderTest, TheUnknownGoByIdlenessAmongTheWanted) {
  Add(1, 0, Kind::kWanted, 2);  // In 20 s: worth the same as an entry that is idle for 20 s.
  Add(2, 5);
  Add(3, 60);
  EnterAll();
  EXPECT_EQ(All(Filter::kAny), "312");
}

TEST_F(WorkflowOrderTest, WithoutAnyNextUseItIsByLastUse) {
  for (std::uint32_t slot = 1; slot < 6; ++slot) Add(slot, static_cast<int>(slot * 7 % 5));
  EnterAll();
  EXPECT_EQ(All(Filter::kNotProtected), "24135");
}

TEST_F(WorkflowOrderTest, RunnersAreProtectedUpToHalfATierAndForTenMinutes) {
  Add(1, 5, Kind::kRunning, 0);
  Add(2, 5, Kind::kRunning, 0);
  EnterAll();
  EXPECT_EQ(All(Filter::kNotProtected), "");
  running.most = 15;  // Enough for one of the two.
  EXPECT_EQ(All(Filter::kNotProtected), "1");
  running.most = 100;
  outlooks.now += minutes(9);
  EXPECT_EQ(All(Filter::kNotProtected), "");
  outlooks.now += minutes(1);
  EXPECT_EQ(All(Filter::kNotProtected), "2");
}

TEST_F(WorkflowOrderTest, OnlyUnwantedEntriesAreEvictedAtOnce) {
  Add(1, 50, Kind::kWanted, 9);
  Add(2, 0, Kind::kDead, 0);
  Add(3, 0);
  EnterAll();
  EXPECT_EQ(All(Filter::kUnwanted), "23");
  EXPECT_EQ(All(Filter::kNotProtected), "1");
}

TEST_F(WorkflowOrderTest, AnEntryCalledDeadAndUsedIsUnknown) {
  const EntryId wrong = Add(1, 0, Kind::kDead, 0);
  Add(2, 30);
  outlooks.Find(wrong)->as_of = outlooks.now - seconds(10);
  EnterAll();
  EXPECT_EQ(All(Filter::kNotProtected), "21");
  EXPECT_EQ(outlooks.Find(wrong), nullptr);
}

// An entry with copies in two tiers is in a queue of each.
TEST_F(WorkflowOrderTest, AnEntryCalledDeadAndUsedIsUnknownInEveryQueue) {
  WorkflowOrder second{this, &outlooks, 2, RankMark{2}, &running};
  const EntryId wrong = Add(1, 0, Kind::kDead, 0);
  Add(2, 30);
  outlooks.Find(wrong)->as_of = outlooks.now - seconds(10);
  EnterAll();
  for (const auto& [slot, facts] : rows) second.Entered({slot, 1}, facts);
  EXPECT_EQ(All(Filter::kNotProtected), "21");
  EXPECT_EQ(outlooks.Find(wrong), nullptr);
  std::string order;
  while (const auto next = second.Next(Filter::kNotProtected)) {
    order += static_cast<char>('0' + next->slot);
  }
  EXPECT_EQ(order, "21");
  EXPECT_EQ(outlooks.FindAny(wrong), nullptr);  // It is not kept for ever.
}

TEST_F(WorkflowOrderTest, ManyChangesLeaveNoManyPlaces) {
  const EntryId id = Add(1, 5, Kind::kWanted, 1);
  Add(2, 5, Kind::kWanted, 2);
  EnterAll();
  for (std::uint32_t change = 0; change < 10'000; ++change) {
    workflow_order.Left(id);
    outlooks.Find(id)->steps = change % 5;
    outlooks.Changed(outlooks.Find(id));
    workflow_order.Entered(id, rows.at(1));
  }
  EXPECT_LT(workflow_order.nodes(), 200U);
  EXPECT_EQ(All(Filter::kAny), "12");
}

TEST_F(WorkflowOrderTest, AnEntryThatGetsANextUseLeavesTheUnknown) {
  const EntryId id = Add(1, 500);
  Add(2, 100);
  EnterAll();
  workflow_order.Left(id);
  Add(1, 500, Kind::kNext, 0);
  workflow_order.Entered(id, rows.at(1));
  EXPECT_EQ(All(Filter::kNotProtected), "21");
}

// The graph forgets a key and names it again while its old place in the queue is
// still there.
TEST_F(WorkflowOrderTest, AnOldPlaceDoesNotCountForANewNextUse) {
  const EntryId id = Add(1, 5, Kind::kWanted, 9);
  Add(2, 5, Kind::kWanted, 1);
  EnterAll();
  workflow_order.Left(id);
  outlooks.Erase(id);
  workflow_order.Entered(id, rows.at(1));
  workflow_order.Left(id);
  Add(1, 5, Kind::kNext, 0);
  workflow_order.Entered(id, rows.at(1));
  EXPECT_EQ(All(Filter::kNotProtected), "21");
}

// An order that has learned something ranks all entries, known to the graph or not.
class Learnt final : public Order, public CostModel {
 public:
  std::string_view name(Level) const override { return "learnt"; }
  bool OnInsert(EntryId id, const Facts&) override { return slots.insert(id.slot), true; }
  void OnRemove(EntryId id) override { slots.erase(id.slot); }
  std::optional<EntryId> Next(Level) override { return NextByWorth(); }
  std::optional<EntryId> NextByWorth() override {
    if (slots.empty()) return std::nullopt;
    const std::uint32_t first = *slots.begin();
    slots.erase(slots.begin());
    return EntryId{first, 1};
  }
  std::int64_t KeyFor(Level, const Facts& facts) const override {
    return static_cast<std::int64_t>(facts.place);
  }
  const CostModel* cost_model() const override { return this; }
  bool speaks() const override { return knows; }
  double Rate(EntryId id, const Facts&) const override { return id.slot * 0.01; }
  double MissCost(EntryId, const Facts&) const override { return 1; }

  std::set<std::uint32_t> slots;
  bool knows = true;
};

TEST_F(WorkflowOrderTest, EachEntryIsHandedOutOnceThoughTwoOrdersRankThem) {
  Learnt learnt;
  WorkflowOrder both{this, &outlooks, 1, RankMark{2}, &running, &learnt};
  for (std::uint32_t slot = 0; slot < 200; ++slot) {
    slot % 2 == 0 ? Add(slot, 5, Kind::kWanted, 1 + slot % 7) : Add(slot, 5);
  }
  for (const auto& [slot, facts] : rows) {
    learnt.OnInsert({slot, 1}, facts);
    both.Entered({slot, 1}, facts);
  }
  std::set<std::uint32_t> taken;
  while (const auto next = both.Next(Filter::kAny)) {
    EXPECT_TRUE(taken.insert(next->slot).second) << next->slot << " was taken out before";
    if (taken.size() > rows.size()) break;
    learnt.knows = taken.size() % 10 != 0;  // From time to time ranking by last use is as good.
  }
  EXPECT_EQ(taken.size(), rows.size());
  // Entries known to the graph were skipped, and are still in the other order.
  for (const std::uint32_t slot : learnt.slots) EXPECT_EQ(slot % 2, 0U);
  EXPECT_EQ(learnt.slots.size(), 100U);
}

TEST_F(WorkflowOrderTest, BeforeAgreesWithNext) {
  const EntryId dead = Add(1, 0, Kind::kDead, 0);
  const EntryId far = Add(2, 0, Kind::kWanted, 5);
  const EntryId fresh = Add(3, 1);
  const EntryId runs = Add(4, 0, Kind::kRunning, 0);
  const auto before = [&](EntryId a, EntryId b) {
    return workflow_order.Before(a, rows.at(a.slot), b, rows.at(b.slot));
  };
  const EntryId order[] = {dead, far, fresh, runs};
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) EXPECT_EQ(before(order[a], order[b]), a < b) << a << " " << b;
  }
}

}  // namespace
}  // namespace spillway
