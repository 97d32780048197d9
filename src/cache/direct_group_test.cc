// SPDX-License-Identifier: Apache-2.0
// Groups of keys: the counts of each, and that clearing one touches no other, however
// its entries were added and wherever they are.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/direct.h"
#include "cache/flush.h"
#include "cache/testing/group_counts.h"
#include "cache/testing/tiers_fixture.h"

namespace spillway::testing {
namespace {

using namespace std::chrono_literals;

// By the digit a key begins with.
std::uint8_t ByFirstByte(std::string_view key) { return static_cast<std::uint8_t>(key[0] - '0'); }

class DirectGroupTest : public TiersTest {
 protected:
  DirectGroupTest() { options_.key_group = &ByFirstByte; }
  std::string Wrong() {
    Core* const core = Core::Of(*cache_);
    std::string wrong;
    RunOn(core->strand(), [&] { wrong = WrongCounts(core->engine().store()); });
    return wrong;
  }
  // Opens and waits until the disk has been read in.
  void OpenAndRead() {
    Open();
    ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  }
  std::uint64_t EntriesOf(std::uint8_t group) {
    return Direct(cache_.get()).CountOf(group).entries;
  }
};

TEST_F(DirectGroupTest, CountsWhatIsFoundOnDiskAndWhatGoesStraightThere) {
  OpenAndRead();
  for (int i = 0; i < 30; ++i) {
    SetOptions options;
    if (i % 3 == 0) options.ttl = 1h;
    ASSERT_TRUE(Set(fmt::format("{}:key {}", i % 2, i), Bulk("v", 1000), options));
  }
  // Larger than all memory.
  ASSERT_TRUE(Set("2:huge", Bulk("huge", 20 * kMiB)));
  EXPECT_EQ(EntriesOf(2), 1U);
  EXPECT_EQ(Wrong(), "");
  ASSERT_EQ(FlushToDisk(cache_.get(), 60s).entries_left, 0U);
  ASSERT_TRUE(Cache::Close(std::move(cache_)));

  OpenAndRead();
  EXPECT_EQ(EntriesOf(0), 15U);
  EXPECT_EQ(EntriesOf(1), 15U);
  EXPECT_EQ(EntriesOf(2), 1U);
  EXPECT_EQ(Direct(cache_.get()).CountOf(0).with_deadline, 5U);
  EXPECT_EQ(Wrong(), "");
  // Brought up, replaced, erased.
  EXPECT_EQ(Get("0:key 0"), Bulk("v", 1000));
  ASSERT_TRUE(Set("0:key 0", "without a ttl"));
  ASSERT_TRUE(cache_->Erase("1:key 3"));
  EXPECT_EQ(Direct(cache_.get()).CountOf(0).with_deadline, 4U);
  EXPECT_EQ(EntriesOf(1), 14U);
  EXPECT_EQ(Wrong(), "");
}

TEST_F(DirectGroupTest, ClearingOneTouchesNoOther) {
  OpenAndRead();
  Direct direct(cache_.get());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Set(fmt::format("0:{}", i), "small"));
  ASSERT_TRUE(Set("1:huge", Bulk("huge", 20 * kMiB)));
  ASSERT_TRUE(Set("2:one", "small"));
  direct.ClearGroup(0);
  EXPECT_EQ(EntriesOf(0), 0U);
  EXPECT_EQ(Get("2:one"), "small");
  EXPECT_EQ(Get("1:huge").size(), 20 * kMiB);
  direct.ClearGroup(1);
  EXPECT_EQ(Get("1:huge"), "(miss)");
  EXPECT_EQ(Get("2:one"), "small");
  EXPECT_EQ(cache_->size(), 1U);
  EXPECT_EQ(Wrong(), "");
}

TEST_F(DirectGroupTest, ClearingOneRightAfterARestartTouchesNoOtherAndIsFinal) {
  OpenAndRead();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Set(fmt::format("{}:{}", i % 4 == 0 ? 1 : 0, i), Bulk("v", 1000)));
  }
  ASSERT_EQ(FlushToDisk(cache_.get(), 60s).entries_left, 0U);
  ASSERT_TRUE(Cache::Close(std::move(cache_)));
  Open();
  Direct(cache_.get()).ClearGroup(1);  // A part of it or all of it has not been found yet.
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  EXPECT_EQ(EntriesOf(1), 0U);
  EXPECT_EQ(EntriesOf(0), 150U);
  ASSERT_TRUE(Cache::Close(std::move(cache_)));
  OpenAndRead();
  EXPECT_EQ(EntriesOf(1), 0U);
  EXPECT_EQ(EntriesOf(0), 150U);
}

TEST_F(DirectGroupTest, CountsDeadlinesThatAreGivenChangedAndOver) {
  Open();
  Direct direct(cache_.get());
  const TimePoint later = direct.Now() + 1h;
  ASSERT_TRUE(direct.Set("0:a", "v", {}).status);
  ASSERT_TRUE(direct.Set("0:b", "v", {}, later).status);
  EXPECT_EQ(direct.CountOf(0).with_deadline, 1U);
  ASSERT_EQ(direct.ChangeDeadline("0:a", later), Direct::Changed::kYes);
  EXPECT_EQ(direct.CountOf(0).with_deadline, 2U);
  ASSERT_EQ(direct.ChangeDeadline("0:a", later + 1h), Direct::Changed::kYes);
  EXPECT_EQ(direct.CountOf(0).with_deadline, 2U);
  ASSERT_EQ(direct.ChangeDeadline("0:b", TimePoint::max()), Direct::Changed::kYes);
  EXPECT_EQ(direct.CountOf(0).with_deadline, 1U);
  // An expired key is not chosen any more, whether it has been removed or not.
  ASSERT_EQ(direct.ChangeDeadline("0:a", direct.Now()), Direct::Changed::kYes);
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(direct.AnyKey(0, i), "0:b");
  EXPECT_EQ(direct.AnyKey(1, 1), "");
  EXPECT_EQ(Wrong(), "");
}

TEST_F(DirectGroupTest, WalkingOneGroupShowsAllOfIt) {
  options_.capacity = 16 * kMiB;
  Open();
  Direct direct(cache_.get());
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(direct.Set(fmt::format("{}:{}", i % 1000 == 0 ? 1 : 0, i), "v", {}).status);
  }
  std::set<std::string> found;
  std::size_t seen = 0;
  std::uint64_t cursor = 0;
  do {
    cursor = direct.Scan(
        cursor, 8,
        [&](std::string_view key) {
          ++seen;
          if (ByFirstByte(key) == 1) found.emplace(key);
        },
        1);
  } while (cursor != 0);
  EXPECT_EQ(found.size(), 20U);
  EXPECT_LT(seen, 1000U);
}

}  // namespace
}  // namespace spillway::testing
