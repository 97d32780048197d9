// SPDX-License-Identifier: Apache-2.0
// Relief of a tier that has a tier below it, on a machine of virtual time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/testing/virtual_machine.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::VirtualMachine;

// After a failed copy the host gets nothing for a moment. Relief took that for a host that
// takes nothing, and destroyed at the next sample what the next copy would have saved.
TEST(Relief, OneFailedCopyDestroysNothing) {
  for (const Bytes others : {60 * kMiB, 160 * kMiB}) {  // PRESSURE, and EMERGENCY.
    int destroyed = 0;
    int backed = 0;
    VirtualMachine::Settings settings;
    settings.device = settings.host = 1000 * kMiB;
    settings.write_back_after = std::chrono::hours(1);
    settings.on_event = [&](const Event& event) {
      destroyed += event.action == Action::kDestroy ? 1 : 0;
      backed += event.action == Action::kBack || event.action == Action::kDemote ? 1 : 0;
    };
    VirtualMachine machine(settings);
    for (int i = 0; i < 16; ++i) machine.Set(fmt::format("k{}", i), 50 * kMiB, {}, Place::kDevice);
    machine.Work(seconds(60));  // All of them are idle for EMERGENCY, too.
    machine.FailMoves(1);
    machine.Others(others);
    machine.RunBackground(milliseconds(100));
    EXPECT_EQ(destroyed, 0) << others;
    EXPECT_EQ(machine.stats().entries, 16U) << others;
    machine.RunBackground(seconds(2));
    EXPECT_EQ(destroyed, 0) << others;
    EXPECT_GT(backed, 0) << others << ": the host takes them again";
  }
}

// Relief copies into free room below and no further: what only the host has stays there,
// and so does what only the device has. The level stands, and says why.
TEST(Relief, DestroysNoLastCopyForTheSakeOfAnother) {
  for (const char* policy : {"documented", "lru", "hybrid", "score", "workflow"}) {
    int destroyed = 0;
    VirtualMachine::Settings settings;
    settings.policy = policy;
    settings.graph = false;
    settings.device = 1000 * kMiB;
    settings.host = 220 * kMiB;  // Four entries, and a rest that takes none.
    settings.write_back_after = std::chrono::hours(1);
    settings.on_event = [&](const Event& event) { destroyed += event.action == Action::kDestroy; };
    VirtualMachine machine(settings);
    Engine& engine = machine.core().engine();
    machine.Others(60 * kMiB);
    for (int i = 0; i < 16; ++i) machine.Set(fmt::format("k{}", i), 50 * kMiB, {}, Place::kDevice);
    machine.RunBackground(seconds(7));  // Longer than any level is kept.
    EXPECT_EQ(machine.stats().host.entries, 4U) << policy;
    EXPECT_EQ(machine.stats().device.level, Level::kRelaxed) << policy << ": 660 of 1000 MiB";
    EXPECT_FALSE(engine.stands_for_want_of_room(TierId::kDevice)) << policy;
    // From now on the host has the only copies of four.
    bool more = false;
    RunOn(machine.core().strand(), [&] {
      EXPECT_EQ(engine.GiveBack(TierId::kDevice, 200 * kMiB, machine.now(), &more), 200 * kMiB);
    });
    for (const Bytes others : {280 * kMiB, 330 * kMiB}) {  // PRESSURE, CRITICAL.
      machine.Others(others);
      machine.RunBackground(seconds(60));  // All of them become idle for every level.
      EXPECT_GE(machine.stats().device.level, Level::kPressure) << policy;
      EXPECT_TRUE(engine.stands_for_want_of_room(TierId::kDevice)) << policy;
      EXPECT_TRUE(machine.stats().device.no_room_below) << policy;
      EXPECT_NE(machine.core().Explain("k15").find("no room below"), std::string::npos) << policy;
    }
    EXPECT_EQ(machine.stats().entries, 16U) << policy;
    EXPECT_EQ(destroyed, 0) << policy;
    machine.Others(60 * kMiB);
    machine.RunBackground(seconds(7));
    EXPECT_FALSE(engine.stands_for_want_of_room(TierId::kDevice)) << policy;
  }
}

}  // namespace
}  // namespace spillway
