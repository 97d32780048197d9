#include "policy/foresight.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Kind = Outlook::Kind;
using Whom = Foresight::Whom;

// Entries as a test writes them down.
class Foreseen : public ::testing::Test, public FactReader {
 protected:
  Foreseen() {
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
  // Idle for so many seconds; nothing is known of it.
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
    Outlook* const outlook = outlooks.Make(id);
    outlook->kind = kind;
    outlook->steps = steps;
    outlook->eta_s = steps * 10;
    outlook->p = p;
    outlook->bytes = 10;
    outlook->as_of = outlooks.now;
    outlook->running_since = outlooks.now;
    return id;
  }
  void EnterAll() {
    for (const auto& [slot, facts] : rows) foresight.Entered({slot, 1}, facts);
  }
  std::string All(Whom whom) {
    std::string order;
    while (const auto next = foresight.Next(whom)) order += static_cast<char>('0' + next->slot);
    return order;
  }

  std::map<std::uint32_t, Facts> rows;
  mutable std::map<std::uint32_t, RankMarks> marks;
  Outlooks outlooks;
  Foresight::Running running;
  Foresight foresight{this, &outlooks, 1, RankMark{1}, &running};
};

TEST_F(Foreseen, TheDeadGoFirstThenTheFurthestAndRunnersLast) {
  Add(1, 5, Kind::kRunning, 0);
  Add(2, 5, Kind::kWanted, 1);
  Add(3, 5, Kind::kWanted, 4);
  Add(4, 0, Kind::kDead, 0);
  Add(5, 5, Kind::kNext, 0);
  Add(6, 5, Kind::kWanted, 4, 0.5);
  EnterAll();
  EXPECT_EQ(All(Whom::kAnybody), "463251");
}

TEST_F(Foreseen, TheUnknownGoByIdlenessAmongTheWanted) {
  Add(1, 0, Kind::kWanted, 2);  // In 20 s: like one that is idle for 20 s.
  Add(2, 5);
  Add(3, 60);
  EnterAll();
  EXPECT_EQ(All(Whom::kAnybody), "312");
}

TEST_F(Foreseen, WithoutAnyOutlookItIsByLastUse) {
  for (std::uint32_t slot = 1; slot < 6; ++slot) Add(slot, static_cast<int>(slot * 7 % 5));
  EnterAll();
  EXPECT_EQ(All(Whom::kNotSpared), "24135");
}

TEST_F(Foreseen, RunnersAreSparedUpToHalfATierAndForTenMinutes) {
  Add(1, 5, Kind::kRunning, 0);
  Add(2, 5, Kind::kRunning, 0);
  EnterAll();
  EXPECT_EQ(All(Whom::kNotSpared), "");
  running.most = 15;  // One of the two.
  EXPECT_EQ(All(Whom::kNotSpared), "1");
  running.most = 100;
  outlooks.now += minutes(9);
  EXPECT_EQ(All(Whom::kNotSpared), "");
  outlooks.now += minutes(1);
  EXPECT_EQ(All(Whom::kNotSpared), "2");
}

TEST_F(Foreseen, OnlyWhomNobodyWantsMayLeaveAtOnce) {
  Add(1, 50, Kind::kWanted, 9);
  Add(2, 0, Kind::kDead, 0);
  Add(3, 0);
  EnterAll();
  EXPECT_EQ(All(Whom::kUnwanted), "23");
  EXPECT_EQ(All(Whom::kNotSpared), "1");
}

TEST_F(Foreseen, WhoWasCalledDeadAndIsUsedIsUnknown) {
  const EntryId wrong = Add(1, 0, Kind::kDead, 0);
  Add(2, 30);
  outlooks.Find(wrong)->as_of = outlooks.now - seconds(10);
  EnterAll();
  EXPECT_EQ(All(Whom::kNotSpared), "21");
  EXPECT_EQ(outlooks.Find(wrong), nullptr);
}

TEST_F(Foreseen, ManyChangesLeaveNoManyPlaces) {
  const EntryId id = Add(1, 5, Kind::kWanted, 1);
  Add(2, 5, Kind::kWanted, 2);
  EnterAll();
  for (std::uint32_t change = 0; change < 10'000; ++change) {
    foresight.Left(id);
    outlooks.Find(id)->steps = change % 5;
    ++outlooks.Find(id)->version;
    foresight.Entered(id, rows.at(1));
  }
  EXPECT_LT(foresight.nodes(), 200U);
  EXPECT_EQ(All(Whom::kAnybody), "12");
}

TEST_F(Foreseen, WhoGetsAnOutlookLeavesTheUnknown) {
  const EntryId id = Add(1, 500);
  Add(2, 100);
  EnterAll();
  foresight.Left(id);
  Add(1, 500, Kind::kNext, 0);
  foresight.Entered(id, rows.at(1));
  EXPECT_EQ(All(Whom::kNotSpared), "21");
}

// An order that has learnt something ranks everybody, known to the graph or not.
class Learnt final : public Order, public Appraiser {
 public:
  std::string_view name(Level) const override { return "learnt"; }
  bool Entered(EntryId id, const Facts&) override { return slots.insert(id.slot), true; }
  void Left(EntryId id) override { slots.erase(id.slot); }
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
  const Appraiser* appraiser() const override { return this; }
  bool speaks() const override { return knows; }
  double Rate(EntryId id, const Facts&) const override { return id.slot * 0.01; }
  double MissCost(EntryId, const Facts&) const override { return 1; }

  std::set<std::uint32_t> slots;
  bool knows = true;
};

TEST_F(Foreseen, EverybodyIsHandedOutOnceThoughTwoOrdersRankThem) {
  Learnt learnt;
  Foresight both{this, &outlooks, 1, RankMark{2}, &running, &learnt};
  for (std::uint32_t slot = 0; slot < 200; ++slot) {
    slot % 2 == 0 ? Add(slot, 5, Kind::kWanted, 1 + slot % 7) : Add(slot, 5);
  }
  for (const auto& [slot, facts] : rows) {
    learnt.Entered({slot, 1}, facts);
    both.Entered({slot, 1}, facts);
  }
  std::set<std::uint32_t> taken;
  while (const auto next = both.Next(Whom::kAnybody)) {
    EXPECT_TRUE(taken.insert(next->slot).second) << next->slot << " was taken out before";
    if (taken.size() > rows.size()) break;
    learnt.knows = taken.size() % 10 != 0;  // Now and then last use is as good.
  }
  EXPECT_EQ(taken.size(), rows.size());
  // Whom the graph speaks of is still known to the order that was passed by.
  for (const std::uint32_t slot : learnt.slots) EXPECT_EQ(slot % 2, 0U);
  EXPECT_EQ(learnt.slots.size(), 100U);
}

TEST_F(Foreseen, BeforeAgreesWithNext) {
  const EntryId dead = Add(1, 0, Kind::kDead, 0);
  const EntryId far = Add(2, 0, Kind::kWanted, 5);
  const EntryId fresh = Add(3, 1);
  const EntryId runs = Add(4, 0, Kind::kRunning, 0);
  const auto before = [&](EntryId a, EntryId b) {
    return foresight.Before(a, rows.at(a.slot), b, rows.at(b.slot));
  };
  const EntryId order[] = {dead, far, fresh, runs};
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) EXPECT_EQ(before(order[a], order[b]), a < b) << a << " " << b;
  }
}

}  // namespace
}  // namespace spillway
