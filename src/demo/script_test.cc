#include "demo/script.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/level_log.h"
#include "demo/summary.h"

namespace spillway::demo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Script, EveryLengthHasAnEmergencyAndTimeToRecover) {
  for (const Duration length :
       {Duration(seconds(1)), Duration(seconds(6)), Duration(seconds(20)), Duration(seconds(59)),
        Duration(seconds(60)), Duration(seconds(3600))}) {
    const std::vector<Visit> visits = VisitsFor(length);
    EXPECT_TRUE(std::ranges::is_sorted(visits, {}, &Visit::at));
    EXPECT_GE(std::ranges::count_if(visits, [](const Visit& v) { return v.to > 0.96; }), 2);
    EXPECT_GT(visits.front().at, ArrivalFor(length));
    const Duration after = length - (visits.back().at + visits.back().hold);
    EXPECT_GE(after, std::min<Duration>(length, seconds(20)) / 5);
  }
  EXPECT_EQ(VisitsFor(seconds(60)).size(), 3 * VisitsFor(seconds(20)).size());
}

TEST(Script, TheNeighbourTakesWhatBringsPressureThere) {
  EXPECT_EQ(BytesToReach(0.98, 100 * kMiB, 50 * kMiB), 48 * kMiB);
  EXPECT_EQ(BytesToReach(0.50, 100 * kMiB, 10 * kMiB), 4 * kKiB);
  EXPECT_NEAR(static_cast<double>(BytesToReach(1.10, 100 * kMiB, 20 * kMiB)), 30.0 * kMiB,
              4 * kKiB);
  EXPECT_EQ(BytesToReach(1.10, 100 * kMiB, 100 * kMiB), 75 * kMiB);
}

TEST(Script, TheShortenedTimesAreSaidAndFitALine) {
  const std::string note = HasteNote(DemoCacheOptions("demo-1"));
  EXPECT_THAT(note, HasSubstr("idle 4 s"));
  EXPECT_THAT(note, HasSubstr("30 s"));
  EXPECT_LE(note.size(), 80U);
}

TEST(LevelLog, AddsUpTheTimeInEachLevel) {
  LevelLog log;
  EXPECT_FALSE(log.Look(Level::kRelaxed, seconds(1)));
  EXPECT_EQ(log.Look(Level::kEmergency, seconds(3)), Level::kRelaxed);
  EXPECT_FALSE(log.Look(Level::kEmergency, seconds(4)));
  EXPECT_EQ(log.Look(Level::kRelaxed, seconds(5)), Level::kEmergency);
  EXPECT_EQ(log.time_in(Level::kRelaxed), seconds(3));
  EXPECT_EQ(log.time_in(Level::kEmergency), seconds(2));
  EXPECT_EQ(log.time_in(Level::kNormal), Duration::zero());
  EXPECT_EQ(log.changes(), 2U);
  EXPECT_EQ(log.since(), seconds(5));
}

TEST(Summary, SaysWhatWasDestroyedAndWhy) {
  Outcome o;
  o.card = "demo-1";
  o.counts.wrong_bytes = 3;
  o.left = {{Action::kDestroy, Reason::kIdle, Level::kEmergency, 96, 96 * kMiB}};
  Neighbour got;
  got.bytes = 64 * kMiB;
  got.waited = milliseconds(12);
  Neighbour without;
  without.bytes = 32 * kMiB;
  o.neighbours = {got, without};
  const std::vector<std::string> lines = Summary(o);
  EXPECT_THAT(lines, Contains(HasSubstr("96 idle at EMERGENCY (96 MiB)")));
  EXPECT_THAT(lines, Contains(HasSubstr("3 wrong bytes")));
  EXPECT_THAT(lines, Contains(HasSubstr("64 MiB after 12 ms (pid")));
  EXPECT_THAT(lines, Contains(HasSubstr("32 MiB never")));
  EXPECT_THAT(lines, Contains(HasSubstr("declared")));
}

TEST(Summary, OfNothingIsWhole) {
  const std::vector<std::string> lines = Summary({});
  EXPECT_THAT(lines, Contains(HasSubstr("0 wrong bytes")));
  EXPECT_THAT(lines, Contains(HasSubstr("destroyed   nothing")));
}

}  // namespace
}  // namespace spillway::demo
