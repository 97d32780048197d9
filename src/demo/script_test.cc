#include "demo/script.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/caption.h"
#include "demo/level_log.h"
#include "demo/summary.h"
#include "device/testing/scratch_run_dir.h"

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
  EXPECT_THAT(Names(seconds(20)), ElementsAre(Scene::kFill, Scene::kStranger, Scene::kSummary));
  EXPECT_EQ(SceneAtTime(ScenesFor(seconds(20)), seconds(5)), Scene::kFill);
  EXPECT_EQ(SceneAtTime(ScenesFor(seconds(20)), seconds(6)), Scene::kStranger);
}

TEST(Script, ALongerOneTellsTheWholeStoryAndThenAgain) {
  const std::vector<Scene> whole = {Scene::kFill,     Scene::kWork,   Scene::kStranger,
                                    Scene::kSqueezed, Scene::kLeaves, Scene::kKilled,
                                    Scene::kSummary};
  EXPECT_EQ(Names(seconds(60)), whole);
  const std::vector<SceneAt> twice = ScenesFor(seconds(120));
  ASSERT_EQ(twice.size(), 12U);  // They come only once, and it ends only once.
  EXPECT_TRUE(std::ranges::is_sorted(twice, {}, &SceneAt::from));
  EXPECT_EQ(twice[6].scene, Scene::kWork);
  EXPECT_EQ(twice[6].from, seconds(60));
  EXPECT_EQ(twice.back().scene, Scene::kSummary);
  EXPECT_EQ(ScenesFor(seconds(15), true).size(), 7U);
}

TEST(Script, TheShortenedTimesAreSaidAndFitALine) {
  const spillway::testing::ScratchRunDir run_dir;
  const auto stage = Stage::OnCard("demo-1", kMiB);
  ASSERT_TRUE(stage) << stage.error().message;
  const std::string note = HasteNote(DemoCacheOptions(**stage, "/nowhere"));
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

MetricsPage Page(const std::string& text) { return std::move(*MetricsPage::Read(text)); }

TEST(Summary, SaysWhatTheMetricsSay) {
  Outcome o;
  o.place = "card demo-1";
  o.prefill_per_token = std::chrono::microseconds(50);
  o.page = Page(
      "spillway_demo_wrong_bytes_total 3\nspillway_demo_destroyed_total 2\n"
      "spillway_demo_contexts 12\nspillway_demo_saved_prefill_seconds_total 41.25\n"
      "spillway_demo_spent_prefill_seconds_total 1.5\nspillway_demo_asked_tokens_total 1000000\n"
      "spillway_demo_hits_total 90\nspillway_demo_misses_total 10\nspillway_demo_sets_total 1234\n"
      "spillway_demo_resumes_total 4\nspillway_demo_turns_total 5\n"
      "spillway_demo_resumed_tokens_total 4000\nspillway_demo_resume_seconds_total 0.04\n"
      "spillway_demo_checked_bytes_total 1048576\nspillway_demo_replay_lru_saved_seconds 25\n");
  o.strangers = {{.pid = 4711,
                  .bytes = 64 * kMiB,
                  .sensed = milliseconds(2),
                  .had = milliseconds(12),
                  .dropped = 14}};
  o.replay_tokens = 34'000;
  const std::vector<std::string> lines = Summary(o);
  EXPECT_EQ(o.wrong_bytes(), 3U);
  EXPECT_THAT(lines, Contains(HasSubstr("destroyed   2 entries of 12 contexts")));
  EXPECT_THAT(lines, Contains(HasSubstr("41.2 s of prefill, 1.5 s spent again (declared: 50 us")));
  EXPECT_THAT(lines, Contains(HasSubstr("1 MiB read back byte by byte, 3 wrong bytes")));
  EXPECT_THAT(lines, Contains(HasSubstr("4 of 5 turns")));
  EXPECT_THAT(lines, Contains(HasSubstr("1,000 tokens in 10 ms on average, measured")));
  EXPECT_THAT(lines, Contains(HasSubstr("90 of 100 blocks asked for (90.0 %); 1,234 set")));
  EXPECT_THAT(lines,
              Contains(HasSubstr("pid 4711 took 64 MiB: sensed 2 ms, had it 12 ms, 14 dro")));
  EXPECT_THAT(lines, Contains(HasSubstr("34,000 tokens")));
  EXPECT_THAT(lines, Contains(HasSubstr("(LRU)              25.0 s of prefill saved,  50.0 %")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("trouble"))));
  EXPECT_EQ(SummaryText(o.page),
            "2 entries destroyed, 41.2 s of prefill saved (declared), 3 wrong bytes");
}

