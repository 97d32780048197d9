// SPDX-License-Identifier: Apache-2.0
// A host tier smaller than the device tier above it: which copies it keeps.
#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "cache/testing/tiers_fixture.h"
#include "cache/testing/virtual_machine.h"

namespace spillway {
namespace {

using testing::Bulk;
using testing::TiersTest;

class RebalanceTest : public TiersTest {
 protected:
  RebalanceTest() {
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
      return stats.host.bytes == 4 * kMiB && stats.moves.in_flight == 0;
    });
  }
  void ExpectAll(int count) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(Get(Key(i)), Bulk(Key(i), kMiB)) << i;
  }
};

TEST_F(RebalanceTest, ANewEndOfAChainDoesNotKeepTheChainOnTheCard) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 4; ++i) SetOne(i, true);
  ASSERT_TRUE(HostIsFull());
  SetOne(4, true);  // It is dirty, and all clean entries are its ancestors.
  const Reclaimed reclaimed = cache_->Reclaim(2 * kMiB, std::chrono::seconds(10));
  EXPECT_GE(reclaimed.freed, 2 * kMiB) << reclaimed.why_not_more;
  EXPECT_EQ(Count(TakeTold(), Action::kDestroy), 0U);
  EXPECT_LE(cache_->stats().host.bytes, 4 * kMiB);
  ExpectAll(5);
}

TEST_F(RebalanceTest, CopiesOfWhatIsUsedMakeWayForCopiesOfWhatIsNot) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 4; ++i) SetOne(i, false);
  ASSERT_TRUE(HostIsFull());
  for (int i = 4; i < 8; ++i) SetOne(i, false);
  (void)TakeTold();
  // The first four are read again and again, the others never.
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

TEST_F(RebalanceTest, WithoutUseCopiesAreNotExchangedForEver) {
  options_.sample_period = std::chrono::milliseconds(50);  // Background work runs at this rate.
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 8; ++i) SetOne(i, false);
  ASSERT_TRUE(HostIsFull());
  const Bytes before = cache_->stats().moves.bytes_down;
  // Gives background work half a second to do what it should not.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // real world: threads work
  const Bytes after = cache_->stats().moves.bytes_down;
  EXPECT_LE(after - before, 4 * kMiB) << "each entry at most once more";
  EXPECT_EQ(cache_->size(), 8U);
}

// Agents in random order, each with a chain on the card that grows a little with every
// turn; the host has room for half of their entries. Returns how many bytes are copied
// down for safety, per byte that is used.
double CopiedForOneUsed(const std::string& policy) {
  constexpr int kAgents = 16;
  constexpr int kChain = 20;
  constexpr Bytes kChunk = 32 * kMiB;
  testing::VirtualMachine::Settings settings;
  settings.policy = policy;
  settings.graph = false;
  constexpr Bytes kAll = Bytes{kAgents} * kChain * kChunk;
  settings.device = 2 * kAll;
  settings.host = kAll / 2;
  settings.write_back_after = std::chrono::milliseconds(50);
  testing::VirtualMachine machine(settings);
  std::mt19937_64 random(1);
  std::vector<int> lengths(kAgents, 0);
  const auto key = [](int agent, int at) { return fmt::format("{}/{}", agent, at); };
  const auto grow = [&](int agent) {
    const int at = lengths[static_cast<std::size_t>(agent)]++;
    machine.Set(key(agent, at), kChunk, at > 0 ? key(agent, at - 1) : "", Place::kDevice);
  };
  for (int agent = 0; agent < kAgents; ++agent) {
    for (int at = 0; at < kChain; ++at) grow(agent);
    machine.RunBackground(std::chrono::milliseconds(200));
  }
  Bytes used = 0;
  Bytes before = 0;
  for (int turn = 0; turn < 400; ++turn) {
    if (turn == 200) {  // By then the policy has learned, if it does.
      used = 0;
      before = machine.stats().moves.bytes_down;
    }
    const int agent = static_cast<int>(random() % kAgents);
    for (int at = 0; at < lengths[static_cast<std::size_t>(agent)]; ++at) {
      EXPECT_TRUE(machine.Get(key(agent, at)));
      used += kChunk;
    }
    if (turn % 20 == 0) grow(agent);
    machine.RunBackground(std::chrono::milliseconds(300));
  }
  return static_cast<double>(machine.stats().moves.bytes_down - before) / static_cast<double>(used);
}

