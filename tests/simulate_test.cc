// SPDX-License-Identifier: Apache-2.0
// `spillway simulate` through the real program.
//
// tests/scenarios/NAME.jsonl goes in (with the flags in NAME.args, if any) and
// NAME.expected.jsonl must come out, byte for byte. The expectations follow from
// the mode table by hand; they were not recorded.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kSimulate = SPILLWAY_BIN " simulate ";
const std::string kScenarios = SPILLWAY_TESTS_DIR "/scenarios/";

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// --- scenarios ---

std::vector<std::string> ScenarioNames() {
  constexpr std::string_view kEnd = ".expected.jsonl";
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kScenarios)) {
    std::string name = file.path().filename();
    if (!name.ends_with(kEnd)) continue;
    name.resize(name.size() - kEnd.size());
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ScenarioFile : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioFile, GivesWhatWasWorkedOutByHand) {
  const std::string base = kScenarios + GetParam();
  std::string flags = FileText(base + ".args");
  std::erase(flags, '\n');
  const ProgramRun run = RunProgram(kSimulate + flags + " " + base + ".jsonl");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  const std::vector<std::string> in = Lines(FileText(base + ".jsonl"));
  const std::vector<std::string> expected = Lines(FileText(base + ".expected.jsonl"));
  const std::vector<std::string> actual = Lines(run.out);
  ASSERT_EQ(in.size(), expected.size());
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i], expected[i]) << in[i];
}

INSTANTIATE_TEST_SUITE_P(Simulate, ScenarioFile, ::testing::ValuesIn(ScenarioNames()),
                         [](const auto& each) { return each.param; });

TEST(Simulate, FindsItsScenarios) { EXPECT_GE(ScenarioNames().size(), 18U); }

// The example that new users see first: every level of the seed in nine lines.
TEST(Simulate, TheSeedInNineLines) {
  const ProgramRun run = RunProgram(
      R"(printf '%s\n' '{"at":0,"op":"set","key":"context:a","tokens":500}' )"
      R"('{"at":1,"op":"set","key":"context:b","tokens":900}' '{"at":2,"op":"get","key":"context:b"}' )"
      R"('{"at":3,"op":"pressure","value":0.93}' '{"at":40,"op":"set","key":"context:c","tokens":10}' )"
      R"('{"at":50,"op":"pressure","value":0.97}' '{"at":51,"op":"set","key":"context:d","tokens":10}' )"
      R"('{"at":52,"op":"pressure","value":0.5}' '{"at":53,"op":"set","key":"context:d","tokens":10}' | )" +
      kSimulate + "--preset seed -");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, FileText(kScenarios + "seed_issue.expected.jsonl"));
}

// --- the page ---

