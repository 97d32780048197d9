// SPDX-License-Identifier: Apache-2.0
#include "replay/scenario.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "replay/run_scenario.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::unique_ptr<Scenario> Opened(const Options& options = {}) {
  auto scenario = Scenario::Open({options, Scenario::kDefaultBytesPerToken});
  EXPECT_TRUE(scenario) << (scenario ? "" : scenario.error().message);
  return std::move(*scenario);
}

std::string Text(Scenario& scenario, std::string_view line) {
  std::string out;
  const Status status = scenario.Run(line, &out);
  EXPECT_TRUE(status) << line << ": " << (status ? "" : status.error().message);
  return out;
}

json EvictionQueue(Scenario& scenario, std::string_view line) {
  return json::parse(Text(scenario, line));
}

TEST(Scenario, PrintsAllFieldsInTheirOrder) {
  const auto scenario = Opened();
  EXPECT_EQ(Text(*scenario, R"({"at":0,"op":"set","key":"b","tokens":5})"),
            R"({"op":"set","result":true,"mode":"relaxed","level":"relaxed","blocked":false,)"
            R"("size":1,"tokens":5,"keys":["b"],"offloaded":[],"events":[]})"
            "\n");
  EXPECT_EQ(Text(*scenario, R"({"at":1,"op":"delete","key":"b"})"),
            R"({"op":"delete","result":true,"mode":"relaxed","level":"relaxed","blocked":false,)"
            R"("size":0,"tokens":0,"keys":[],"offloaded":[],)"
            R"("events":[{"key":"b","action":"destroy","reason":"erased"}]})"
            "\n");
}

TEST(Scenario, BytesDefaultToTheTokensWorth) {
  Options options;
  options.capacity = 10 * Scenario::kDefaultBytesPerToken;
  const auto scenario = Opened(options);
  EXPECT_EQ(EvictionQueue(*scenario, R"({"op":"set","key":"a","tokens":10})")["result"], true);
  EXPECT_EQ(EvictionQueue(*scenario, R"({"op":"set","key":"b","tokens":11})")["result"], false);
  EXPECT_EQ(EvictionQueue(*scenario,
                          R"({"op":"set","key":"b","tokens":11,"bytes":1})")["events"][0]["reason"],
            "room");
}

TEST(Scenario, TheDefaultTierHolds128GiB) {
  const auto scenario = Opened();
  EXPECT_EQ(EvictionQueue(*scenario,
                          R"({"op":"set","key":"a","tokens":1,"bytes":137438953473})")["result"],
            false);
  EXPECT_EQ(EvictionQueue(*scenario,
                          R"({"op":"set","key":"a","tokens":1,"bytes":137438953472})")["result"],
            true);
}

TEST(Scenario, TiersBelowAreRefusedRatherThanLeftOut) {
  Scenario::Settings settings;
  settings.options.host_capacity = kGiB;
  const auto scenario = Scenario::Open(settings);
  ASSERT_FALSE(scenario);
  EXPECT_EQ(scenario.error().code, Code::kInvalidArgument);
  EXPECT_NE(scenario.error().message.find("host_capacity"), std::string::npos);
}