// The host is full, and all its entries are copies of entries on the card: no exchange
// of one copy for another would make a byte more available, whatever the level asks
// for.
Bytes CopiedUnderPressure(const std::string& policy) {
  constexpr Bytes kChunk = 32 * kMiB;
  constexpr int kEntries = 192;
  testing::VirtualMachine::Settings settings;
  settings.policy = policy;
  settings.graph = false;
  settings.device = 10 * kGiB;
  settings.host = 3 * kGiB;
  settings.thresholds = {0.5, 0.6, 0.9, 0.95};
  settings.write_back_after = std::chrono::hours(1);
  testing::VirtualMachine machine(settings);
  machine.Others(3584 * kMiB);
  for (int i = 0; i < kEntries; ++i) {
    machine.Set(fmt::format("{}", i), kChunk, "", Place::kDevice);
    machine.RunBackground(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(machine.stats().device.bytes, 6 * kGiB);
  EXPECT_EQ(machine.stats().device.level, Level::kPressure);
  EXPECT_EQ(machine.stats().host.bytes, 3 * kGiB);
  const Bytes before = machine.stats().moves.bytes_down;
  std::mt19937_64 random(1);
  for (int turn = 0; turn < 200; ++turn) {
    for (int i = 0; i < 16; ++i) {
      EXPECT_TRUE(machine.core().Touch(fmt::format("{}", random() % kEntries)));
    }
    machine.RunBackground(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(machine.stats().entries, std::uint64_t{kEntries});
  return machine.stats().moves.bytes_down - before;
}

TEST(Rebalance, PressureDoesNotExchangeOneCopyForAnother) {
  EXPECT_EQ(CopiedUnderPressure("lru"), 0U);
  EXPECT_EQ(CopiedUnderPressure("score"), 0U);
}

TEST(Rebalance, CopiesAreNotExchangedBackAndForth) {
  const double by_last_use = CopiedForOneUsed("lru");
  EXPECT_GT(by_last_use, 0.1);  // Some are: the entries in use are not the idle ones.
  EXPECT_LT(by_last_use, 0.6);
  EXPECT_LT(CopiedForOneUsed("score"), 1.2 * by_last_use);
}

// Every turn of an agent extends its chain and leaves the end of the turn before
// behind; the host has room for half of them all. Returns the share of the copies that
// can be used at once in the end.
double PartOfUse(const std::string& policy, bool in_pieces) {
  constexpr int kAgents = 16;
  constexpr int kChain = 20;
  constexpr Bytes kChunk = 32 * kMiB;
  testing::VirtualMachine::Settings settings;
  settings.policy = policy;
  settings.graph = false;
  constexpr Bytes kAll = Bytes{kAgents} * kChain * kChunk;
  settings.device = 4 * kAll;
  settings.host = kAll / 2;
  settings.host_in_pieces = in_pieces;
  settings.write_back_after = std::chrono::milliseconds(50);
  std::size_t destroyed = 0;
  settings.on_event = [&](const Event& event) {
    destroyed += event.action == Action::kDestroy ? 1 : 0;
  };
  testing::VirtualMachine machine(settings);
  std::mt19937_64 random(1);
  std::vector<int> lengths(kAgents, 0);
  const auto key = [](int agent, int at) { return fmt::format("{}/{}", agent, at); };
  const auto grow = [&](int agent) {
    const int at = lengths[static_cast<std::size_t>(agent)]++;
    machine.Set(key(agent, at), kChunk, at > 0 ? key(agent, at - 1) : "", Place::kDevice);
  };
  const auto turn = [&](int agent) {
    const int length = lengths[static_cast<std::size_t>(agent)];
    for (int at = 0; at < length; ++at) EXPECT_TRUE(machine.Get(key(agent, at)));
    grow(agent);
    machine.Set(fmt::format("{}/end {}", agent, length), kChunk / 3, key(agent, length),
                Place::kDevice);
    machine.RunBackground(std::chrono::milliseconds(300));
  };
  for (int agent = 0; agent < kAgents; ++agent) {
    for (int at = 0; at < kChain; ++at) grow(agent);
    turn(agent);
  }
  EXPECT_GT(machine.stats().host.bytes, settings.host * 9 / 10);
  for (int turns = 0; turns < 100; ++turns) turn(static_cast<int>(random() % kAgents));
  machine.RunBackground(std::chrono::seconds(1));
  EXPECT_EQ(destroyed, 0U);
  return static_cast<double>(machine.AtOnce()) / static_cast<double>(settings.host);
}

TEST(Rebalance, AnEntryIsCopiedAfterAllThatAreEvictedBefore) {
  for (const char* policy : {"lru", "score"}) {
    EXPECT_GT(PartOfUse(policy, false), 0.8) << policy;
    EXPECT_GT(PartOfUse(policy, true), 0.5) << policy;
  }
}

// At any level, even if no entry has a copy yet; chains are evicted from their ends,
// also very long ones.
TEST(Rebalance, TheReserveIsHeldWithoutAnyCopies) {
  for (const auto& [chains, length] : {std::pair{8, 16}, {2, 2048}}) {
    const Bytes chunk = 4 * kGiB / static_cast<Bytes>(chains * length);
    testing::VirtualMachine::Settings settings;
    settings.graph = false;
    settings.device = 10 * kGiB;
    settings.host = 10 * kGiB;
    settings.reserve = kGiB;
    settings.write_back_after = std::chrono::hours(1);
    settings.thresholds = {0.97, 0.98, 0.985, 0.99};  // Never reached.
    std::size_t destroyed = 0;
    settings.on_event = [&](const Event& event) { destroyed += event.action == Action::kDestroy; };
    testing::VirtualMachine machine(settings);
    for (int chain = 0; chain < chains; ++chain) {
      for (int at = 0; at < length; ++at) {
        machine.Set(fmt::format("{}/{}", chain, at), chunk,
                    at > 0 ? fmt::format("{}/{}", chain, at - 1) : "", Place::kDevice);
      }
    }
    machine.Others(4 * kGiB);
    machine.RunBackground(std::chrono::milliseconds(50));
    ASSERT_EQ(machine.stats().device.bytes, 4 * kGiB) << "there is room for all";
    machine.Others(5 * kGiB + 256 * kMiB);
    machine.RunBackground(std::chrono::seconds(2));
    EXPECT_EQ(machine.stats().device.level, Level::kRelaxed);
    EXPECT_GE(machine.free(), kGiB) << length;
    EXPECT_EQ(destroyed, 0U);
    EXPECT_EQ(machine.stats().entries, static_cast<std::uint64_t>(chains * length));
    // Of short chains no more than is lacking; long ones must be copied completely
    // first.
    const Bytes most = length < 1024 ? kGiB + 8 * chunk : 5 * kGiB;
    EXPECT_LE(machine.free(), most);
  }
}

}  // namespace
}  // namespace spillway
