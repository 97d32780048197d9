// SPDX-License-Identifier: Apache-2.0
// Three real tiers: threads, pinned pages, files.
#include <atomic>
#include <fstream>

#include "cache/testing/tiers_fixture.h"

namespace spillway {
namespace {

using testing::Bulk;
using testing::TiersTest;

TEST_F(TiersTest, WhatIsIdleIsCopiedDownToTheDisk) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB), {.tokens = 10}));
  ASSERT_TRUE(AllBacked());
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.entries, 1U);
  EXPECT_EQ(stats.tokens, 10);
  EXPECT_EQ(stats.device.bytes, kMiB);
  EXPECT_EQ(stats.host.bytes, kMiB);
  EXPECT_EQ(stats.disk.bytes, kMiB);
  EXPECT_EQ(stats.moves.bytes_down, 2 * kMiB);
  EXPECT_EQ(Count(TakeTold(), Action::kBack), 2U);
}

TEST_F(TiersTest, NoMoreThanMemoryButAllOfIt) {
  ASSERT_TRUE(Open().Start());
  // 48 MiB into 8 + 16 + 64.
  for (int i = 0; i < 48; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(Set(key, Bulk(key, kMiB))) << key;
  }
  EXPECT_EQ(cache_->size(), 48U);
  for (int i = 0; i < 48; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(Get(key), Bulk(key, kMiB)) << key << cache_->Explain(key);
  }
  EXPECT_EQ(Count(TakeTold(), Action::kDestroy), 0U);
  const Stats stats = cache_->stats();
  EXPECT_LE(stats.device.bytes, stats.device.capacity);
  EXPECT_LE(stats.host.bytes, stats.host.capacity);
  EXPECT_LE(stats.disk.bytes, stats.disk.capacity);
}

TEST_F(TiersTest, ADeviceInEmergencyTakesNothingAndTheHostAll) {
  ASSERT_TRUE(Open().Start());
  device_pressure_->Set(0.97);
  ASSERT_TRUE(Eventually([&](const Stats&) { return cache_->level() == Level::kEmergency; }));
  EXPECT_FALSE(cache_->is_blocked());
  for (int i = 0; i < 8; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(Set(key, Bulk(key, kMiB)));
  }
  EXPECT_EQ(cache_->stats().device.bytes, 0U);
  for (int i = 0; i < 8; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(Get(key), Bulk(key, kMiB));
  }
}

TEST_F(TiersTest, WithEveryTierInEmergencySetsAreRefused) {
  options_.write_back_after.reset();  // A copy below would make it available.
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  device_pressure_->Set(0.97);
  host_pressure_->Set(0.97);
  disk_pressure_->Set(0.97);
  ASSERT_TRUE(Eventually([&](const Stats&) { return cache_->is_blocked(); }));
  const Status refused = Set("b", Bulk("b", kMiB));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBlocked);
  EXPECT_NE(refused.error().message.find("host"), std::string::npos);
  EXPECT_EQ(Get("a"), Bulk("a", kMiB));
}

TEST_F(TiersTest, ReclaimGivesBackExactlyWhatItSays) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 6; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(Set(key, Bulk(key, kMiB)));
  }
  const Bytes held = cache_->stats().device.held;
  const Reclaimed reclaimed = cache_->Reclaim(4 * kMiB, std::chrono::seconds(10));
  EXPECT_GE(reclaimed.freed, 4 * kMiB);
  EXPECT_EQ(reclaimed.why_not_more, "");
  EXPECT_EQ(held - cache_->stats().device.held, reclaimed.freed);
  EXPECT_EQ(cache_->size(), 6U);
  for (int i = 0; i < 6; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(Get(key), Bulk(key, kMiB));
  }
}

