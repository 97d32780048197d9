#include "cache/direct.h"

#include <cstring>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/testing/cache_fixture.h"

namespace spillway {
namespace {

using namespace std::chrono_literals;

class DirectTest : public testing::CacheTest {
 protected:
  DirectTest() {
    options_.capacity = 64 * kMiB;
    options_.ttl.reset();
  }
  TimePoint In(Duration time) { return clock_->Now() + time; }
};

TEST_F(DirectTest, ReservationIsSeenByNobodyUntilItIsCommitted) {
  Open();
  Direct direct(cache_.get());
  Reservation room;
  ASSERT_TRUE(direct.Reserve("k", 100'000, {}, &room).status);
  ASSERT_TRUE(room);
  std::memset(room.data(), 'v', 100'000);
  EXPECT_EQ(Get("k"), "(miss)");
  const Direct::Wrote wrote = direct.Commit(&room);
  EXPECT_TRUE(wrote.status);
  EXPECT_TRUE(wrote.was_new);
  EXPECT_EQ(Get("k"), std::string(100'000, 'v'));
}

TEST_F(DirectTest, ReservationGivenUpLeavesTheOldValueAndNoBytes) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(Set("k", "old"));
  const Bytes before = cache_->stats().device.bytes;
  {
    Reservation room;
    ASSERT_TRUE(direct.Reserve("k", 100'000, {}, &room).status);
  }
  EXPECT_EQ(Get("k"), "old");
  EXPECT_EQ(cache_->stats().device.bytes, before);
  EXPECT_EQ(cache_->stats().reservations, 0u);
}

// In a full cache a key's old generation makes room for its new one.
TEST_F(DirectTest, AKeyThatMadeRoomForItselfIsNotNew) {
  options_.entries_max = 100;
  Open();
  Direct direct(cache_.get());
  for (const std::size_t bytes : {100U, 50'000U}) {
    const std::string value(bytes, 'x');
    for (int i = 0; i < 200; ++i) {  // More than fit.
      const std::string key = fmt::format("{} {}", bytes, i);
      ASSERT_TRUE(direct.Set(key, value, {}).was_new);
      ASSERT_FALSE(direct.Set(key, value, {}).was_new) << key;
    }
    EXPECT_EQ(cache_->size(), 100u);
  }
}

TEST_F(DirectTest, SmallAndLargeSetsTellWhetherTheKeyWasNew) {
  Open();
  Direct direct(cache_.get());
  EXPECT_TRUE(direct.Set("k", "v", {}).was_new);
  EXPECT_FALSE(direct.Set("k", std::string(50'000, 'x'), {}).was_new);
  EXPECT_EQ(Get("k").size(), 50'000u);
}

TEST_F(DirectTest, ChangedDeadlineCountsAndTheOldOneDoesNot) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(direct.Set("k", "v", {}, In(10s)).status);
  ASSERT_EQ(direct.ChangeDeadline("k", In(60s)), Direct::Changed::kYes);
  clock_->Advance(11s);
  cache_->Apply(0.0);
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(direct.DeadlineOf("k"), In(49s));
  clock_->Advance(50s);
  EXPECT_EQ(Get("k"), "(miss)");
  EXPECT_EQ(Left(), std::vector<std::string>{"k:expire:expired"});
}

TEST_F(DirectTest, DeadlineCanBeGivenAndTakenAway) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(direct.Set("k", "v", {}).status);
  EXPECT_EQ(direct.DeadlineOf("k"), TimePoint::max());
  ASSERT_EQ(direct.ChangeDeadline("k", In(1s)), Direct::Changed::kYes);
  ASSERT_EQ(direct.ChangeDeadline("k", TimePoint::max()), Direct::Changed::kYes);
  clock_->Advance(1h);
  cache_->Apply(0.0);
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(direct.ChangeDeadline("none", In(1s)), Direct::Changed::kAbsent);
}

TEST_F(DirectTest, LeasedEntryKeepsItsDeadlineInPlace) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(direct.Set("k", "v", {}).status);
  auto lease = cache_->Get("k");
  EXPECT_EQ(direct.ChangeDeadline("k", In(1s)), Direct::Changed::kSetAnew);
  EXPECT_EQ(direct.DeadlineOf("k"), TimePoint::max());
}

TEST_F(DirectTest, NamesOfAnEntryThatGotADeadlineAreCountedOnceAndGoWithIt) {
  Open();
  Direct direct(cache_.get());
  const Bytes before = Core::Of(*cache_)->engine().store().names_bytes();
  ASSERT_TRUE(direct.Set("k", "v", {}).status);
  ASSERT_EQ(direct.ChangeDeadline("k", In(9s)), Direct::Changed::kYes);
  ASSERT_EQ(direct.ChangeDeadline("k", In(8s)), Direct::Changed::kYes);
  EXPECT_TRUE(direct.Erase("k"));
  EXPECT_EQ(Core::Of(*cache_)->engine().store().names_bytes(), before);
}

TEST_F(DirectTest, EraseOfWhatIsOverSaysThatNothingWasThere) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(direct.Set("k", "v", {}, In(1s)).status);
  clock_->Advance(2s);
  EXPECT_FALSE(direct.Erase("k"));
}

TEST_F(DirectTest, DeadlinesChangedOverAndOverDoNotPileUp) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(direct.Set("k", "v", {}).status);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(direct.ChangeDeadline("k", In(1h + i * 1ms)), Direct::Changed::kYes);
  }
  ASSERT_EQ(direct.ChangeDeadline("k", In(1s)), Direct::Changed::kYes);
  clock_->Advance(2s);
  cache_->Apply(0.0);
  EXPECT_EQ(cache_->size(), 0u);
}

TEST_F(DirectTest, ScanShowsWhoWasThereAllTheWhileThoughTheTableGrows) {
  Open();
  Direct direct(cache_.get());
  std::set<std::string> stay;
  for (int i = 0; i < 3000; ++i) {
    stay.insert(fmt::format("stay{}", i));
    ASSERT_TRUE(direct.Set(fmt::format("stay{}", i), "v", {}).status);
  }
  std::set<std::string> seen;
  std::uint64_t cursor = 0;
  int more = 0;
  do {
    cursor = direct.Scan(cursor, [&](std::string_view key) { seen.emplace(key); });
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(direct.Set(fmt::format("new{}", more++), "v", {}).status);
      // Setting it again moves it to another slot, and not in the walk.
      ASSERT_TRUE(direct.Set(fmt::format("stay{}", more % 3000), "w", {}).status);
    }
  } while (cursor != 0);
  for (const std::string& key : stay) EXPECT_TRUE(seen.contains(key)) << key;
}

TEST_F(DirectTest, ScanShowsNothingTwiceWhileNothingChanges) {
  Open();
  Direct direct(cache_.get());
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(direct.Set(fmt::format("{}", i), "v", {}).status);
  std::map<std::string, int, std::less<>> seen;
  std::uint64_t cursor = 0;
  do {
    cursor = direct.Scan(cursor, 7, [&](std::string_view key) { ++seen[std::string(key)]; });
  } while (cursor != 0);
  EXPECT_EQ(seen.size(), 5000u);
  for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
}

TEST_F(DirectTest, RefusesInEmergencyAtOnce) {
  Open();
  Direct direct(cache_.get());
  cache_->Apply(0.97);
  const Direct::Wrote wrote = direct.Set("k", "v", {});
  ASSERT_FALSE(wrote.status);
  EXPECT_EQ(wrote.status.error().code, Code::kBlocked);
  EXPECT_FALSE(wrote.soon);
}

}  // namespace
}  // namespace spillway
