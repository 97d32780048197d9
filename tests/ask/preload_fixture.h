// SPDX-License-Identifier: Apache-2.0
// A cache that holds a fake card, and programs in other processes that want memory of that card,
// with and without libspillway_ask.so.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/testing/gpu_fixture.h"
#include "device/testing/scratch_run_dir.h"
#include "run_program.h"

namespace spillway::testing {

class AskPreload : public GpuCacheTest {
 protected:
  AskPreload() {
    card_ = {
        .total = kTotal, .granularity = 64 * kKiB, .together = (scratch_ / "together").string()};
    gpu_.Reset(card_);
    options_.capacity = kTotal;
    options_.host_capacity = 2 * kTotal;
    options_.disk_dir.clear();
    options_.disk_capacity = Options().disk_capacity;
  }

  bool cuda() const { return GetParam() == GpuKind::kCuda; }
  std::string linked() const { return cuda() ? "linked_cuda linked" : "linked_hip linked"; }

  // A new cache with entries on the device, all of them also on the host.
  void Fill(int count = 60) {
    cache_.reset();
    Open();
    for (count_ = 0; count_ < count; ++count_) ASSERT_TRUE(SetOnDevice(Key(count_)));
    program_.reset();
    ASSERT_TRUE(cache_->Start());
    if (!options_.write_back_after) return;
    ASSERT_TRUE(Eventually([](const Stats& stats) {
      return stats.device.bytes == stats.device.clean && stats.moves.in_flight == 0;
    }));
    cache_->Stop();  // Nothing more moves by itself: what is free now stays so.
  }
  static std::string Key(int i) { return "k" + std::to_string(i); }
  void NothingIsLost() {
    for (int i = 0; i < count_; ++i) EXPECT_TRUE(Same(Get(Key(i)), Bulk(Key(i), kValue))) << i;
    EXPECT_EQ(cache_->stats().removed_by_action[static_cast<std::size_t>(Action::kDestroy)], 0U);
  }
  Bytes Free() const { return kTotal - gpu_.used(); }

  enum class With : std::uint8_t { kNothing, kLibrary, kShown };
  // A shell's words for a program; `command` begins with its name, `more` are variables of its
  // environment.
  std::string Words(With with, const std::string& command, const std::string& more = {}) const {
    std::string environment =
        fmt::format("SPILLWAY_FAKE_GPU='{}' LIBRARY='{}' {}", card_.Text(), gpu_.library(), more);
    if (with != With::kNothing && more.find("LD_PRELOAD=") == std::string::npos) {
      environment += " LD_PRELOAD=" SPILLWAY_ASK_LIBRARY;
    }
    if (with == With::kShown) environment += " SPILLWAY_ASK_SHOW=1";
    return fmt::format("env {} SPILLWAY_ASK_LOG=stderr {}/ask_{}", environment,
                       SPILLWAY_ASK_PROGRAMS, command);
  }
  ProgramRun RunAsk(With with, const std::string& command, const std::string& more = {}) const {
    return RunProgram(Words(with, command, more));
  }

  ScratchRunDir run_dir_;
  FakeGpuOptions card_;
  int count_ = 0;
};

}  // namespace spillway::testing
