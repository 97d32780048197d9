// SPDX-License-Identifier: Apache-2.0
// A disk that hangs for two seconds: memory works as before, no call waits longer than
// its limit, queues stay bounded, and in the end all drains.
#include <algorithm>
#include <atomic>

#include "cache/testing/tiers_fixture.h"
#include "tier/disk/testing/faulty_files.h"

namespace spillway {
namespace {

using testing::Bulk;
using testing::FaultyFiles;
using testing::FileCall;
using testing::TiersTest;

using Steady = std::chrono::steady_clock;  // real world: how long real calls take

// What a call takes that waits for nothing. On a busy machine a call is sometimes late:
// such a call is tried several times, and once in time is enough. A call that does wait
// for the disk waits each time; one that waits for ever does not even meet the bound
// for all calls.
constexpr Duration kAtOnce = std::chrono::milliseconds(500);
constexpr Duration kEver = std::chrono::seconds(9);
constexpr int kTries = 3;

class CacheStall : public TiersTest {
 protected:
  static constexpr std::size_t kBytes = 256 * kKiB;

  CacheStall() {
    auto files = std::make_shared<FaultyFiles>(RealFiles());
    files->SetScript([this](FileCall, std::uint64_t, int) {
      hung_.wait(true);
      return 0;
    });
    seams_.files = files;
  }
  ~CacheStall() override {
    Resume();
    cache_.reset();  // Its threads still read the script.
  }

  void Hang() { hung_ = true; }
  void Resume() {
    hung_ = false;
    hung_.notify_all();
  }
  static std::string Key(int i) { return "k" + std::to_string(i); }

  // Gets of values in memory, timed: the p99 and the slowest.
  struct Times {
    Duration p99{};
    Duration slowest{};
  };
  Times TimeHits(const std::vector<std::string>& keys, Duration how_long) {
    std::vector<Duration> took;
    const auto end = Steady::now() + how_long;           // real world: as above
    for (std::size_t i = 0; Steady::now() < end; ++i) {  // real world: as above
      const std::string& key = keys[i % keys.size()];
      const auto start = Steady::now();  // real world: as above
      const auto got = cache_->Get(key);
      took.push_back(Steady::now() - start);  // real world: as above
      EXPECT_TRUE(got && *got) << key;
      if (!got || !*got) break;
    }
    const auto at = static_cast<std::ptrdiff_t>(took.size() * 99 / 100);
    std::nth_element(took.begin(), took.begin() + at, took.end());
    const Duration p99 = took[static_cast<std::size_t>(at)];
    return {p99, *std::max_element(took.begin(), took.end())};
  }

  std::atomic<bool> hung_{false};
};

TEST_F(CacheStall, ADiskThatHangsHoldsUpNobodyAbove) {
  ASSERT_TRUE(Open().Start());
  // More than memory holds: the oldest are only on disk.
  constexpr int kOld = 160;
  for (int i = 0; i < kOld; ++i) ASSERT_TRUE(Set(Key(i), Bulk(Key(i), kBytes)));
  ASSERT_TRUE(AllBacked());
  std::vector<std::string> hot;
  std::vector<std::string> cold;
  for (int i = 0; i < kOld; ++i) {
    const auto got = cache_->Get(Key(i), {.wait = Duration::zero()});
    if (got && *got) {
      hot.push_back(Key(i));
    } else {
      cold.push_back(Key(i));
    }
  }
  ASSERT_GT(hot.size(), 16U);
  ASSERT_GT(cold.size(), 16U);
  hot.erase(hot.begin(), hot.end() - 8);  // The last ones set: they stay longest.
  const Times before = TimeHits(hot, std::chrono::milliseconds(300));

  Hang();
  const auto start = Steady::now();  // real world: as above
  // A get of a cold key is answered within its limit.
  constexpr Duration kWait = std::chrono::milliseconds(100);
  Duration fastest = Duration::max();
  for (int i = 0; i < kTries; ++i) {
    const auto asked = Steady::now();  // real world: as above
    const auto got = cache_->Get(cold[static_cast<std::size_t>(i)], {.wait = kWait});
    const Duration took = Steady::now() - asked;  // real world: as above
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::kDeadline) << got.error().message;
    EXPECT_LT(took, kEver);
    fastest = std::min(fastest, took);
  }
  EXPECT_LT(fastest, kWait + kAtOnce);
  // Sets succeed while clean entries can make room for them.
  std::vector<std::string> fresh;
  Duration slowest = Duration::max();
  for (int round = 0; round < kTries && slowest >= kAtOnce; ++round) {
    slowest = Duration::zero();
    for (int i = 0; i < 16; ++i) {
      fresh.push_back("fresh" + std::to_string(fresh.size()));
      const auto asked = Steady::now();  // real world: as above
      EXPECT_TRUE(Set(fresh.back(), Bulk(fresh.back(), kBytes)));
      slowest = std::max<Duration>(slowest, Steady::now() - asked);  // real world: as above
    }
    EXPECT_LT(slowest, kEver);
  }
  EXPECT_LT(slowest, kAtOnce);
  Times during = TimeHits(hot, std::chrono::milliseconds(1000));
  for (int more = 1; more < kTries && during.slowest >= kAtOnce; ++more) {
    EXPECT_LT(during.slowest, kEver);
    during = TimeHits(hot, std::chrono::milliseconds(1000));
  }
  std::uint64_t most = 0;
  while (Steady::now() - start < std::chrono::seconds(2)) {  // real world: as above
    for (const std::string& key : hot) EXPECT_TRUE(cache_->Contains(key));
    most = std::max(most, cache_->stats().moves.in_flight);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // real world: as above
  }
  EXPECT_LE(most, 160U) << "bounded by the transfer queues";
  std::printf("hits, ns: p99 %lld before, %lld while the disk hung; slowest %lld\n",
              static_cast<long long>(before.p99.count()),
              static_cast<long long>(during.p99.count()),
              static_cast<long long>(during.slowest.count()));
  EXPECT_LT(during.slowest, kAtOnce);