TEST(Scenario, TheSeedHasNoCapacity) {
  const auto scenario = Opened(Options::Seed());
  for (const char* key : {"a", "b", "c"}) {
    const json line = EvictionQueue(
        *scenario,
        fmt::format(R"({{"op":"set","key":"{}","tokens":1000000000,"bytes":999999999999999}})",
                    key));
    EXPECT_EQ(line["result"], true);
  }
  EXPECT_EQ(EvictionQueue(*scenario, R"({"op":"tick"})")["tokens"], 3'000'000'000);
}

TEST(Scenario, AnErrorChangesNothing) {
  const auto scenario = Opened();
  Text(*scenario, R"({"at":5,"op":"set","key":"a","tokens":5})");
  std::string out;
  for (const char* bad :
       {R"({"at":4.999999999,"op":"clear"})", R"({"at":900,"op":"set","key":"a"})",
        R"({"at":900,"op":"graph"})", "{"}) {
    const Status status = scenario->Run(bad, &out);
    EXPECT_FALSE(status) << bad;
    EXPECT_EQ(out, "");
  }
  EXPECT_THAT(scenario->Run(R"({"at":4,"op":"tick"})", &out).error().message,
              HasSubstr("at is 4, after 5: time never falls"));
  const json after = EvictionQueue(*scenario, R"({"at":5,"op":"get","key":"a"})");
  EXPECT_EQ(after["result"], true);
}

TEST(Scenario, ARefusedOptionNamesItself) {
  Options options;
  options.capacity = 0;
  const auto scenario = Scenario::Open({options, 1});
  ASSERT_FALSE(scenario);
  EXPECT_THAT(scenario.error().message, HasSubstr("capacity is 0"));
}

// A step of relief ends after 4,096 evictions. A mark removes nothing, so if marks counted, the
// next step would begin with the same entries, without end.
TEST(Scenario, MoreMarksThanAStepHasMovesEnd) {
  constexpr int kEntries = 5000;
  const auto scenario = Opened(Options::Seed());
  for (int i = 0; i < kEntries; ++i) {
    Text(*scenario, fmt::format(R"({{"at":0,"op":"set","key":"{}","tokens":1}})", i));
  }
  json line = EvictionQueue(*scenario, R"({"at":31,"op":"pressure","value":0.93})");
  EXPECT_EQ(line["offloaded"].size(), kEntries);
  EXPECT_EQ(line["events"].size(), kEntries);
  line = EvictionQueue(*scenario, R"({"at":32,"op":"pressure","value":0.85})");
  EXPECT_EQ(line["events"].size(), kEntries / 4);
  line = EvictionQueue(*scenario, R"({"at":33,"op":"pressure","value":0.99})");
  EXPECT_EQ(line["size"], 0);
}

// Keys are listed from a sorted copy beside the index.
TEST(Scenario, TheListIsWhatTheEngineHolds) {
  Options options;
  options.capacity = 40 * Scenario::kDefaultBytesPerToken;
  const auto scenario = Opened(options);
  std::uint64_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const auto key = (random >> 40) % 60;
    const char* op = (random >> 20) % 5 == 0 ? "delete" : "set";
    const json line =
        EvictionQueue(*scenario, fmt::format(R"({{"at":{},"op":"{}","key":"{}"{}}})", i, op, key,
                                             op[0] == 's' ? R"(,"tokens":3)" : ""));
    std::vector<std::string> held;
    scenario->core().ForEach([&](const Cache::EntryInfo& info) { held.emplace_back(info.key); });
    std::sort(held.begin(), held.end());
    ASSERT_EQ(line["keys"].get<std::vector<std::string>>(), held);
  }
}

// --- a whole file ---

struct Ran {
  int status;
  std::string out;
  std::string err;
};

std::string Contents(std::FILE* file) {
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::fseek(file, 0, SEEK_SET);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

Ran RunText(const std::string& text) {
  std::FILE* in = std::tmpfile();
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  std::fwrite(text.data(), 1, text.size(), in);
  std::fseek(in, 0, SEEK_SET);
  const auto scenario = Opened();
  const int status = RunScenario(scenario.get(), fileno(in), out, err);
  std::fclose(in);
  return {status, Contents(out), Contents(err)};
}

TEST(RunScenario, BlankLinesAreSkippedAndCounted) {
  const Ran ran = RunText("\n  \t\r\n{\"op\":\"tick\"}\r\n\nbad\n");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1);
  EXPECT_EQ(json::parse(ran.err)["line"], 5);
}

TEST(RunScenario, NothingIsPrintedForABadLineOrAfterIt) {
  const Ran ran = RunText("{\"op\":\"tick\"}\n{\"op\":\"tock\"}\n{\"op\":\"tick\"}\n");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1);
  EXPECT_EQ(ran.err,
            "{\"error\":\"unknown op 'tock'; did you mean 'tick'?; known: set, get, delete, clear, "
            "pressure, tick, order, graph, steps\",\"line\":2}\n");
}

TEST(RunScenario, ComplaintsAboutBrokenTextAreValidJson) {
  const Ran ran = RunText("{\"op\":\"\xff\xfe\"}\n");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(json::parse(ran.err).contains("error"));
}

TEST(RunScenario, AnEmptyFileIsAScenario) {
  const Ran ran = RunText("");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out + ran.err, "");
}

TEST(RunScenario, SaysWhenItCantWrite) {
  std::FILE* in = std::tmpfile();
  std::fputs("{\"op\":\"tick\"}\n", in);
  std::fseek(in, 0, SEEK_SET);
  std::FILE* out = std::fopen("/dev/full", "w");
  std::FILE* err = std::tmpfile();
  const auto scenario = Opened();
  EXPECT_EQ(RunScenario(scenario.get(), fileno(in), out, err), 1);
  EXPECT_THAT(Contents(err), HasSubstr("No space left"));
  std::fclose(in);
  std::fclose(out);
}

}  // namespace
}  // namespace spillway