TEST_F(TiersTest, EveryTierCountsWhatFlowsAndWhatItDid) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  ASSERT_TRUE(AllBacked());
  ASSERT_GE(cache_->Reclaim(kMiB, std::chrono::seconds(10)).freed, kMiB);
  Stats stats = cache_->stats();
  const auto of = [](const auto& by, Action action) {
    return by.at(static_cast<std::size_t>(action));
  };
  EXPECT_EQ(stats.host.copied_down, kMiB);
  EXPECT_EQ(stats.disk.copied_down, kMiB);
  EXPECT_EQ(stats.device.copied_down + stats.device.copied_up, 0U);
  EXPECT_EQ(of(stats.device.removed_by_action, Action::kBack), 1U);
  EXPECT_EQ(of(stats.device.removed_by_action, Action::kDrop), 1U);
  EXPECT_EQ(of(stats.device.removed_bytes_by_action, Action::kDrop), kMiB);
  EXPECT_EQ(of(stats.host.removed_by_action, Action::kDrop), 0U);
  EXPECT_EQ(stats.give_back.count, 1U);
  EXPECT_GE(stats.give_back.bytes, kMiB);
  EXPECT_GT(stats.give_back.last, Duration::zero());
  // And up again, which its history shows.
  ASSERT_TRUE(Eventually([&](const Stats& now) {
    EXPECT_EQ(Get("a"), Bulk("a", kMiB));
    return now.device.entries == 1;
  }));
  // A copy that arrives while one of those gets still has its lease is made again, and counted.
  stats = cache_->stats();
  EXPECT_GE(stats.device.copied_up, kMiB);
  EXPECT_EQ(stats.device.copied_up % kMiB, 0U);
  EXPECT_EQ(stats.moves.bytes_up, stats.device.copied_up);
  const std::vector<Cache::Transition> journey = cache_->History("a", 10);
  ASSERT_EQ(journey.size(), 4U);
  EXPECT_TRUE(journey[0].came);
  EXPECT_EQ(journey[0].from, "host");
  EXPECT_EQ(journey[0].to, "device");
  EXPECT_EQ(journey[1].action, Action::kDrop);
  EXPECT_EQ(journey[1].reason, Reason::kAsk);
  EXPECT_EQ(journey[3].action, Action::kBack);
  EXPECT_EQ(cache_->History("a", 1).size(), 1U);
  EXPECT_EQ(cache_->History("b", 9).size(), 0U);
  EXPECT_EQ(cache_->TransfersInFlight(10).size(), 0U);
}

TEST_F(TiersTest, LookingAtOneIsNoUse) {
  Open();
  ASSERT_TRUE(Set("a", Bulk("a", kMiB), {.tokens = 3, .agent = "me"}));
  std::uint64_t uses = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(cache_->Visit("a", [&](const Cache::EntryInfo& entry) {
      EXPECT_EQ(entry.key, "a");
      EXPECT_EQ(entry.agent, "me");
      EXPECT_EQ(entry.tokens, 3);
      EXPECT_EQ(entry.bytes, kMiB);
      EXPECT_EQ(entry.leases, 0U);
      uses = entry.access_count;
    }));
  }
  EXPECT_EQ(uses, 1U);
  EXPECT_EQ(cache_->stats().hits + cache_->stats().misses, 0U);
  EXPECT_FALSE(cache_->Visit("b", [](const Cache::EntryInfo&) { FAIL(); }));
}

TEST_F(TiersTest, ReclaimLeavesLeasesAlone) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", 2 * kMiB)));
  const auto lease = cache_->Get("a");
  const Reclaimed reclaimed = cache_->Reclaim(2 * kMiB, std::chrono::milliseconds(200));
  EXPECT_EQ(reclaimed.freed, 0U);
  EXPECT_NE(reclaimed.why_not_more, "");
  EXPECT_EQ((*lease)->text(), Bulk("a", 2 * kMiB));
}

TEST_F(TiersTest, WhatIsOnDiskIsThereAfterARestart) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 10; ++i) {
    const std::string key = "k" + std::to_string(i);
    const std::string parent = i == 0 ? "" : "k" + std::to_string(i - 1);
    ASSERT_TRUE(Set(key, Bulk(key, 300'000),
                    {.tokens = i, .agent = "planner", .parent = parent, .meta = "m"}));
  }
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  // A get waits for a blob that is still being read in.
  for (int i = 0; i < 10; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(Get(key), Bulk(key, 300'000));
    const auto lease = cache_->Get(key);
    ASSERT_TRUE(lease && *lease);
    EXPECT_EQ((*lease)->tokens(), i);
    EXPECT_EQ((*lease)->agent(), "planner");
    EXPECT_EQ((*lease)->meta(), "m");
  }
  EXPECT_EQ(cache_->size(), 10U);
  EXPECT_EQ(cache_->Match({"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"}), 10U);
}

TEST_F(TiersTest, ASecondCacheOnOneFolderIsRefused) {
  Open();
  Options options = options_;
  const auto second = Cache::Open(options);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(options.disk_dir), std::string::npos);
}

TEST_F(TiersTest, TheHostTierShrinksBeforeTheMachineRunsShort) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 12; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(Set(key, Bulk(key, kMiB)));
  }
  ASSERT_TRUE(AllBacked());
  const Bytes held = cache_->stats().host.held;
  ASSERT_GE(held, 8 * kMiB);
  // All but 2 % is used, and all our entries have a copy on disk.
  host_pressure_->Set(0.98);
  ASSERT_TRUE(Eventually([&](const Stats& stats) { return stats.host.held < held; }));
  EXPECT_EQ(cache_->size(), 12U);
  host_pressure_->Set(0.1);
  for (int i = 0; i < 12; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(Get(key), Bulk(key, kMiB));
  }
}

