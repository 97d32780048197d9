#include "demo/script.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/caption.h"
#include "demo/level_log.h"
#include "demo/summary.h"

namespace spillway::demo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Script, EveryLengthHasStrangersAndTimeToRecover) {
  for (const Duration length :
       {Duration(seconds(1)), Duration(seconds(6)), Duration(seconds(20)), Duration(seconds(59)),
        Duration(seconds(60)), Duration(seconds(3600))}) {
    const std::vector<Visit> visits = VisitsFor(length);
    EXPECT_TRUE(std::ranges::is_sorted(visits, {}, &Visit::at));
    EXPECT_GE(visits.size(), 2U);
    EXPECT_GT(visits.front().at, ArrivalFor(length));
    const Duration after = length - (visits.back().at + visits.back().hold);
    EXPECT_GE(after, std::min<Duration>(length, seconds(20)) / 8);
    for (const Visit& visit : visits) {
      double taken = 0;  // By all who are there when it comes.
      for (const Visit& other : visits) {
        if (other.at <= visit.at && visit.at < other.at + other.hold) taken += other.share;
      }
      EXPECT_LT(taken, 0.9);
    }
  }
  EXPECT_EQ(VisitsFor(seconds(180)).size(), 3 * VisitsFor(seconds(60)).size());
}

std::vector<Scene> Names(Duration length) {
  std::vector<Scene> names;
  for (const SceneAt& scene : ScenesFor(length)) names.push_back(scene.scene);
  return names;
}

TEST(Script, AShortDemoFillsAndHasAStranger) {
  EXPECT_THAT(Names(seconds(20)), ElementsAre(Scene::kFill, Scene::kStranger));
  EXPECT_EQ(SceneAtTime(ScenesFor(seconds(20)), seconds(5)), Scene::kFill);
  EXPECT_EQ(SceneAtTime(ScenesFor(seconds(20)), seconds(6)), Scene::kStranger);
}

TEST(Script, ALongerOneTellsTheWholeStoryAndThenAgain) {
  const std::vector<Scene> whole = {Scene::kFill, Scene::kWork, Scene::kStranger, Scene::kSqueezed,
                                    Scene::kLeaves};
  EXPECT_EQ(Names(seconds(60)), whole);
  const std::vector<SceneAt> twice = ScenesFor(seconds(120));
  ASSERT_EQ(twice.size(), 9U);  // They come only once.
  EXPECT_TRUE(std::ranges::is_sorted(twice, {}, &SceneAt::from));
  EXPECT_EQ(twice[5].scene, Scene::kWork);
  EXPECT_EQ(twice[5].from, seconds(60));
}

TEST(Script, TheShortenedTimesAreSaidAndFitALine) {
  const std::string note = HasteNote(DemoCacheOptions("demo-1", kMiB));
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

TEST(Summary, SaysWhatLeftAndWhatWasLost) {
  Outcome o;
  o.card = "demo-1";
  o.counts.wrong_bytes = 3;
  o.stats.left_by_action.at(static_cast<std::size_t>(Action::kDrop)) = 96;
  o.stats.left_by_action.at(static_cast<std::size_t>(Action::kDestroy)) = 12;
  o.stats.left_by_reason.at(static_cast<std::size_t>(Reason::kReserve)) = 96;
  o.stats.left_bytes_by_reason.at(static_cast<std::size_t>(Reason::kReserve)) = 96 * kMiB;
  o.stats.left_by_reason.at(static_cast<std::size_t>(Reason::kErased)) = 10;
  Neighbour got;
  got.bytes = 64 * kMiB;
  got.waited = milliseconds(12);
  Neighbour without;
  without.bytes = 32 * kMiB;
  o.neighbours = {got, without};
  const std::vector<std::string> lines = Summary(o);
  EXPECT_THAT(lines, Contains(HasSubstr("96 dropped")));
  EXPECT_THAT(lines, Contains(HasSubstr("reserve 96 (96 MiB)")));
  EXPECT_THAT(lines, Contains(HasSubstr("destroyed   2 contexts")));
  EXPECT_THAT(lines, Contains(HasSubstr("3 wrong bytes")));
  EXPECT_THAT(lines, Contains(HasSubstr("64 MiB after 12 ms (pid")));
  EXPECT_THAT(lines, Contains(HasSubstr("32 MiB never")));
  EXPECT_THAT(lines, Contains(HasSubstr("declared")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("trouble"))));
}

TEST(Summary, TroubleIsTold) {
  Outcome o;
  o.counts.failures = 4;
  o.graph_untold = 5;
  const std::vector<std::string> lines = Summary(o);
  EXPECT_THAT(lines, Contains(HasSubstr("4 turns were given up")));
  EXPECT_THAT(lines, Contains(HasSubstr("5 words to the step graph")));
}

TEST(Summary, OfNothingIsWhole) {
  const std::vector<std::string> lines = Summary({});
  EXPECT_THAT(lines, Contains(HasSubstr("0 wrong bytes")));
  EXPECT_THAT(lines, Contains(HasSubstr("destroyed   0 contexts")));
}

TEST(Caption, SaysWhatASceneCameTo) {
  Figures before;
  before.counts.resumes = 2;
  before.counts.resumed_tokens = 9000;
  before.counts.resume_time = seconds(1);
  Figures now = before;
  now.counts.resumes += 4;
  now.counts.resumed_tokens += 4000;
  now.counts.resume_time += milliseconds(40);
  EXPECT_EQ(Caption(Scene::kWork, before, now, {}, std::chrono::microseconds(43)),
            "work: 4 resumes, 1,000 tokens back in 10 ms (mean); prefill takes 43 ms (declared)");
  EXPECT_THAT(Caption(Scene::kWork, now, now, {}, seconds(1)), HasSubstr("no context"));
  before.stats.left_by_action.at(static_cast<std::size_t>(Action::kDrop)) = 1;
  now.stats.left_by_action.at(static_cast<std::size_t>(Action::kDrop)) = 15;
  Neighbour n;
  n.pid = 4711;
  n.bytes = 256 * kMiB;
  n.waited = milliseconds(11);
  EXPECT_EQ(Caption(Scene::kStranger, before, now, {n}, {}),
            "a stranger: pid 4711 had 256 MiB after 11 ms; 14 dropped, 0 demoted, 0 destroyed");
  EXPECT_THAT(Caption(Scene::kStranger, before, now, {}, {}), HasSubstr("nobody"));
}

}  // namespace
}  // namespace spillway::demo
