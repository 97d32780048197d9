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

}  // namespace
}  // namespace spillway
