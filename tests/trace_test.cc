// SPDX-License-Identifier: Apache-2.0
// A cache logs its uses, and `spillway replay` reads the log.
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cache/testing/scratch_folder.h"
#include "run_program.h"
#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway {
namespace {

TEST(Trace, WhatACacheWroteIsReplayed) {
  const testing::ScratchFolder scratch;
  const std::string path = (scratch / "uses.jsonl").string();
  const auto clock = std::make_shared<testing::ManualClock>();
  Options options;
  options.capacity = kMiB;
  options.clock = clock;
  options.trace = path;
  auto cache = Cache::Open(options);
  ASSERT_TRUE(cache) << cache.error().message;
  const std::string value(1000, 'v');
  // Two contexts of two blocks each, in turn; each turn reads what is there, and sets
  // it the first time.
  for (int turn = 0; turn < 10; ++turn) {
    const std::string root = turn % 2 == 0 ? "even" : "odd";
    const std::string leaf = root + "/1";
    for (const std::string& key : {root, leaf}) {
      const auto got = (*cache)->Get(key);
      ASSERT_TRUE(got);
      if (*got) continue;
      SetOptions said;
      said.tokens = 128;
      if (key == leaf) said.parent = root;
      ASSERT_TRUE((*cache)->Set(key, Source(value.data(), value.size()), said));
    }
    clock->Advance(std::chrono::seconds(10));
  }
  ASSERT_TRUE(Cache::Close(std::move(*cache)));

  const auto replay = [&](const std::string& capacity) {
    const ProgramRun run = RunProgram(std::string(SPILLWAY_BIN) + " replay --json --policy lru " +
                                      "--trace " + path + " --capacity " + capacity);
    EXPECT_EQ(run.status, 0) << run.err;
    return nlohmann::json::parse(run.out);
  };
  const nlohmann::json all = replay("4");
  EXPECT_EQ(all["requests"], 10);
  EXPECT_NEAR(all["token_hit_ratio"].get<double>(), 0.8, 1e-6) << "all but the first of each";
  EXPECT_EQ(replay("2")["token_hit_ratio"], 0.0) << "one would push out the other";
}

}  // namespace
}  // namespace spillway
