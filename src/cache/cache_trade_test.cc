// A host tier smaller than what lies above it: whose copies it keeps.
#include <algorithm>

#include "cache/testing/tiers_fixture.h"

namespace spillway {
namespace {

using testing::Bulk;
using testing::TiersTest;

class TradeTest : public TiersTest {
 protected:
  TradeTest() {
    options_.capacity = 8 * kMiB;
    options_.host_capacity = 4 * kMiB;
    options_.disk_dir.clear();
    options_.disk_capacity.reset();
    disk_pressure_.reset();
  }
  static std::string Key(int number) { return "k" + std::to_string(number); }
  void SetOne(int number, bool chained) {
    SetOptions options;
    const std::string parent = chained && number > 0 ? Key(number - 1) : "";
    options.parent = parent;
    ASSERT_TRUE(Set(Key(number), Bulk(Key(number), kMiB), options)) << number;
  }
  bool HostIsFull() {
    return Eventually([](const Stats& stats) {
      return stats.host.bytes == 4 * kMiB && stats.moves.under_way == 0;
    });
  }
  void ExpectAll(int count) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(Get(Key(i)), Bulk(Key(i), kMiB)) << i;
  }
};

TEST_F(TradeTest, ANewEndOfAChainDoesNotKeepTheChainOnTheCard) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 4; ++i) SetOne(i, true);
  ASSERT_TRUE(HostIsFull());
  SetOne(4, true);  // Unbacked, and all that is backed are its ancestors.
  const Reclaimed reclaimed = cache_->Reclaim(2 * kMiB, std::chrono::seconds(10));
  EXPECT_GE(reclaimed.freed, 2 * kMiB) << reclaimed.why_not_more;
  EXPECT_EQ(Count(TakeTold(), Action::kDestroy), 0U);
  EXPECT_LE(cache_->stats().host.bytes, 4 * kMiB);
  ExpectAll(5);
}

TEST_F(TradeTest, CopiesOfWhatIsUsedMakeWayForCopiesOfWhatIsNot) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 4; ++i) SetOne(i, false);
  ASSERT_TRUE(HostIsFull());
  for (int i = 4; i < 8; ++i) SetOne(i, false);
  (void)TakeTold();
  // The first four are read again and again, the others by nobody.
  std::vector<std::string> backed;
  ASSERT_TRUE(Eventually([&](const Stats&) {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Get(Key(i)), Bulk(Key(i), kMiB));
    for (const Told& told : TakeTold()) {
      EXPECT_NE(told.action, Action::kDestroy) << told.key;
      if (told.action == Action::kBack) backed.push_back(told.key);
    }
    return backed.size() >= 4;
  }));
  std::sort(backed.begin(), backed.end());
  EXPECT_EQ(backed, (std::vector<std::string>{"k4", "k5", "k6", "k7"}));
  ExpectAll(8);
}

TEST_F(TradeTest, WithoutUseNothingIsTradedForEver) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 8; ++i) SetOne(i, false);
  ASSERT_TRUE(HostIsFull());
  const Bytes before = cache_->stats().moves.bytes_down;
  // Background work has half a second to do what it should not.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // real world: movers are threads
  const Bytes after = cache_->stats().moves.bytes_down;
  EXPECT_LE(after - before, 4 * kMiB) << "each entry at most once more";
  EXPECT_EQ(cache_->size(), 8U);
}

}  // namespace
}  // namespace spillway
