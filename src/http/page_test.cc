// SPDX-License-Identifier: Apache-2.0
// What the dashboard uses: its files, the stream of changes, the last hour, the graph.
#include <array>
#include <chrono>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "http/history.h"
#include "http/stream.h"
#include "http/testing/api_fixture.h"

namespace spillway::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using testing::ApiTest;

TEST_F(ApiTest, WhoWantsOnlyChangesIsToldThem) {
  Stream stream;
  stream.changes = true;
  stream.every = std::chrono::seconds(2);
  EXPECT_THAT(api_->Step(&stream), HasSubstr("event: state\ndata: {"));
  EXPECT_EQ(api_->Step(&stream), "");
  EXPECT_EQ(api_->Step(&stream), "");
  // A comment shows that the connection is alive.
  EXPECT_THAT(api_->Step(&stream), ::testing::StartsWith(":"));
  EXPECT_EQ(api_->Step(&stream), "");
  Set("k", "v", 5);
  const std::string step = api_->Step(&stream);
  const std::string head = "event: change\ndata: ";
  ASSERT_THAT(step, ::testing::StartsWith(head));
  const Json change = Json::parse(step.substr(head.size()));
  EXPECT_EQ(change["entries"], 1);
  EXPECT_EQ(change["tokens"], 5);
  EXPECT_EQ(change["device"]["entries"], 1);
  EXPECT_FALSE(change.contains("mode"));
  EXPECT_FALSE(change["device"].contains("capacity"));
}

TEST(Patch, SaysWhatDiffers) {
  using Ordered = nlohmann::ordered_json;
  const Ordered before = {{"a", 1}, {"b", {{"c", 1}, {"d", {1, 2}}}}, {"e", nullptr}};
  EXPECT_FALSE(PatchOf(before, before));
  const Ordered after = {{"a", 1}, {"b", {{"c", 2}, {"d", {1, 2}}}}, {"f", 3}};
  EXPECT_EQ(*PatchOf(before, after), (Ordered{{"b", {{"c", 2}}}, {"f", 3}, {"e", nullptr}}));
  Ordered merged = before;
  merged.merge_patch(*PatchOf(before, after));
  EXPECT_EQ(merged, after);
}

TEST_F(ApiTest, TheStateHasWhatAPageNeeds) {
  facts_ = {.started_unix_ms = 7, .hit_tokens = 11};
  const Json state = Read("/api/v1/stats");
  EXPECT_EQ(state["controls"], false);
  EXPECT_EQ(state["started_unix_ms"], 7);
  EXPECT_EQ(state["hit_tokens"], 11);
  EXPECT_EQ(state["thresholds"]["critical"], 0.92);
  EXPECT_NE(state["version"], "");
  // Since the cache was opened, by the page's clock.
  const double since = state["device"]["level_since_unix_ms"];
  EXPECT_NEAR(since, state["unix_ms"].get<double>(), 60'000);
  EXPECT_EQ(state["device"]["left_by_action"]["drop"], 0);
  const std::string text = Get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("\nspillway_hit_tokens_total 11\n"));
  EXPECT_THAT(text, HasSubstr("\nspillway_mode{mode=\"relaxed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nspillway_give_back_seconds_count 0\n"));
  password_ = "p";
  authorization_ = "Bearer p";
  EXPECT_EQ(Read("/api/v1/stats")["controls"], true);
}

// --- the last hour ---

Stats At(double pressure, Level level = Level::kRelaxed) {
  Stats stats;
  stats.device.name = "device";
  stats.device.total = 100;
  stats.device.held = 30;
  stats.device.clean_chunks = 10;
  stats.device.others = 25;
  stats.device.free = 45;
  stats.device.reserve = 5;
  stats.device.pressure = pressure;
  stats.device.level = level;
  return stats;
}

TEST(History, KeepsAnHourByColumns) {
  History history;
  EXPECT_THAT(history.Columns(10, 0)["unix_ms"], IsEmpty());
  Stats unknown = At(0);
  unknown.device.pressure.reset();
  history.Add(Stats(), 500);  // Before the first reading.
  history.Add(At(0.5), 1000);
  history.Add(unknown, 2000);
  history.Add(At(0.9, Level::kPressure), 3000);
  const auto all = history.Columns(10, 0);
  EXPECT_EQ(all["unix_ms"].dump(), "[1000,2000,3000]");
  EXPECT_FALSE(all["tiers"].contains("host"));
  const auto& tier = all["tiers"]["device"];
  EXPECT_EQ(tier["pressure"].dump(), "[0.5,null,0.9]");
  EXPECT_EQ(tier["level"].dump(), "[0,0,2]");
  EXPECT_EQ(tier["unbacked"].dump(), "[20,20,20]");
  EXPECT_EQ(tier["backed"][0], 10);
  EXPECT_EQ(tier["others"][0], 25);
  EXPECT_EQ(tier["free"][0], 45);
  EXPECT_EQ(tier["reserve"][0], 5);
  EXPECT_EQ(history.Columns(10, 2000)["unix_ms"].dump(), "[3000]");
}

TEST(History, IsThinnedOutAndLosesNoPeak) {
  History history;
  for (int i = 1; i <= 5000; ++i) history.Add(At(i == 4321 ? 0.97 : 0.1), i);
  const auto few = history.Columns(10, 0);
  ASSERT_EQ(few["unix_ms"].size(), 10U);
  EXPECT_GT(few["unix_ms"][0], 5000 - static_cast<int>(History::kKept));
  EXPECT_THAT(few["tiers"]["device"]["pressure"].dump(), HasSubstr("0.97"));
  EXPECT_EQ(history.Columns(History::kKept, 0)["unix_ms"].size(), History::kKept);
}

