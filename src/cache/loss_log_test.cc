// SPDX-License-Identifier: Apache-2.0
#include "cache/loss_log.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/cache_fixture.h"
#include "cache/testing/log_lines.h"
#include "spillway/cache.h"

namespace spillway {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using testing::CacheTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LogLines;
using ::testing::StartsWith;

Event Gone(int at_s, Reason reason, Bytes bytes) {
  Event event;
  event.at = TimePoint(seconds(at_s));
  event.action = Action::kDestroy;
  event.reason = reason;
  event.bytes = bytes;
  return event;
}

TEST(LossLog, TellsTheFirstAtOnceAndTheRestOnceAMinuteByCause) {
  const LogLines lines;
  LossLog log(false);
  log.Record(Gone(10, Reason::kRoom, kMiB));
  EXPECT_THAT(lines.Take(), ElementsAre(AllOf(StartsWith("info: destroyed 1 entry (1 MiB)"),
                                              HasSubstr("room 1 (1 MiB)"))));
  for (int at = 11; at < 60; ++at) log.Record(Gone(at, Reason::kRoom, kMiB));
  log.Record(Gone(61, Reason::kIdle, kKiB));
  log.Tick(TimePoint(seconds(69)));
  EXPECT_THAT(lines.Take(), ElementsAre());
  log.Tick(TimePoint(seconds(70)));
  EXPECT_THAT(lines.Take(),
              ElementsAre(AllOf(HasSubstr("destroyed 50 entries"), HasSubstr("in the last 60 s"),
                                HasSubstr("idle 1 (1 KiB), room 49 (49 MiB)"))));
  log.Tick(TimePoint(seconds(1000)));
  EXPECT_THAT(lines.Take(), ElementsAre());
  log.Record(Gone(1001, Reason::kRoom, kMiB));
  EXPECT_EQ(lines.Take().size(), 1U);
  log.Record(Gone(1002, Reason::kRoom, kMiB));
  log.Close(TimePoint(seconds(1003)));
  EXPECT_THAT(lines.Take(), ElementsAre(HasSubstr("room 1 (1 MiB)")));
}

TEST(LossLog, WarnsOfDamageAndWhereATierBelowShouldHaveHadIt) {
  const LogLines lines;
  LossLog alone(false);
  alone.Record(Gone(1, Reason::kCorrupt, 1));
  LossLog above(true);
  above.Record(Gone(1, Reason::kRoom, 1));
  EXPECT_THAT(lines.Take(), ElementsAre(StartsWith("warning: "), StartsWith("warning: ")));
}

// Through a whole cache: what is asked for is no loss, what is evicted for room is.
TEST_F(CacheTest, LastCopiesThatAreDestroyedAreCountedByCauseAndLogged) {
  const LogLines lines;
  options_.capacity = 300 * kKiB;
  Open();
  const std::string value(96 * kKiB, 'v');
  for (const char* key : {"a", "b", "b", "c"}) ASSERT_TRUE(Set(key, value));
  cache_->Erase("c");
  EXPECT_THAT(lines.Take(), ElementsAre());
  for (const char* key : {"c", "d", "e"}) ASSERT_TRUE(Set(key, value));
  const Stats stats = cache_->stats();
  const auto room = static_cast<std::size_t>(Reason::kRoom);
  EXPECT_EQ(stats.destroyed_by_reason.at(room), 2U);
  EXPECT_EQ(stats.destroyed_bytes_by_reason.at(room), 2 * value.size());
  EXPECT_EQ(stats.destroyed_by_reason.at(static_cast<std::size_t>(Reason::kErased)), 0U);
  EXPECT_EQ(stats.destroyed_by_reason.at(static_cast<std::size_t>(Reason::kReplaced)), 0U);
  EXPECT_THAT(lines.Take(), ElementsAre(HasSubstr("destroyed 1 entry")));
  clock_->Advance(seconds(61));
  cache_->Apply(0.1);  // Advances time.
  EXPECT_THAT(lines.Take(), ElementsAre(HasSubstr("room 1 (96 KiB)")));
}

}  // namespace
}  // namespace spillway
