// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cache/stats_json.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

// An answer of SPILL.STATS JSON.
std::string Told(const Stats& stats) {
  auto json = nlohmann::json::parse(StatsJson(stats));
  json["mode"] = "workflow_aware";
  json["blocked"] = true;
  json["dropped_writes"] = 0;
  return json.dump();
}

TEST(Report, IsWhatTheDaemonTold) {
  Stats stats;
  stats.entries = 390;
  stats.hits = 7;
  stats.misses = 3;
  for (std::size_t i = 0; i < stats.removed_by_reason.size(); ++i)
    stats.removed_by_reason.at(i) = 10 + i;
  for (std::size_t i = 0; i < stats.removed_by_action.size(); ++i)
    stats.removed_by_action.at(i) = 50 + i;
  stats.device.name = "device";
  stats.device.total = 512 * kMiB;
  stats.device.free = 40 * kMiB;
  stats.device.others = 256 * kMiB;
  stats.device.clean_chunks = 20 * kMiB;
  stats.device.pressure = 0.875;
  stats.device.level = Level::kPressure;
  stats.host.name = "host";
  stats.host.entries = 380;
  stats.moves.bytes_up = 123;
  const Result<Report> report = ReadReport(Told(stats));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->mode, Mode::kWorkflowAware);
  EXPECT_TRUE(report->blocked);
  const Stats& got = report->stats;
  EXPECT_EQ(got.entries, 390U);
  EXPECT_EQ(got.hits, 7U);
  EXPECT_EQ(got.misses, 3U);
  EXPECT_EQ(got.removed_by_reason, stats.removed_by_reason);
  EXPECT_EQ(got.removed_by_action, stats.removed_by_action);
  EXPECT_EQ(got.device.total, stats.device.total);
  EXPECT_EQ(got.device.free, stats.device.free);
  EXPECT_EQ(got.device.others, stats.device.others);
  EXPECT_EQ(got.device.clean_chunks, stats.device.clean_chunks);
  EXPECT_EQ(got.device.pressure, 0.875);
  EXPECT_EQ(got.device.level, Level::kPressure);
  EXPECT_EQ(got.host.entries, 380U);
  EXPECT_EQ(got.moves.bytes_up, 123U);
}

TEST(Report, UnknownPressureStaysUnknown) {
  const Result<Report> report = ReadReport(Told({}));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->stats.device.pressure);
}

TEST(Report, WhatCannotBeUnderstoodIsAnErrorThatSaysWhat) {
  for (const char* text : {"", "[]", "{}", "{\"entries\": \"many\"}", "not JSON"}) {
    const Result<Report> report = ReadReport(text);
    ASSERT_FALSE(report) << text;
    EXPECT_THAT(report.error().message, HasSubstr("the daemon's stats are malformed"));
  }
  EXPECT_FALSE(ReadNews("{\"latest\": 1, \"passed\": 0, \"events\": [{\"number\": 1}]}"));
}

TEST(News, AreEvictionsAndChangesOfLevel) {
  const Result<AllNews> all = ReadNews(
      R"({"latest": 9, "passed": 2, "events": [
          {"number": 8, "unix_ms": 1700000000123, "tier": "device", "key": "coder/1",
           "action": "drop", "reason": "reserve", "level": "normal", "bytes": 4096, "tokens": 1},
          {"number": 9, "unix_ms": 1700000000124, "tier": "device", "from": "normal",
           "level": "emergency", "pressure": 0.97}]})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->latest, 9U);
  EXPECT_EQ(all->passed, 2U);
  ASSERT_EQ(all->news.size(), 2U);
  EXPECT_FALSE(all->news[0].is_level);
  EXPECT_EQ(all->news[0].key, "coder/1");
  EXPECT_EQ(all->news[0].action, Action::kDrop);
  EXPECT_EQ(all->news[0].reason, Reason::kReserve);
  EXPECT_EQ(all->news[0].bytes, 4096U);
  EXPECT_TRUE(all->news[1].is_level);
  EXPECT_EQ(all->news[1].from, Level::kNormal);
  EXPECT_EQ(all->news[1].level, Level::kEmergency);
  EXPECT_EQ(all->news[1].pressure, 0.97);
}

}  // namespace
}  // namespace spillway