  Resume();
  EXPECT_TRUE(AllBacked()) << "all drains";
  for (const std::string& key : cold) EXPECT_EQ(Get(key), Bulk(key, kBytes)) << key;
  for (const std::string& key : fresh) EXPECT_EQ(Get(key), Bulk(key, kBytes)) << key;
}

TEST_F(CacheStall, SetsAreAnsweredInTimeWhenNothingCanMakeRoom) {
  // Long enough for what needs no disk, also on a busy machine; and less than the 10 s
  // that a set would wait that is not woken.
  options_.room_wait = std::chrono::seconds(3);
  options_.write_back_after.reset();
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  Hang();
  int set = 0;
  Duration slowest{};
  std::optional<Error> refused;
  while (!refused && set < 200) {
    const auto asked = Steady::now();  // real world: as above
    const Status status = Set(Key(set), Bulk(Key(set), kBytes));
    slowest = std::max<Duration>(slowest, Steady::now() - asked);  // real world: as above
    if (status) {
      ++set;
    } else {
      refused = status.error();
    }
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::kBlocked) << refused->message;
  EXPECT_GE(set, 60) << "the host tier's 64, and some";
  EXPECT_LT(slowest, kEver);
  for (int i = 0; i < set; ++i) EXPECT_EQ(Get(Key(i)), Bulk(Key(i), kBytes)) << i;
  Resume();
  EXPECT_TRUE(Eventually([](const Stats& stats) { return stats.moves.in_flight == 0; }));
  ASSERT_TRUE(Set("then", Bulk("then", kBytes)));
}

// A write that replaces a value on a hanging disk waits for the disk once.
TEST_F(CacheStall, ReplacingWaitsForAHangingDiskOnceAndNotForEver) {
  constexpr int kEach = 4;
  ASSERT_TRUE(Open().Start());
  Duration first{};
  Duration others = Duration::max();
  const auto in_time = [&] {
    return first < std::chrono::seconds(1) + kAtOnce && others < kAtOnce;
  };
  for (int from = 0; from < kTries * kEach && !in_time(); from += kEach) {
    SCOPED_TRACE(from);
    for (int i = from; i < from + kEach; ++i) ASSERT_TRUE(Set(Key(i), Bulk(Key(i), kBytes)));
    ASSERT_TRUE(AllBacked());
    Hang();
    others = Duration::zero();
    for (int i = from; i < from + kEach; ++i) {
      const auto asked = Steady::now();  // real world: as above
      ASSERT_TRUE(Set(Key(i), Bulk(Key(i), kBytes, 1)));
      const Duration took = Steady::now() - asked;  // real world: as above
      if (i == from) {
        first = took;
      } else {
        others = std::max(others, took);
      }
    }
    Resume();
    ASSERT_TRUE(AllBacked());
    for (int i = from; i < from + kEach; ++i) EXPECT_EQ(Get(Key(i)), Bulk(Key(i), kBytes, 1));
  }
  EXPECT_TRUE(in_time()) << "the first took " << first.count() << " ns, the slowest of the others "
                         << others.count() << " ns";
}

// Entries with a clean copy on the host are given back even while the host's copy is
// being written to a disk that hangs.
TEST_F(CacheStall, MemoryIsGivenBackWhileTheHostsCopyIsBeingWritten) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  Hang();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Set(Key(i), Bulk(Key(i), kBytes)));
  ASSERT_TRUE(Eventually([](const Stats& stats) {
    return stats.device.clean == 4 * kBytes && stats.moves.in_flight > 0;
  }));
  const Reclaimed reclaimed = cache_->Reclaim(4 * kBytes, std::chrono::seconds(5));
  EXPECT_GE(reclaimed.freed, 4 * kBytes) << reclaimed.why_not_more;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Get(Key(i)), Bulk(Key(i), kBytes)) << i;
  Resume();
  EXPECT_TRUE(AllBacked());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Get(Key(i)), Bulk(Key(i), kBytes)) << i;
}

// Closing does not wait for ever, and transfers in flight end by themselves.
TEST_F(CacheStall, ACacheThatIsClosedWhileItsDiskHangs) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Set(Key(i), Bulk(Key(i), kBytes)));
  ASSERT_TRUE(AllBacked());
  const auto lease = cache_->Get(Key(0));
  Hang();
  for (int i = 4; i < 8; ++i) ASSERT_TRUE(Set(Key(i), Bulk(Key(i), kBytes)));
  ASSERT_TRUE(Eventually([](const Stats& stats) { return stats.moves.in_flight > 0; }));
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // real world: it is closing now
    Resume();
  });
  cache_.reset();
  later.join();
  EXPECT_EQ((*lease)->text(), Bulk(Key(0), kBytes));
}

}  // namespace
}  // namespace spillway