TEST(Summary, TroubleIsTold) {
  Outcome o;
  o.failures = 4;
  o.why_failed = "ERR no\nroom";
  o.untold = 5;
  o.replay_trouble = "no such program";
  const std::vector<std::string> lines = Summary(o);
  EXPECT_THAT(lines, Contains(HasSubstr("4 turns were given up")));
  EXPECT_THAT(lines, Contains(HasSubstr("5 words to the step graph")));
  EXPECT_THAT(lines, Contains(HasSubstr("nothing was replayed: no such program")));
}

TEST(Summary, OfNothingIsWhole) {
  const std::vector<std::string> lines = Summary({});
  EXPECT_THAT(lines, Contains(HasSubstr("0 wrong bytes")));
  EXPECT_THAT(lines, Contains(HasSubstr("destroyed   0 entries")));
}

TEST(Caption, SaysWhatASceneCameTo) {
  Moment m;
  m.prefill_per_token = std::chrono::microseconds(43);
  m.contexts = 12;
  m.now.stats.entries = 360;
  m.now.stats.device.bytes = 100 * kMiB;
  m.now.stats.device.backed = 94 * kMiB;
  EXPECT_EQ(Caption(m),
            "fill: 12 contexts in 360 entries, 100 MiB on the card, 94.0 % of that backed");
  m.scene = Scene::kWork;
  EXPECT_EQ(Caption(m), "work: no context was found whole yet");
  m.first.counts.resumes = 2;
  m.now.counts.resumes = 6;
  m.resume = Resume{"coder", 1000, milliseconds(10)};
  EXPECT_EQ(Caption(m),
            "work: 4 resumes; the last: coder 1,000 tokens in 10 ms, prefill 43 ms (declared)");
  m.scene = Scene::kStranger;
  EXPECT_EQ(Caption(m), "a stranger: nobody has come yet");
  m.stranger = Stranger{.pid = 4711, .bytes = 256 * kMiB};
  EXPECT_EQ(Caption(m), "a stranger: pid 4711 wants 256 MiB");
  m.stranger->sensed = milliseconds(2);
  m.stranger->had = milliseconds(11);
  m.stranger->dropped = 14;
  EXPECT_EQ(Caption(m),
            "a stranger: pid 4711 took 256 MiB: sensed 2 ms, had it 11 ms, 14 dropped, 0 lost");
}

TEST(Caption, WhatLruWouldHaveDoneIsCounted) {
  Moment m;
  m.scene = Scene::kSqueezed;
  EXPECT_EQ(Caption(m), "squeezed: no review has begun yet");
  m.reviews = {2, 70, 69, 30, {"reviewer", 35, 34, 0}};
  EXPECT_THAT(Caption(m),
              HasSubstr("2 reviews: 69 of 70 blocks in memory before the step, LRU would "
                        "have kept 30; the last: reviewer 34 of 35, LRU would have "
                        "evicted it"));
  m.reviews.last.in_lru = 30;
  EXPECT_THAT(Caption(m), HasSubstr("the last: reviewer 34 of 35, LRU 30"));
  m.reviews.last.in_lru = 0;
  m.reviews.last.in_memory = 1;  // One block is not the context.
  EXPECT_THAT(Caption(m), HasSubstr("the last: reviewer 1 of 35, LRU 0"));
  m.reviews.last.in_lru = m.reviews.last.in_memory = 0;  // Then we are no better.
  EXPECT_THAT(Caption(m), HasSubstr("the last: reviewer 0 of 35, LRU 0"));
}

TEST(Caption, AKillSaysWhatWasFoundAgain) {
  EXPECT_THAT(KilledText({}), HasSubstr("hold still"));
  Killed k;
  k.before = 1;
  k.after = 2;
  k.entries = 12;
  k.on_disk = 10;
  k.down = milliseconds(50);
  EXPECT_EQ(KilledText(k), "pid 1 killed, pid 2 answers after 50 ms; 10 entries are on disk");
  k.verified = true;
  k.good = 10;
  EXPECT_EQ(KilledText(k),
            "pid 1 killed, pid 2 answers after 50 ms; 10 of 10 on disk verified, 2 were in memory "
            "only, 0 wrong bytes");
  k.trouble = "the daemon closed the connection";
  EXPECT_THAT(KilledText(k), HasSubstr("closed the connection"));
}

}  // namespace
}  // namespace spillway::demo
