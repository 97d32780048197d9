// SPDX-License-Identifier: Apache-2.0
#include "cache/direct.h"

#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/testing/cache_fixture.h"
#include "device/testing/fake_device.h"
#include "tier/arena_tier.h"

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

// SET with PXAT, which had to wait: its deadline was late by as long as it took to submit it.
TEST_F(DirectTest, ASubmittedDeadlineCountsFromWhenItWasSaid) {
  Open();
  Direct direct(cache_.get());
  const TimePoint said = clock_->Now();
  const TimePoint deadline = said + 10s;
  clock_->Advance(3s);
  std::vector<Operation> operations(1);
  operations[0].kind = Operation::Kind::kSet;
  operations[0].key = "k";
  operations[0].source = Source(std::string_view("value"));
  operations[0].set.ttl = deadline - said;
  std::promise<void> done;
  direct.Submit(operations.data(), operations.size(), 10s, Completion([&] { done.set_value(); }),
                said);
  done.get_future().wait();
  ASSERT_TRUE(operations[0].status);
  EXPECT_EQ(direct.DeadlineOf("k"), deadline);
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

// A key's old value was evicted to make room for one that might never arrive.
TEST_F(DirectTest, AReservationLeavesTheOldValueWhereItIsToStay) {
  options_.capacity = 8 * kMiB;
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(Set("other", std::string(kMiB, 'o')));
  ASSERT_TRUE(Set("k", std::string(5 * kMiB, 'k')));
  Reservation room;
  const Direct::Wrote no = direct.Reserve("k", 4 * kMiB, {}, &room, Direct::Old::kStays);
  EXPECT_FALSE(room);
  EXPECT_TRUE(no.old_in_way);
  EXPECT_TRUE(cache_->Contains("other")) << "nothing is evicted in vain";
  EXPECT_FALSE(direct.Reserve("new", 9 * kMiB, {}, &room, Direct::Old::kStays).old_in_way);
  // Other entries are evicted for it,
  ASSERT_TRUE(direct.Reserve("k", 3 * kMiB, {}, &room, Direct::Old::kStays).status);
  EXPECT_FALSE(cache_->Contains("other"));
  EXPECT_EQ(Get("k"), std::string(5 * kMiB, 'k'));
  std::memset(room.data(), 'n', room.size());
  EXPECT_FALSE(direct.Commit(&room).was_new);
  EXPECT_EQ(Get("k"), std::string(3 * kMiB, 'n'));
  // and the old value is, if it may be.
  ASSERT_TRUE(direct.Reserve("k", 6 * kMiB, {}, &room).status);
  EXPECT_FALSE(cache_->Contains("k"));
}

// A set that the card refused had cost its key the old value: that went first, to make room.
class DirectOnACardTest : public DirectTest {
 protected:
  static constexpr Bytes kChunk = 64 * kKiB;

  // Not shared: room is what the tier has, and the card refuses when it is told to.
  void OpenOn(Bytes total) {
    auto card = std::make_shared<testing::FakeDevice>(
        testing::FakeDeviceOptions{.total = total, .chunk_bytes = kChunk});
    card_ = card.get();
    Core::Parts parts;
    parts.tiers.device = ArenaTier::Open(card_, {.keep_one_empty = false}).value();
    parts.device = std::move(card);
    cache_ = Core::Wrap(Core::Open(WithWorld(), std::move(parts)).value());
  }
  testing::FakeDevice* card_ = nullptr;
};

TEST_F(DirectOnACardTest, ASetThatTheCardRefusesLeavesTheOldValue) {
  OpenOn(4 * kChunk);
  Direct direct(cache_.get());
  const std::string old(kChunk, 'o');
  ASSERT_TRUE(direct.Set("k", old, {}).status);
  ASSERT_TRUE(direct.Set("other", std::string(kChunk, 'x'), {}).status);
  card_->FailMapAt(1, true);
  for (const Bytes bytes : {Bytes{3 * kChunk + 100}, Bytes{4 * kChunk}}) {
    EXPECT_FALSE(direct.Set("k", std::string(bytes, 'n'), {}).status);
    EXPECT_EQ(Get("k"), old) << bytes;
  }
  for (const std::string& left : Left()) EXPECT_EQ(left, "other:destroy:room");
  // It goes when the card takes the new one.
  card_->ClearMapFault();
  ASSERT_TRUE(direct.Set("k", std::string(4 * kChunk, 'n'), {}).status);
  EXPECT_EQ(Get("k"), std::string(4 * kChunk, 'n'));
  EXPECT_EQ(Left(), std::vector<std::string>{"k:destroy:replaced"});
}

// Bytes enough, and no place: what is read is in the way on both sides.
TEST_F(DirectOnACardTest, ASetWithoutAPlaceInARowLeavesTheOldValue) {
  OpenOn(2 * kChunk);
  Direct direct(cache_.get());
  const std::string old(kChunk / 2, 'o');
  ASSERT_TRUE(direct.Set("a", std::string(kChunk / 2, 'a'), {}).status);
  ASSERT_TRUE(direct.Set("k", old, {}).status);
  ASSERT_TRUE(direct.Set("b", std::string(kChunk / 2, 'b'), {}).status);
  const Lease a = std::move(**cache_->Get("a"));
  const Lease b = std::move(**cache_->Get("b"));
  EXPECT_FALSE(direct.Set("k", std::string(kChunk, 'n'), {}).status);
  EXPECT_EQ(Get("k"), old);
  ASSERT_TRUE(direct.Set("k", std::string(kChunk / 2 - 1, 'n'), {}).status);
  EXPECT_EQ(Get("k").size(), kChunk / 2 - 1);
}

// In a full cache a key's old generation is evicted for its new one.
TEST_F(DirectTest, AKeyThatMadeRoomForItselfIsNotNew) {
  options_.entries_max = 100;
  Open();
  Direct direct(cache_.get());
  for (const std::size_t bytes : {100U, 50'000U}) {
    const std::string value(bytes, 'x');
    for (int i = 0; i < 200; ++i) {  // More than there is room for.
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

TEST_F(DirectTest, ALeasedEntryGetsAnotherDeadlineInPlace) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(direct.Set("k", "v", {}).status);
  auto lease = cache_->Get("k");
  ASSERT_TRUE(lease && *lease);
  const std::byte* const where = (*lease)->data();
  EXPECT_EQ(direct.ChangeDeadline("k", In(1s)), Direct::Changed::kYes);
  EXPECT_EQ(direct.DeadlineOf("k"), In(1s));
  EXPECT_EQ((*lease)->agent(), "");
  clock_->Advance(2s);
  EXPECT_EQ(Get("k"), "(miss)");
  cache_->Apply(0.0);
  EXPECT_EQ(cache_->size(), 0u);
  EXPECT_EQ((*lease)->data(), where);
  EXPECT_EQ((*lease)->text(), "v") << "who reads it reads on";
}

// Readers read deadlines without a lock; the thread sanitizer checks this test.
TEST_F(DirectTest, DeadlinesChangeWhileOthersRead) {
  Open();
  Direct direct(cache_.get());
  ASSERT_TRUE(direct.Set("k", "v", {}).status);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) EXPECT_EQ(Get("k"), "v");
  });
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(direct.ChangeDeadline("k", i % 3 == 0 ? TimePoint::max() : In(1h + i * 1s)),
              Direct::Changed::kYes);
  }
  stop = true;
  reader.join();
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
      // Setting a key again moves it to another slot, but not in the scan.
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