TEST_F(TiersTest, FilesOfOthersAreNoPressureByThemselves) {
  disk_pressure_ = nullptr;  // The default.
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  ASSERT_TRUE(AllBacked());
  // The total is its own files and the free space, not the whole disk.
  EXPECT_TRUE(Eventually([](const Stats& stats) {
    const std::optional<Reading>& reading = stats.disk_source.reading;
    return reading && reading->total >= reading->free + kMiB &&
           reading->total <= reading->free + 64 * kMiB;
  }));
  EXPECT_EQ(cache_->stats().disk.level, Level::kRelaxed);
}

TEST_F(TiersTest, ManyGetsOfOneColdKeyReadItOnce) {
  ASSERT_TRUE(Open().Start());
  const std::string value = Bulk("cold", kMiB);
  ASSERT_TRUE(Set("cold", value));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  constexpr int kGets = 10'000;
  std::vector<Operation> operations(kGets);
  for (Operation& operation : operations) {
    operation.kind = Operation::Kind::kGet;
    operation.key = "cold";
  }
  std::atomic<bool> done{false};
  cache_->Submit(operations.data(), operations.size(), std::chrono::seconds(30), Completion([&] {
                   done = true;
                   done.notify_one();
                 }));
  done.wait(false);
  for (Operation& operation : operations) {
    ASSERT_TRUE(operation.status) << operation.status.error().message;
    ASSERT_TRUE(operation.found);
    ASSERT_EQ(operation.lease.text(), value);
    operation.lease.Release();
  }
  EXPECT_EQ(cache_->stats().moves.bytes_up, kMiB);
  EXPECT_EQ(cache_->stats().disk.files.read / kMiB, 1U);
}

TEST_F(TiersTest, WaitZeroNeverTouchesALowerTier) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  const auto got = cache_->Get("a", {.wait = Duration::zero()});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kNotResident);
  EXPECT_EQ(cache_->stats().moves.fetches, 0U);
}

TEST_F(TiersTest, PrefetchBringsItUp) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  const std::string_view keys[] = {"a", "nobody"};
  EXPECT_EQ(cache_->Prefetch(keys, 2), 1U);
  ASSERT_TRUE(Eventually([](const Stats& stats) { return stats.moves.bytes_up == kMiB; }));
  const auto got = cache_->Get("a", {.wait = Duration::zero()});
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->text(), Bulk("a", kMiB));
}

TEST_F(TiersTest, EraseAndReplaceReachTheDisk) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  ASSERT_TRUE(Set("b", Bulk("b", kMiB)));
  ASSERT_TRUE(AllBacked());
  EXPECT_TRUE(cache_->Erase("a"));
  ASSERT_TRUE(Set("b", Bulk("b", kMiB, 1)));
  ASSERT_TRUE(AllBacked());
  EXPECT_EQ(cache_->stats().disk.bytes, kMiB);
  cache_.reset();
  Open();
  EXPECT_EQ(Get("a"), "(miss)");
  EXPECT_EQ(Get("b"), Bulk("b", kMiB, 1));
}

TEST_F(TiersTest, AnOwnTtlHoldsOverARestart) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("short", Bulk("s", 100'000), {.ttl = std::chrono::milliseconds(400)}));
  ASSERT_TRUE(Set("long", Bulk("l", 100'000), {.ttl = std::chrono::hours(1)}));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  EXPECT_EQ(Get("long"), Bulk("l", 100'000));
  ASSERT_TRUE(Eventually([&](const Stats&) { return Get("short") == "(miss)"; }));
}

TEST_F(TiersTest, ALeaseKeepsTheBytesWhateverMoves) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("held", Bulk("held", kMiB)));
  auto lease = cache_->Get("held");
  const std::byte* const at = (*lease)->data();
  for (int i = 0; i < 40; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(Set(key, Bulk(key, kMiB)));
  }
  EXPECT_EQ((*lease)->data(), at);
  EXPECT_EQ((*lease)->text(), Bulk("held", kMiB));
  cache_->Erase("held");
  EXPECT_EQ((*lease)->text(), Bulk("held", kMiB));
  cache_.reset();
  EXPECT_EQ((*lease)->text(), Bulk("held", kMiB));
}

}  // namespace
}  // namespace spillway
