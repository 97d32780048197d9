// SPDX-License-Identifier: Apache-2.0
#include "cache/use_log.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/scratch_folder.h"
#include "spillway/cache.h"
#include "spillway/step_graph.h"
#include "spillway/testing.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UseLogTest : public ::testing::Test {
 protected:
  std::string path() const { return (scratch_ / "uses.jsonl").string(); }
  std::unique_ptr<UseLog> Open() {
    auto opened = UseLog::Open(path(), clock_, 0);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  // The lines of the log without the header.
  std::vector<std::string> Lines() const {
    std::ifstream file(path());
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("{\"format\"")) lines.push_back(line);
    }
    return lines;
  }
  static std::size_t BlocksIn(const std::string& line) {
    const std::size_t from = line.find("\"chain\":[");
    const std::size_t to = line.find(']', from);
    return 1 + static_cast<std::size_t>(std::count(line.begin() + static_cast<long>(from),
                                                   line.begin() + static_cast<long>(to), ','));
  }
  Options CacheOptions() const {
    Options options;
    options.capacity = 4 * kMiB;
    options.clock = clock_;
    options.trace = path();
    return options;
  }

  testing::ScratchFolder scratch_;
  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
};

TEST_F(UseLogTest, AChainThatIsReadAndGrownIsOneRequest) {
  auto log = Open();
  log->Set({"root", 256, 10, "planner"}, "");
  log->Set({"leaf", 100, 10, "planner"}, "root");
  clock_->Advance(seconds(5));
  log->Hit({"root", 256, 10, "planner"});
  clock_->Advance(milliseconds(300));
  log->Hit({"leaf", 100, 10, "planner"});
  log->Set({"next", 129, 10, "planner"}, "leaf");
  log.reset();
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(BlocksIn(lines[0]), 2U + 1U);
  EXPECT_EQ(BlocksIn(lines[1]), 2U + 1U + 2U);
  EXPECT_THAT(lines[0], HasSubstr("\"tokens\":384"));
  EXPECT_THAT(lines[1], HasSubstr("\"at_ms\":5300,"));
  EXPECT_THAT(lines[1], HasSubstr("\"session\":\"planner\""));
  // The second chain begins with the first.
  const auto chain = [](const std::string& line) { return line.substr(line.find('[')); };
  EXPECT_EQ(chain(lines[1]).substr(0, chain(lines[0]).find(']')),
            chain(lines[0]).substr(0, chain(lines[0]).find(']')));
}

TEST_F(UseLogTest, WhoComesLateOrHasNoParentIsARequestOfItsOwn) {
  auto log = Open();
  log->Set({"root", 1, 10, ""}, "");
  clock_->Advance(seconds(2));
  log->Set({"leaf", 1, 10, ""}, "root");
  log->Set({"other", 1, 10, ""}, "");
  log->Hit({"other", 1, 10, ""});
  log.reset();
  EXPECT_THAT(Lines(), SizeIs(4));
  EXPECT_THAT(Lines()[0], Not(HasSubstr("session")));
}

TEST_F(UseLogTest, UnsaidTokensAreThoseOfTheBytes) {
  auto log = Open();
  log->Hit({"small", 0, 1, ""});
  log->Hit({"large", 0, 3 * 128 * UseLog::kBytesPerToken, ""});
  log.reset();
  ASSERT_THAT(Lines(), SizeIs(2));
  EXPECT_EQ(BlocksIn(Lines()[0]), 1U);
  EXPECT_EQ(BlocksIn(Lines()[1]), 3U);
}

TEST_F(UseLogTest, ARestartGoesOnAndNamesKeysAlike) {
  for (int i = 0; i < 2; ++i) {
    auto log = Open();
    log->Hit({"key", 1, 10, "bad\xffname\n"});
  }
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_THAT(lines[0], HasSubstr("\\n"));
}

TEST_F(UseLogTest, HintsStandInTheRequest) {
  auto log = Open();
  log->Set({"a", 1, 10, ""}, "");
  log->Record("a", Hint::kDone);
  log->Record("nobody", Hint::kAgain);
  log.reset();
  ASSERT_THAT(Lines(), SizeIs(1));
  EXPECT_THAT(Lines()[0], HasSubstr("\"hint\":\"done\""));
}

TEST_F(UseLogTest, AFileThatCannotBeWrittenIsNamed) {
  for (const std::string& bad :
       {std::string("/nowhere/uses"), (scratch_ / "").string(), std::string("/dev/full")}) {
    const auto log = UseLog::Open(bad, clock_, 0);
    ASSERT_FALSE(log) << bad;
    EXPECT_THAT(log.error().message, HasSubstr("trace '" + bad + "'"));
  }
  Options options = CacheOptions();
  options.trace = "/nowhere/uses";
  EXPECT_FALSE(Cache::Open(options));
}

// A file that may not grow: whole lines or nothing, no signal ends the program, and
// later lines are written again.
TEST_F(UseLogTest, WhatCannotBeWrittenIsCounted) {
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto log = Open();
  const ::rlimit small{200, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int i = 0; i < 100; ++i) log->Hit({"key", 1, 10, ""});
  clock_->Advance(seconds(2));
  for (int i = 0; i < 10'000 && log->stats().lost == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));  // real world: a file is written
  }
  EXPECT_EQ(log->stats().lost, 100U);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  log->Hit({"key", 1, 10, ""});
  log.reset();
  EXPECT_THAT(Lines(), SizeIs(1));
}

TEST_F(UseLogTest, ACacheRecordsItsUses) {
  auto cache = Cache::Open(CacheOptions());
  ASSERT_TRUE(cache) << cache.error().message;
  const std::string value(100, 'v');
  const auto set = [&](std::string_view key, std::string_view parent) {
    SetOptions options;
    options.tokens = 128;
    options.parent = parent;
    options.agent = "a";
    ASSERT_TRUE((*cache)->Set(key, Source(value.data(), value.size()), options));
  };
  set("root", "");
  set("leaf", "root");
  clock_->Advance(seconds(5));
  EXPECT_TRUE((*cache)->Get("root"));
  EXPECT_TRUE((*cache)->Get("leaf"));
  EXPECT_TRUE((*cache)->Get("missing"));  // No hit is no use.
  set("next", "leaf");
  EXPECT_EQ((*cache)->stats().trace.file, path());
  clock_->Advance(seconds(5));
  EXPECT_TRUE((*cache)->Touch("next", Hint::kDone));
  EXPECT_TRUE((*cache)->Contains("root"));  // A peek is no use.
  cache->reset();
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(BlocksIn(lines[0]), 2U);
  EXPECT_EQ(BlocksIn(lines[1]), 3U);
  EXPECT_EQ(BlocksIn(lines[2]), 1U);
  EXPECT_THAT(lines[2], HasSubstr("\"hint\":\"done\""));
}

TEST_F(UseLogTest, WithoutTheSettingNothingIsWritten) {
  Options options = CacheOptions();
  options.trace.clear();
  auto cache = Cache::Open(options);
  ASSERT_TRUE(cache);
  EXPECT_THAT((*cache)->stats().trace.file, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace spillway
