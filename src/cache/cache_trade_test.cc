// A host tier smaller than what lies above it: whose copies it keeps.
#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "cache/testing/tiers_fixture.h"
#include "cache/testing/virtual_machine.h"

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
  options_.sample_period = std::chrono::milliseconds(50);  // Background work goes by it.
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

// Agents in no particular order, each with a chain on the card that grows a little with
// every turn; the host has room for half of what they hold. How many bytes go down, as
// copies made to be safe, for one that is used.
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
  settings.write_behind_after = std::chrono::milliseconds(50);
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
    machine.Tend(std::chrono::milliseconds(200));
  }
  Bytes used = 0;
  Bytes before = 0;
  for (int turn = 0; turn < 400; ++turn) {
    if (turn == 200) {  // By then it has learnt, if it does.
      used = 0;
      before = machine.stats().moves.bytes_down;
    }
    const int agent = static_cast<int>(random() % kAgents);
    for (int at = 0; at < lengths[static_cast<std::size_t>(agent)]; ++at) {
      EXPECT_TRUE(machine.Get(key(agent, at)));
      used += kChunk;
    }
    if (turn % 20 == 0) grow(agent);
    machine.Tend(std::chrono::milliseconds(300));
  }
  return static_cast<double>(machine.stats().moves.bytes_down - before) / static_cast<double>(used);
}

// All that the host has are copies of what lies on the card, and it is full: no exchange of
// one for another would make a byte more available, however the level asks for some.
Bytes CopiedUnderPressure(const std::string& policy) {
  constexpr Bytes kChunk = 32 * kMiB;
  constexpr int kEntries = 192;
  testing::VirtualMachine::Settings settings;
  settings.policy = policy;
  settings.graph = false;
  settings.device = 10 * kGiB;
  settings.host = 3 * kGiB;
  settings.thresholds = {0.5, 0.6, 0.9, 0.95};
  settings.write_behind_after = std::chrono::hours(1);
  testing::VirtualMachine machine(settings);
  machine.Others(3584 * kMiB);
  for (int i = 0; i < kEntries; ++i) {
    machine.Set(fmt::format("{}", i), kChunk, "", Place::kDevice);
    machine.Tend(std::chrono::milliseconds(10));
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
    machine.Tend(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(machine.stats().entries, std::uint64_t{kEntries});
  return machine.stats().moves.bytes_down - before;
}

TEST(Trade, PressureDoesNotExchangeOneCopyForAnother) {
  EXPECT_EQ(CopiedUnderPressure("lru"), 0U);
  EXPECT_EQ(CopiedUnderPressure("score"), 0U);
}

TEST(Trade, CopiesAreNotTradedBackAndForth) {
  const double by_last_use = CopiedForOneUsed("lru");
  EXPECT_GT(by_last_use, 0.1);  // Some are: what is used is not what is idle.
  EXPECT_LT(by_last_use, 0.6);
  EXPECT_LT(CopiedForOneUsed("score"), 1.2 * by_last_use);
}

// Every turn of an agent adds to its chain and leaves an end of the turn before behind; the
// host has room for half of them all. What part of its copies is of use at once, in the end.
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
  settings.write_behind_after = std::chrono::milliseconds(50);
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
    machine.Tend(std::chrono::milliseconds(300));
  };
  for (int agent = 0; agent < kAgents; ++agent) {
    for (int at = 0; at < kChain; ++at) grow(agent);
    turn(agent);
  }
  EXPECT_GT(machine.stats().host.bytes, settings.host * 9 / 10);
  for (int turns = 0; turns < 100; ++turns) turn(static_cast<int>(random() % kAgents));
  machine.Tend(std::chrono::seconds(1));
  EXPECT_EQ(destroyed, 0U);
  return static_cast<double>(machine.AtOnce()) / static_cast<double>(settings.host);
}

TEST(Trade, CopiesStandWhereAllWhoLeaveBeforeHaveOne) {
  for (const char* policy : {"lru", "score"}) {
    EXPECT_GT(PartOfUse(policy, false), 0.8) << policy;
    EXPECT_GT(PartOfUse(policy, true), 0.5) << policy;
  }
}

// At any level, and though nothing has a copy yet; chains from their ends, and very long
// ones as well.
TEST(Trade, TheReserveIsHeldWithoutAnyCopies) {
  for (const auto& [chains, length] : {std::pair{8, 16}, {2, 2048}}) {
    const Bytes chunk = 4 * kGiB / static_cast<Bytes>(chains * length);
    testing::VirtualMachine::Settings settings;
    settings.graph = false;
    settings.device = 10 * kGiB;
    settings.host = 10 * kGiB;
    settings.reserve = kGiB;
    settings.write_behind_after = std::chrono::hours(1);
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
    machine.Tend(std::chrono::milliseconds(50));
    ASSERT_EQ(machine.stats().device.bytes, 4 * kGiB) << "there is room for all";
    machine.Others(5 * kGiB + 256 * kMiB);
    machine.Tend(std::chrono::seconds(2));
    EXPECT_EQ(machine.stats().device.level, Level::kRelaxed);
    EXPECT_GE(machine.free(), kGiB) << length;
    EXPECT_EQ(destroyed, 0U);
    EXPECT_EQ(machine.stats().entries, static_cast<std::uint64_t>(chains * length));
    // Of short chains no more than is lacking; of long ones all has to be copied first.
    const Bytes most = length < 1024 ? kGiB + 8 * chunk : 5 * kGiB;
    EXPECT_LE(machine.free(), most);
  }
}

}  // namespace
}  // namespace spillway
