#include "demo/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/replayed.h"
#include "demo/review.h"
#include "demo/totals.h"

namespace spillway::demo {
namespace {

using ::testing::HasSubstr;

TEST(MetricsPage, ReadsSamplesByNameAndLabels) {
  const auto page = MetricsPage::Read(
      "# HELP spillway_entries Entries.\n# TYPE spillway_entries gauge\nspillway_entries 12\n"
      "spillway_actions_total{action=\"drop\"} 3\n\nspillway_x 1.5e9\n");
  ASSERT_TRUE(page);
  EXPECT_EQ((*page)["spillway_entries"], 12);
  EXPECT_EQ((*page)["spillway_actions_total{action=\"drop\"}"], 3);
  EXPECT_EQ((*page)["spillway_x"], 1.5e9);
  EXPECT_FALSE(page->has("spillway_y"));
  EXPECT_EQ(page->size(), 3U);
}

TEST(MetricsPage, ALineThatIsNoneIsNamed) {
  for (const char* text : {"spillway_entries\n", "spillway_entries many\n", " 3\n"}) {
    EXPECT_FALSE(MetricsPage::Read(text)) << text;
  }
  EXPECT_THAT(MetricsPage::Read("a many\n").error().message, HasSubstr("'a many'"));
}

TEST(Totals, AreTheSameByStatsAndByMetrics) {
  Stats stats;
  stats.hits = 10;
  stats.misses = 2;
  stats.sets = 7;
  stats.left_by_action.at(static_cast<std::size_t>(Action::kDrop)) = 5;
  stats.left_by_action.at(static_cast<std::size_t>(Action::kDestroy)) = 9;
  stats.left_by_reason.at(static_cast<std::size_t>(Reason::kErased)) = 4;
  stats.left_by_reason.at(static_cast<std::size_t>(Reason::kReplaced)) = 2;
  stats.moves.ahead_bytes = 100;
  const auto page = MetricsPage::Read(
      "spillway_hits_total 10\nspillway_misses_total 2\nspillway_sets_total 7\n"
      "spillway_actions_total{action=\"drop\"} 5\nspillway_actions_total{action=\"destroy\"} 9\n"
      "spillway_departures_total{reason=\"erased\"} 4\n"
      "spillway_departures_total{reason=\"replaced\"} 2\n"
      "spillway_ahead_bytes_total{outcome=\"useful\"} 60\n"
      "spillway_ahead_bytes_total{outcome=\"wasted\"} 10\nspillway_ahead_waiting_bytes 30\n");
  ASSERT_TRUE(page);
  Totals sum = TotalsOf(stats);
  EXPECT_EQ(sum.destroyed, 3U);
  sum += TotalsOf(*page);
  EXPECT_EQ(sum.hits, 20U);
  EXPECT_EQ(sum.misses, 4U);
  EXPECT_EQ(sum.sets, 14U);
  EXPECT_EQ(sum.dropped, 10U);
  EXPECT_EQ(sum.destroyed, 6U);
  EXPECT_EQ(sum.ahead, 200U);
}

TEST(Replayed, IsReadFromALineOfReplay) {
  const auto read = ReadReplayed(R"({"policy":"lru","token_hit_ratio":0.5,"input_tokens":100})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->policy, "lru");
  EXPECT_EQ(read->share, 0.5);
  EXPECT_EQ(read->input, 100);
  for (const char* line : {"", "spillway replay: no such file", "{}", R"({"policy":"lru"})"}) {
    EXPECT_FALSE(ReadReplayed(line)) << line;
  }
}

TEST(Replayed, AProgramThatIsNoneIsAnError) {
  EXPECT_FALSE(ReplayLog("/nowhere/spillway", "x", {"lru"}, 1));
  EXPECT_FALSE(ReplayLog("/bin/true", "x", {"lru"}, 1));
}

TEST(Reviews, CountWhatTheDaemonSaysToBeInMemory) {
  const std::vector<std::string> keys = {"r/0", "r/1", "r/2"};
  EXPECT_EQ(InMemory(keys, R"({"contexts":[{"key":"r/0","tier":"device"},
                              {"key":"r/1","tier":"host"},{"key":"r/2","tier":"disk"},
                              {"key":"x","tier":"device"}]})"),
            2U);
  for (const char* text : {"", "{}", "[]", R"({"contexts":1})"}) {
    EXPECT_EQ(InMemory(keys, text), 0U) << text;
  }
}

}  // namespace
}  // namespace spillway::demo
