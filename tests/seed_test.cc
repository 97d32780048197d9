// SPDX-License-Identifier: Apache-2.0
// Preset `seed` is exact: thousands of random scenarios through the engine and
// through a naive model of the seed, every state field equal after every line.
//   SPILLWAY_SEED=n       runs that one scenario
//   SPILLWAY_SCENARIOS=n  runs so many, from 1 on
#include <cmath>
#include <cstdlib>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "replay/scenario.h"
#include "seed_model.h"

namespace spillway {
namespace {

using nlohmann::json;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  template <typename T, std::size_t Size>
  T From(const T (&values)[Size]) {
    return values[Below(Size)];
  }

 private:
  std::mt19937_64 random_;
};

// The limits to the nanosecond, and values on either side.
constexpr std::int64_t kSteps[] = {0,
                                   0,
                                   0,
                                   1,
                                   1'000'000'000,
                                   10'000'000'000,
                                   29'999'999'999,
                                   30'000'000'000,
                                   30'000'000'001,
                                   90'000'000'000,
                                   119'999'999'999,
                                   120'000'000'000,
                                   120'000'000'001};
constexpr std::int64_t kTokenCounts[] = {0, 1, 2, 3, 4, 6, 12, 12, 100, 300, 1'000'000'000};
constexpr double kThresholds[] = {0.70, 0.85, 0.92, 0.96};

std::optional<double> DrawPressure(Draw& draw) {
  switch (draw.Below(6)) {
    case 0:
      return std::nullopt;
    case 1:
      return static_cast<double>(draw.Below(101)) / 100;
    case 2:
      return std::nextafter(draw.From(kThresholds), 0.0);
    default:
      return draw.From(kThresholds);
  }
}

// One line for both: its text, and the model's answer.
json Step(Draw& draw, SeedModel& model, std::int64_t now, std::string* text) {
  const std::string key(1, static_cast<char>('a' + draw.Below(7)));
  const std::string at = fmt::format("{}.{:09}", now / 1'000'000'000, now % 1'000'000'000);
  const auto line = [&](std::string_view op, std::string_view rest) {
    *text = fmt::format(R"({{"at":{},"op":"{}"{}}})", at, op, rest);
  };
  const std::string with_key = fmt::format(R"(,"key":"{}")", key);
  const std::uint64_t pick = draw.Below(100);
  if (pick < 45) {
    const std::int64_t tokens = draw.From(kTokenCounts);
    line("set", fmt::format(R"({},"tokens":{},"parent":"a")", with_key, tokens));
    return model.Set(key, tokens, now);
  }
  if (pick < 65) {
    line("get", with_key);
    return model.Get(key, now);
  }
  if (pick < 70) {
    line("delete", with_key);
    return model.Delete(key);
  }
  if (pick < 72) {
    line("clear", "");
    model.Clear();
    return nullptr;
  }
  const std::optional<double> pressure = DrawPressure(draw);
  line("pressure", pressure ? fmt::format(R"(,"value":{})", *pressure) : R"(,"value":null)");
  model.Pressure(pressure, now);
  return nullptr;
}

// The order of events of several idle entries is not specified.
json Sorted(json events) {
  std::sort(events.begin(), events.end());
  return events;
}

json Expected(const SeedModel& model, const json& result) {
  json line = {
      {"result", result},         {"mode", model.mode},           {"level", model.mode},
      {"blocked", model.blocked}, {"size", model.entries.size()}, {"tokens", 0},
      {"keys", json::array()},    {"offloaded", json::array()},   {"events", json::array()}};
  std::int64_t tokens = 0;
  for (const SeedModel::Entry& entry : model.entries) {
    tokens += entry.tokens;
    line["keys"].push_back(entry.key);
    if (entry.offloaded) line["offloaded"].push_back(entry.key);
  }
  line["tokens"] = tokens;
  line["keys"] = Sorted(line["keys"]);
  line["offloaded"] = Sorted(line["offloaded"]);
  for (const SeedModel::Event& event : model.events) {
    line["events"].push_back(
        {{"key", event.key}, {"action", event.action}, {"reason", event.reason}});
  }
  line["events"] = Sorted(line["events"]);
  return line;
}

// How often each thing happened over all scenarios: a world in which nothing happens
// proves nothing.
struct Tally {
  std::size_t lines = 0, refused = 0, marks = 0, idle = 0, heavy = 0;
};

::testing::AssertionResult Agrees(std::uint64_t seed, Tally* tally) {
  Options options = Options::Seed();
  options.entries_max = 64;  // Opens faster; seven keys can't reach it.
  auto scenario = Scenario::Open({options, Scenario::kDefaultBytesPerToken});
  if (!scenario) return ::testing::AssertionFailure() << scenario.error().message;
  Draw draw(seed);
  SeedModel model;
  std::int64_t now = 0;
  std::string script;
  for (int i = 0; i < 60; ++i) {
    now += draw.From(kSteps);
    std::string text;
    const json result = Step(draw, model, now, &text);
    script += text + "\n";
    std::string out;
    if (Status ok = (*scenario)->Run(text, &out); !ok) {
      return ::testing::AssertionFailure() << script << ok.error().message;
    }
    json actual = json::parse(out);
    actual.erase("op");
    actual["events"] = Sorted(actual["events"]);
    const json expected = Expected(model, result);
    if (actual != expected) {
      return ::testing::AssertionFailure()
             << "SPILLWAY_SEED=" << seed << "\n"
             << script << "engine: " << actual.dump() << "\nmodel:  " << expected.dump();
    }
    ++tally->lines;
    tally->refused += result == false && text.find("set") != std::string::npos ? 1 : 0;
    for (const SeedModel::Event& event : model.events) {
      tally->marks += event.action == "demote" ? 1 : 0;
      tally->idle += event.action == "destroy" && event.reason == "idle" ? 1 : 0;
      tally->heavy += event.reason == "heavy" ? 1 : 0;
    }
  }
  return ::testing::AssertionSuccess();
}

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Seed, AgreesWithTheModelOnRandomScenarios) {
  Tally tally;
  if (const std::uint64_t one = FromEnvironment("SPILLWAY_SEED", 0); one != 0) {
    EXPECT_TRUE(Agrees(one, &tally));
    return;
  }
  const std::uint64_t scenarios = FromEnvironment("SPILLWAY_SCENARIOS", 5000);
  for (std::uint64_t seed = 1; seed <= scenarios; ++seed) ASSERT_TRUE(Agrees(seed, &tally));
  fmt::print("{} scenarios, {} lines: {} sets refused, {} marked, {} idle and {} heavy evicted\n",
             scenarios, tally.lines, tally.refused, tally.marks, tally.idle, tally.heavy);
  EXPECT_GT(tally.refused, scenarios / 10);
  EXPECT_GT(tally.marks, scenarios / 10);
  EXPECT_GT(tally.idle, scenarios / 10);
  EXPECT_GT(tally.heavy, scenarios / 10);
}

}  // namespace
}  // namespace spillway
