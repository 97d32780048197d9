// SPDX-License-Identifier: Apache-2.0
// Memory granted to neighbours: the cache does not grow into it.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strand.h"
#include "cache/core.h"
#include "cache/reclaim_server.h"
#include "cache/testing/cache_fixture.h"
#include "cache/testing/tiers_fixture.h"
#include "device/testing/scratch_run_dir.h"

namespace spillway {
namespace {

using testing::Bulk;
using testing::CacheTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TiersTest;

void Reserve(Cache& cache, std::uint64_t who, Bytes bytes,
             std::optional<Bytes> others = std::nullopt) {
  Core* const core = Core::Of(cache);
  RunOn(core->strand(),
        [&] { core->engine().ReserveForPeer(TierId::kDevice, who, bytes, others); });
}

class GrantTest : public CacheTest {
 protected:
  static constexpr Bytes kTenth = kMiB / 10;
  std::string Value(Bytes bytes) { return std::string(bytes, 'v'); }
  Bytes granted() { return cache_->stats().device.granted; }
  // A sample as the card gives it: others hold this many tenths, and we what we hold.
  void Sample(double others) {
    const double ours = static_cast<double>(cache_->stats().device.held) / kMiB;
    cache_->Apply(others / 10 + ours);
  }
};

TEST_F(GrantTest, IsNotGrownIntoUntilItIsOver) {
  Open();
  Sample(3);
  Reserve(*cache_, 1, 4 * kTenth);
  EXPECT_EQ(granted(), 4 * kTenth);
  ASSERT_TRUE(Set("a", Value(2 * kTenth)));  // 7 are free, 4 of them granted.
  Lease a = std::move(**cache_->Get("a"));
  const Status refused = Set("b", Value(2 * kTenth));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBlocked);
  EXPECT_THAT(refused.error().message, HasSubstr("are reserved for neighbours that asked"));
  a.Release();
  ASSERT_TRUE(Set("b", Value(2 * kTenth)));  // In place of its own bytes.
  EXPECT_THAT(Left(), ElementsAre("a:destroy:reserve"));
  Reserve(*cache_, 1, 0);
  EXPECT_EQ(granted(), 0U);
  ASSERT_TRUE(Set("c", Value(2 * kTenth)));
  EXPECT_EQ(cache_->size(), 2U);
}

TEST_F(GrantTest, TakenItIsNoLongerKeptFree) {
  Open();
  Sample(1);
  Reserve(*cache_, 1, 4 * kTenth);
  Sample(4);
  EXPECT_NEAR(static_cast<double>(granted()), kTenth, 4096);
  Sample(5);  // All of it: the other half of the card is ours.
  EXPECT_LT(granted(), 4096U);
  ASSERT_TRUE(Set("a", Value(4 * kTenth)));
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(GrantTest, AFreshLookIsTheBaseAndNotAnOldSample) {
  Open();
  Sample(1);
  // Another process took 2 since, not the one that asked.
  Reserve(*cache_, 1, 4 * kTenth, 3 * kTenth);
  Sample(3);
  EXPECT_NEAR(static_cast<double>(granted()), 4 * kTenth, 4096);
}

TEST_F(GrantTest, CostsNothingWhileThereIsRoomBesides) {
  Open();
  Sample(0);
  Reserve(*cache_, 1, kTenth);
  Reserve(*cache_, 2, kTenth);
  EXPECT_EQ(granted(), 2 * kTenth);
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(Set("k" + std::to_string(i), Value(kTenth)));
  EXPECT_THAT(Left(), ElementsAre());
  EXPECT_EQ(cache_->size(), 7U);
}

TEST_F(TiersTest, PeerReservationsSendSetsToTheTierBelow) {
  ASSERT_TRUE(Open().Start());
  device_pressure_->Set(0.1);
  ASSERT_TRUE(Eventually([](const Stats& stats) { return stats.device.total > 0; }));
  Reserve(*cache_, 1, 8 * kMiB);
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  EXPECT_EQ(cache_->stats().device.bytes, 0U);
  EXPECT_EQ(cache_->stats().host.bytes, kMiB);
  EXPECT_EQ(Get("a"), Bulk("a", kMiB));
  Reserve(*cache_, 1, 0);
  ASSERT_TRUE(Set("b", Bulk("b", kMiB)));
  EXPECT_EQ(Get("b"), Bulk("b", kMiB));
  EXPECT_GE(cache_->stats().device.bytes, kMiB);
}

// --- listening ---

class ListenTest : public CacheTest {
 protected:
  ListenTest() {
    options_.card = "listening";
    options_.capacity.reset();
  }
  testing::ScratchRunDir run_dir_;
};

TEST_F(ListenTest, OnASharedCardAndNowhereElse) {
  const AskStats ask = Open().stats().ask;
  EXPECT_EQ(ask.socket, run_dir_.path() + "/ask-listening-" + std::to_string(::getpid()));
  EXPECT_EQ(ask.trouble, "");
  auto second = Cache::Open(WithWorld());
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->stats().ask.socket, ask.socket + ".2");
  cache_.reset();
  EXPECT_FALSE(std::filesystem::exists(ask.socket));
  EXPECT_TRUE(std::filesystem::exists(ask.socket + ".2"));
  second->reset();
  options_.ask = false;
  EXPECT_EQ(Open().stats().ask.socket, "");
  options_.ask = true;
  options_.card = "";
  options_.capacity = kMiB;
  EXPECT_EQ(Open().stats().ask.socket, "");
}

TEST_F(ListenTest, WithoutASocketTheCacheLivesOnAndSaysSo) {
  options_.ask_group = "no-such-group";
  EXPECT_THAT(Open().stats().ask.trouble, HasSubstr("'no-such-group' is no group"));
  EXPECT_EQ(cache_->stats().ask.socket, "");
  ASSERT_TRUE(Set("a", "1"));
  EXPECT_EQ(Get("a"), "1");
  // A name too long for a socket, though not for a card.
  options_.ask_group = "";
  const std::string deep = run_dir_.path() + "/" + std::string(80, 'd');
  std::filesystem::create_directory(deep);
  ::setenv("SPILLWAY_RUN_DIR", deep.c_str(), 1);
  EXPECT_THAT(Open().stats().ask.trouble, HasSubstr("too long a path for a socket"));
  ::setenv("SPILLWAY_RUN_DIR", run_dir_.path().c_str(), 1);
}

}  // namespace
}  // namespace spillway
