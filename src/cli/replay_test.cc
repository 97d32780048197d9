// SPDX-License-Identifier: Apache-2.0
#include "cli/replay.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/testing/run_command.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Ran;

class ReplayCommand : public ::testing::Test {
 protected:
  ReplayCommand()
      : dir_(std::filesystem::temp_directory_path() / fmt::format("spillway-replay-{}", getpid())) {
    std::filesystem::create_directories(dir_);
    // Capacity: 4 blocks of 512. With LRU the chain a of 3 blocks is evicted for b and c of 2 each;
    // Belady's order keeps its first two blocks.
    Write("a.jsonl", {"[1,2,3]", "[10,11]", "[20,21]", "[1,2,3]"});
  }
  ~ReplayCommand() override { std::filesystem::remove_all(dir_); }

  static Ran Run(std::vector<std::string> arguments) {
    return testing::RunCommand(RunReplay, "replay", std::move(arguments));
  }
  std::string Path(const std::string& name) const { return dir_ / name; }
  void Write(const std::string& name, const std::vector<std::string>& chains) {
    std::ofstream file(Path(name));
    int at = 0;
    for (const std::string& chain : chains) {
      const auto blocks = json::parse(chain).size();
      file << fmt::format("{{\"timestamp\":{},\"input_length\":{},\"hash_ids\":{}}}\n", at += 1000,
                          blocks * 512, chain);
    }
  }
  static std::vector<json> Lines(const std::string& text) {
    std::vector<json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
    return lines;
  }

  std::filesystem::path dir_;
};

TEST_F(ReplayCommand, GivesTheRatiosWorkedOutByHand) {
  const Ran ran =
      Run({"--trace", Path("a.jsonl"), "--policy", "lru,belady", "--capacity", "4,7", "--json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const auto lines = Lines(ran.out);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0]["trace"], "a.jsonl");
  EXPECT_EQ(lines[0]["policy"], "lru");
  EXPECT_EQ(lines[0]["capacity_blocks"], 4);
  EXPECT_EQ(lines[0]["capacity_tokens"], 2048);
  EXPECT_EQ(lines[0]["requests"], 4);
  EXPECT_EQ(lines[0]["token_hit_ratio"], 0);
  EXPECT_EQ(lines[0]["seed"], 1);
  EXPECT_DOUBLE_EQ(lines[1]["token_hit_ratio"], 0.2);  // 2 of 10 blocks.
  EXPECT_DOUBLE_EQ(lines[2]["token_hit_ratio"], 0.3);
  EXPECT_DOUBLE_EQ(lines[2]["saved_ratio"], 1);
  EXPECT_EQ(lines[2]["moved_bytes"], 7ULL * 512 * 131072);
}

TEST_F(ReplayCommand, PrintsATable) {
  const Ran ran = Run({"--trace", Path("a.jsonl"), "--policy=score,lru", "--capacity=100%"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              HasSubstr("a.jsonl: 4 requests, 10 references of 512-token blocks, 7 unique"));
  EXPECT_THAT(ran.out, HasSubstr("score       0.3000   1.0000"));
  EXPECT_THAT(ran.out, HasSubstr("lru         0.3000   1.0000"));
}

TEST_F(ReplayCommand, DrawsWhatItFound) {
  const std::string picture = Path("out.svg");
  const Ran ran =
      Run({"--trace", Path("a.jsonl"), "--capacity", "2,4,7", "--plot", picture, "--json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  std::stringstream text;
  text << std::ifstream(picture).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("<polyline"));
  EXPECT_EQ(Run({"--trace", Path("a.jsonl"), "--plot", "/no/such/dir/x.svg"}).exit_code, 1);
}

TEST_F(ReplayCommand, RepeatsItselfForASeed) {
  const auto once = [&](const std::string& seed) {
    auto lines = Lines(Run({"--trace", Path("a.jsonl"), "--policy", "score", "--capacity", "4",
                            "--flags", "bit:0.5", "--seed", seed, "--json"})
                           .out);
    lines.at(0).erase("seconds");
    return lines;
  };
  EXPECT_EQ(once("7"), once("7"));
  EXPECT_EQ(once("7")[0]["seed"], 7);
  EXPECT_EQ(once("7")[0]["flags"], "bit:0.5");
}

TEST_F(ReplayCommand, BadUseSaysWhatWouldBeRight) {
  const auto error = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--trace", Path("a.jsonl")});
    const Ran ran = Run(std::move(more));
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.out, "");
    return ran.err;
  };
  EXPECT_THAT(error({"--policy", "lru,lfuu"}), HasSubstr("'lfuu' is not known"));
  EXPECT_THAT(error({"--capacity", "5%,many"}), HasSubstr("capacity: 'many' is not known"));
  EXPECT_THAT(error({"--flags", "endd"}), HasSubstr("expected end, or bit:E"));
  EXPECT_THAT(error({"--spacing", "60"}), HasSubstr("--spacing: "));
  EXPECT_THAT(error({"--format", "cvs"}), HasSubstr("format 'cvs' is not known"));
  EXPECT_THAT(error({"--group", "0"}), HasSubstr("--group"));
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
}

TEST_F(ReplayCommand, BadLinesEndItUnlessTheyAreSkipped) {
  std::ofstream(Path("a.jsonl"), std::ios::app) << "{\"timestamp\":4,\n";
  const Ran strict = Run({"--trace", Path("a.jsonl")});
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_THAT(strict.err, HasSubstr("line 5: expected a JSON object"));
  const Ran lenient = Run(
      {"--trace", Path("a.jsonl"), "--skip-bad", "--json", "--policy", "lru", "--capacity", "7"});
  EXPECT_EQ(lenient.exit_code, 0);
  EXPECT_THAT(lenient.err, HasSubstr("skipped"));
  EXPECT_EQ(Lines(lenient.out).at(0)["bad_lines"], 1);
}

}  // namespace
}  // namespace spillway
