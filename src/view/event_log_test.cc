// SPDX-License-Identifier: Apache-2.0
#include "view/event_log.h"

#include <gtest/gtest.h>

namespace spillway::view {
namespace {

using std::chrono::milliseconds;

Event Left(milliseconds at, std::string_view key, Reason reason = Reason::kIdle) {
  Event event;
  event.at = TimePoint(at);
  event.key = key;
  event.reason = reason;
  event.level = Level::kEmergency;
  event.bytes = 10;
  return event;
}

TEST(EventLog, WhatLeavesTogetherForOneReasonIsOneGroup) {
  EventLog log(TimePoint(milliseconds(1000)));
  log.Add(Left(milliseconds(1100), "a"));
  log.Add(Left(milliseconds(1150), "b"));
  log.Add(Left(milliseconds(1160), "c", Reason::kHeavy));
  log.Add(Left(milliseconds(1200), "d"));
  log.Add(Left(milliseconds(2000), "e"));
  const std::vector<EventGroup> groups = log.Latest(10);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].count, 3U);
  EXPECT_EQ(groups[0].bytes, 30U);
  EXPECT_EQ(groups[0].first_key, "a");
  EXPECT_EQ(groups[0].last_key, "d");
  EXPECT_EQ(groups[0].from, milliseconds(100));
  EXPECT_EQ(groups[1].reason, Reason::kHeavy);
  EXPECT_EQ(groups[2].first_key, "e");
}

TEST(EventLog, AFloodThatGoesOnIsToldSecondBySecond) {
  EventLog log(TimePoint{});
  for (int i = 0; i <= 25; ++i) log.Add(Left(milliseconds(100 * i), "k"));
  EXPECT_EQ(log.Latest(10).size(), 3U);
}

TEST(EventLog, KeepsABoundedNumberOfGroups) {
  EventLog log(TimePoint{});
  for (int i = 0; i < 1000; ++i) log.Add(Left(milliseconds(1000 * i), "k"));
  EXPECT_EQ(log.Latest(5000).size(), EventLog::kGroupsMax);
}

}  // namespace
}  // namespace spillway::view