TEST_F(ApiTest, HistoryIsAskedForWithinBounds) {
  history_.Add(At(0.5), 1000);
  EXPECT_EQ(Read("/api/v1/history")["tiers"]["device"]["pressure"][0], 0.5);
  EXPECT_THAT(Read("/api/v1/history?after=1000")["unix_ms"], IsEmpty());
  EXPECT_EQ(Get("/api/v1/history?points=100000").status, 400);
  EXPECT_EQ(Get("/api/v1/history?after=x").status, 400);
}

// --- steps ---

TEST_F(ApiTest, TheGraphIsTold) {
  EXPECT_THAT(Read("/api/v1/graph")["runs"], IsEmpty());
  EXPECT_FALSE(cache_->attached_graph());  // A query does not attach a graph.
  Set("context:coder", "1234");
  const std::shared_ptr<StepGraph> graph = cache_->step_graph();
  ASSERT_TRUE(graph->Load(R"({"run":"r","steps":[{"id":"plan"},{"id":"code","agent":"coder"}],
      "edges":[{"from":"plan","to":"code"},{"from":"code","to":"plan","kind":"back"}]})",
                          cache_->now()));
  ASSERT_TRUE(graph->Bind("r", "coder", "context:coder", KeyKind::kFixed, cache_->now()));
  ASSERT_TRUE(graph->Bind("r", "coder", "context:none", KeyKind::kFixed, cache_->now()));
  ASSERT_TRUE(graph->Start("r", "plan", cache_->now()));
  const Json told = Read("/api/v1/graph");
  EXPECT_EQ(told["runs_live"], 1);
  const Json& run = told["runs"][0];
  EXPECT_EQ(run["run"], "r");
  EXPECT_EQ(run["steps"][0]["state"], "running");
  EXPECT_EQ(run["steps"][1]["steps"], 1);
  EXPECT_EQ(run["steps"][1]["agent"], "coder");
  ASSERT_EQ(run["edges"].size(), 2U);
  EXPECT_EQ(run["edges"][0]["to"], 1);
  EXPECT_EQ(run["edges"][1]["kind"], "back");
  const Json& coder = run["agents"][1];
  EXPECT_EQ(coder["agent"], "coder");
  EXPECT_EQ(coder["keys"], 2);
  EXPECT_EQ(coder["tiers"]["device"], 1);
  EXPECT_EQ(coder["gone"], 1);
  EXPECT_EQ(coder["bytes"], 4);
  EXPECT_EQ(coder["coming"], 0);
  // Steps until use, in the table of contexts.
  Set("other", "v");
  EXPECT_THAT(KeysOf("/api/v1/contexts?sort=steps"), ElementsAre("context:coder", "other"));
  const Json rows = Read("/api/v1/contexts?sort=steps")["contexts"];
  EXPECT_EQ(rows[0]["steps"], 1);
  EXPECT_FALSE(rows[1].contains("steps"));
  const Json why = Read("/api/v1/explain?key=context:coder");
  EXPECT_EQ(why["steps"], 1);
  EXPECT_THAT(why["graph"], HasSubstr("code"));
  EXPECT_THAT(Get("/metrics").body, HasSubstr("\nspillway_graph_runs 1\n"));
}

TEST_F(ApiTest, FilesComeZippedToWhoTakesThatAndNotAgainToWhoHasThem) {
  const auto ask = [&](std::string_view path, std::string_view encodings, std::string_view has) {
    return api_->Handle({.method = "GET",
                         .target = path,
                         .host = "localhost",
                         .accept_encoding = encodings,
                         .if_none_match = has});
  };
  const auto header = [](const Answer& answer, std::string_view name) {
    for (const auto& [each, value] : answer.headers) {
      if (each == name) return value;
    }
    return std::string();
  };
  EXPECT_EQ(ask("/page", "", "").body, "<p>");
  for (const char* encodings : {"gzip", "br, gzip;q=0.8", " gzip ", "*"}) {
    const Answer answer = ask("/page", encodings, "");
    EXPECT_EQ(answer.body, "zipped") << encodings;
    EXPECT_EQ(header(answer, "Content-Encoding"), "gzip");
    EXPECT_EQ(header(answer, "Vary"), "Accept-Encoding");
  }
  for (const char* encodings : {"br", "gzip;q=0", "gzip;q=0.0", "xgzip", ","}) {
    EXPECT_EQ(ask("/page", encodings, "").body, "<p>") << encodings;
  }
  EXPECT_EQ(header(ask("/page", "", ""), "ETag"), "\"1\"");
  for (const char* has : {"\"1\"", "W/\"1\"", "\"0\", \"1\"", "*"}) {
    EXPECT_EQ(ask("/page", "gzip", has).status, 304) << has;
    EXPECT_EQ(ask("/page", "gzip", has).body, "");
  }
  EXPECT_EQ(ask("/page", "", "\"11\"").status, 200);
  EXPECT_THAT(header(ask("/assets/a-1.js", "gzip", ""), "Cache-Control"), HasSubstr("immutable"));
  EXPECT_EQ(ask("/assets/a-1.js", "gzip", "").body, "1");
}

}  // namespace
}  // namespace spillway::http