// The text of the fenced blocks of that language, in order.
std::vector<std::string> Blocks(const std::string& page, const std::string& language) {
  std::vector<std::string> blocks;
  bool inside = false;
  for (const std::string& line : Lines(page)) {
    if (line.starts_with("```")) {
      inside = !inside && line == "```" + language;
      if (inside) blocks.emplace_back();
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

TEST(Simulate, TheWorkedExampleOfItsPageRuns) {
  const std::string page = FileText(SPILLWAY_TESTS_DIR "/../docs/reference/scenario.md");
  const std::vector<std::string> blocks = Blocks(page, "json");
  ASSERT_EQ(blocks.size(), 2U) << "one block goes in, one comes out";
  const ProgramRun run = RunProgram(kSimulate + "--capacity 10GiB -", blocks[0]);
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(run.out, blocks[1]);
}

// --- flags and settings ---

class SimulateFlags : public ::testing::Test {
 protected:
  // A settings file of this text, and its path.
  std::string Config(const std::string& text) {
    path_ = fmt::format("{}/spillway-{}.toml", ::testing::TempDir(), getpid());
    std::ofstream(path_) << text;
    return path_;
  }
  ~SimulateFlags() override { unlink(path_.c_str()); }

  // The last line of a run.
  static json LastLine(const std::string& flags, const std::string& input) {
    const ProgramRun run = RunProgram(kSimulate + flags + " -", input);
    EXPECT_EQ(run.status, 0) << run.err;
    const std::vector<std::string> lines = Lines(run.out);
    return lines.empty() ? json() : json::parse(lines.back());
  }

  std::string path_;
  // Idle for 20 minutes: beyond the default ttl, of which the seed has none.
  const std::string idle_ =
      "{\"at\":0,\"op\":\"set\",\"key\":\"a\",\"tokens\":8}\n{\"at\":1200,\"op\":\"tick\"}\n";
};

TEST_F(SimulateFlags, AFileChoosesPresetAndSettings) {
  EXPECT_EQ(LastLine("", idle_)["size"], 0);
  EXPECT_EQ(LastLine("--preset seed", idle_)["size"], 1);
  EXPECT_EQ(LastLine("--config " + Config("preset = \"seed\""), idle_)["size"], 1);
  EXPECT_EQ(LastLine("--config " + Config("ttl = \"none\""), idle_)["size"], 1);
  EXPECT_EQ(LastLine("--config " + Config("preset = \"seed\"\nttl = \"5min\""), idle_)["size"], 0);
  EXPECT_EQ(LastLine("--config " + Config(""), idle_)["size"], 0);
}

TEST_F(SimulateFlags, FlagsWinOverTheFile) {
  EXPECT_EQ(LastLine("--preset default --config " + Config("preset = \"seed\""), idle_)["size"], 0);
  const std::string two =
      "{\"op\":\"set\",\"key\":\"a\",\"tokens\":8}\n{\"op\":\"set\",\"key\":\"b\",\"tokens\":8}\n";
  EXPECT_EQ(LastLine("--config " + Config("capacity = \"1MiB\""), two)["size"], 1);
  EXPECT_EQ(LastLine("--capacity 2MiB --config " + Config("capacity = \"1MiB\""), two)["size"], 2);
  EXPECT_EQ(LastLine("--preset seed --capacity 1MiB", two)["size"], 1);
  EXPECT_EQ(LastLine("--capacity 1MiB --bytes-per-token 1KiB", two)["size"], 2);
}

TEST_F(SimulateFlags, BadOnesAreRefusedWithTheirName) {
  const std::pair<std::string, const char*> table[] = {
      {"--capacity 0 -", "capacity is 0"},
      {"--capacity 4G -", "--capacity: \"4G\" is not a size"},
      {"--policy lfu -",
       "policy: 'lfu' is not known; known: documented, lru, hybrid, workflow, score, seed"},
      {"--preset sed -",
       "--preset: 'sed' is not known; known: default, seed; did you mean 'seed'?"},
      {"--bytes-per-token 0 -", "--bytes-per-token is 0; it must be from 1"},
      {"--bytes-per-token 2GiB -", "it must be from 1 to 1073741824"},
      {"--bytes-per-token x -", "--bytes-per-token: \"x\" is not a size"},
      {"--capasity 1GiB -", "--capasity"},
      {"--write-behind-after=1s -",
       "unknown option '--write-behind-after': it is now write_back_after"},
      {"", "FILE is required"},
      {"/no/such/file.jsonl", "can't open '/no/such/file.jsonl': No such file or directory"},
      {"--config /no/such.toml -", "can't read '/no/such.toml': No such file or directory"},
      {"--config " + Config("dwell = \"2s\"\ntll = 3") + " -",
       ".toml:2: unknown setting 'tll'; did you mean 'ttl'?"},
  };
  for (const auto& [flags, message] : table) {
    const ProgramRun run = RunProgram(kSimulate + flags, "{\"op\":\"tick\"}\n");
    EXPECT_EQ(run.status, 2) << flags;
    EXPECT_EQ(run.out, "") << flags;
    EXPECT_THAT(run.err, StartsWith("spillway simulate: ")) << flags;
    EXPECT_THAT(run.err, HasSubstr(message)) << flags;
  }
}

TEST_F(SimulateFlags, HelpShowsTheFormat) {
  const ProgramRun run = RunProgram(kSimulate + "--help");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  for (const char* word : {"--preset", "--config", "--capacity", "--policy", "--bytes-per-token",
                           "\"op\":\"pressure\"", "exit status 2"}) {
    EXPECT_THAT(run.out, HasSubstr(word));
  }
}

// --- bad lines ---

TEST(SimulateBadLine, TellsLineAndReasonAndExitsWith2) {
  const std::string good = "{\"at\":5,\"op\":\"set\",\"key\":\"a\",\"tokens\":1}\n\n";
  const std::pair<const char*, const char*> table[] = {
      {"{\"at\":5", "not a JSON object"},
      {"{\"at\":4.9,\"op\":\"tick\"}", "time never falls"},
      {"{\"at\":6,\"op\":\"graph\",\"do\":\"began\",\"run\":\"r\"}", "did you mean 'begin'?"},
      {"{\"at\":6,\"op\":\"set\",\"key\":\"b\",\"tokens\":-1}", "tokens is -1"},
      {"{\"at\":6,\"op\":\"get\",\"key\":\"\"}", "key has 0 bytes"},
      {"{\"at\":6,\"op\":\"pressure\",\"value\":1.5}", "from 0 to 1"},
  };
  for (const auto& [bad, message] : table) {
    const ProgramRun run =
        RunProgram(kSimulate + "-", good + bad + "\n{\"at\":9,\"op\":\"tick\"}\n");
    EXPECT_EQ(run.status, 2) << bad;
    EXPECT_EQ(Lines(run.out).size(), 1U) << bad;
    ASSERT_EQ(Lines(run.err).size(), 1U) << bad;
    const json error = json::parse(run.err);
    EXPECT_EQ(error["line"], 3) << bad;
    EXPECT_THAT(error["error"].get<std::string>(), HasSubstr(message)) << bad;
  }
}

// --- line by line ---

// Each answer comes before the next line is read.
TEST(Simulate, AnswersLineByLine) {
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  ASSERT_EQ(pipe(to.data()), 0);
  ASSERT_EQ(pipe(from.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
    execl(SPILLWAY_BIN, "spillway", "simulate", "-", nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  std::FILE* answers = fdopen(from[0], "r");
  for (const std::string line : {"{\"op\":\"tick\"}\n", "{\"op\":\"clear\"}\n"}) {
    ASSERT_EQ(write(to[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
    std::array<char, 4096> answer{};
    // Otherwise it hangs here.
    ASSERT_NE(std::fgets(answer.data(), answer.size(), answers), nullptr);
    EXPECT_EQ(json::parse(answer.data())["op"], json::parse(line)["op"]);
  }
  close(to[1]);
  std::fclose(answers);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace spillway
