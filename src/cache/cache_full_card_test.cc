// SPDX-License-Identifier: Apache-2.0
// A card that is full, above a host tier that is full: nothing more can be made clean. On
// a machine of virtual time, a tenth of an H200 with 64 agents.
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/testing/virtual_machine.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using testing::VirtualMachine;

constexpr Bytes kCard = 14 * kGiB;
constexpr Bytes kModel = 3 * kGiB;
constexpr Bytes kChunk = 16 * kMiB;
constexpr int kAgents = 64;
constexpr int kChain = 18;  // Of all agents together 18 GiB.

struct Figures {
  int emergencies = 0;  // Samples.
  int destroyed_idle = 0;
  int destroyed_for_room = 0;
  int destroyed_for_reserve = 0;
  int refused = 0;
  double most_pressure = 0;  // While the neighbour is away.
};

// Agents in random order: each sets what is missing of its chain, and grows it. The
// neighbour takes its memory for two seconds of every four.
Figures AgentsBeside(Bytes neighbour, const std::string& policy) {
  Figures figures;
  VirtualMachine::Settings settings;
  settings.policy = policy;
  settings.graph = false;
  settings.device = kCard;
  settings.host = kGiB;
  settings.reserve = kCard / 25;
  settings.write_back_after = milliseconds(50);
  settings.on_event = [&](const Event& event) {
    if (event.action != Action::kDestroy) return;
    figures.destroyed_idle += event.reason == Reason::kIdle;
    figures.destroyed_for_room += event.reason == Reason::kRoom;
    figures.destroyed_for_reserve += event.reason == Reason::kReserve && event.tier == "device";
  };
  VirtualMachine machine(settings);
  std::mt19937_64 random(1);
  std::vector<int> lengths(kAgents, kChain);
  const auto turn = [&](int agent) {
    const int length = lengths[static_cast<std::size_t>(agent)]++;
    for (int at = 0; at < length; ++at) {
      const std::string key = fmt::format("{}/{}", agent, at);
      if (machine.core().Touch(key)) continue;
      try {
        machine.Set(key, kChunk, at > 0 ? fmt::format("{}/{}", agent, at - 1) : "", Place::kDevice);
      } catch (const std::runtime_error&) {
        ++figures.refused;
        return;
      }
    }
  };
  const auto pass = [&](bool beside) {
    machine.Others(kModel + (beside ? neighbour : 0));
    for (int i = 0; i < 20; ++i) {
      machine.RunBackground(milliseconds(10));
      const Stats stats = machine.stats();
      figures.emergencies += stats.device.level == Level::kEmergency;
      if (!beside && i > 10) {
        figures.most_pressure = std::max(figures.most_pressure, *stats.device.pressure);
      }
    }
  };
  for (int agent = 0; agent < kAgents; ++agent) {
    turn(agent);
    pass(false);
  }
  for (int number = 0; number < 150; ++number) {
    turn(static_cast<int>(random() % kAgents));
    pass(number / 10 % 2 == 1);
  }
  return figures;
}

TEST(FullCard, StaysUnderCriticalAndANeighbourWithinTheReserveCausesNoEmergency) {
  for (const char* policy : {"lru", "score"}) {
    for (const Bytes neighbour : {Bytes{0}, 400 * kMiB}) {
      const Figures figures = AgentsBeside(neighbour, policy);
      EXPECT_EQ(figures.emergencies, 0) << policy << ", " << neighbour;
      EXPECT_EQ(figures.destroyed_idle, 0) << policy << ", " << neighbour;
      EXPECT_EQ(figures.refused, 0) << policy << ", " << neighbour;
      EXPECT_GT(figures.destroyed_for_room, 0) << policy << ": there was room for all";
      // 0.90, and what is in flight, which counts until it has arrived.
      EXPECT_LT(figures.most_pressure, 0.93) << policy << ", " << neighbour;
    }
  }
}

// One that takes more than the reserve may cause EMERGENCY; afterwards all is as before.
TEST(FullCard, RefusesNoSetBesideALargerNeighbour) {
  const Figures figures = AgentsBeside(2 * kGiB, "lru");
  EXPECT_EQ(figures.destroyed_idle, 0) << "none was idle for 30 s";
  EXPECT_LT(figures.refused, 15);
}

// Copies over last copies of the host would make the reserve whole at the speed of the link. So the
// lowest-ranked entries of the card are destroyed for it.
TEST(FullCard, DestroysTheLowestOfTheCardForTheReserve) {
  EXPECT_GT(AgentsBeside(2 * kGiB, "lru").destroyed_for_reserve, 0);
  EXPECT_EQ(AgentsBeside(0, "lru").destroyed_for_reserve, 0) << "nothing was taken of it";
}

}  // namespace
}  // namespace spillway
