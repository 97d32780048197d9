// SPDX-License-Identifier: Apache-2.0
#include "cache/settings.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/renamed.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Options Loaded(const std::string& text, const Options& base = {}) {
  const Result<Options> options = LoadOptions(text, "t.toml", base);
  EXPECT_TRUE(options) << (options ? "" : options.error().message);
  return options ? *options : Options();
}

std::string Refused(const std::string& text) {
  const Result<Options> options = LoadOptions(text, "t.toml", {});
  EXPECT_FALSE(options) << text;
  return options ? "" : options.error().message;
}

TEST(Settings, NamesAreUniqueAndEveryRowIsWhole) {
  std::set<std::string_view> names;
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.meaning.empty()) << setting.name;
    EXPECT_FALSE(setting.since.empty()) << setting.name;
  }
  EXPECT_EQ(names.size(), 42U);
}

TEST(Settings, WhatIsPrintedIsReadBack) {
  Options odd;
  odd.capacity = 1'000'000'007;
  odd.dwell = milliseconds(1500);
  odd.ttl.reset();
  odd.token_budget.reset();
  odd.reserve = 0.1 / 3;
  odd.names_bytes_max = 3 * kMiB;
  odd.card = "two words";
  for (const Options& options : {Options(), Options::Seed(), odd}) {
    Options again = Options();
    // `unlimited` resets a capacity, and is read first.
    for (const Setting& setting : Settings()) {
      ASSERT_TRUE(setting.read(setting, setting.print(options), &again)) << setting.name;
    }
    for (const Setting& setting : Settings()) {
      EXPECT_EQ(setting.print(again), setting.print(options)) << setting.name;
    }
  }
}

TEST(Settings, DefaultsPrintAsPeopleWriteThem) {
  const auto text = [](std::string_view name) { return (*FindSetting(name))->print(Options()); };
  EXPECT_EQ(text("ttl"), "10min");
  EXPECT_EQ(text("dwell"), "2s");
  EXPECT_EQ(text("sample_period"), "50ms");
  EXPECT_EQ(text("names_bytes_max"), "4GiB");
  EXPECT_EQ(text("capacity"), "none");
  EXPECT_EQ(text("token_budget"), "50000000");
  EXPECT_EQ(text("thresholds.normal"), "0.7");
  EXPECT_EQ(text("unlimited"), "false");
}

TEST(Settings, AFileSetsEveryKind) {
  const Options options = Loaded(R"(
card = "demo"
capacity = "24GiB"
names_bytes_max = 1048576
entries_max = 1_000
reserve = 0
dwell = "500ms"
idle_normal = 0
ttl = "none"
token_budget = 7
policy = "lru"
exit_band = 0.01
[thresholds]
normal = 0.5
emergency = 1
)");
  EXPECT_EQ(options.card, "demo");
  EXPECT_EQ(options.capacity, 24 * kGiB);
  EXPECT_EQ(options.names_bytes_max, kMiB);
  EXPECT_EQ(options.entries_max, 1000U);
  EXPECT_EQ(options.reserve, 0);
  EXPECT_EQ(options.dwell, Duration(milliseconds(500)));
  EXPECT_EQ(options.idle_normal, Duration::zero());
  EXPECT_FALSE(options.ttl);
  EXPECT_EQ(options.token_budget, 7);
  EXPECT_EQ(options.policy, "lru");
  EXPECT_EQ(options.thresholds.normal, 0.5);
  EXPECT_EQ(options.thresholds.pressure, 0.85);
  EXPECT_EQ(options.thresholds.emergency, 1);
}

TEST(Settings, DottedNamesAndTablesAreTheSame) {
  EXPECT_EQ(Loaded("thresholds.critical = 0.9").thresholds.critical, 0.9);
  EXPECT_EQ(Loaded("thresholds = { critical = 0.9 }").thresholds.critical, 0.9);
  EXPECT_EQ(Loaded("[thresholds]\n").thresholds.critical, 0.92);
}

TEST(Settings, NothingInTheFileLeavesTheBase) {
  Options base;
  base.token_budget = 3;
  EXPECT_EQ(Loaded("", base).token_budget, 3);
  EXPECT_EQ(Loaded("# only words\n", base).token_budget, 3);
}

TEST(Settings, APresetComesFirstWhereverItStands) {
  const Options options = Loaded("ttl = \"5min\"\npreset = \"seed\"\n");
  EXPECT_EQ(options.policy, "seed");
  EXPECT_TRUE(options.unlimited);
  EXPECT_EQ(options.ttl, Duration(minutes(5)));
  EXPECT_EQ(Loaded("preset = \"default\"", Options::Seed()).policy, "score");
}

TEST(Settings, APresetKeepsTheWorld) {
  Options base;
  int seen = 0;
  base.on_event = [&](const Event&) { ++seen; };
  const Options options = Loaded("preset = \"seed\"", base);
  ASSERT_TRUE(options.on_event);
  options.on_event(Event());
  EXPECT_EQ(seen, 1);
}

TEST(Settings, APresetAlreadyChosenIsKept) {
  const auto options =
      LoadOptions("preset = \"default\"\ndwell = \"1s\"", "t", Options::Seed(), true);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->policy, "seed");
  EXPECT_EQ(options->dwell, Duration(seconds(1)));
}

TEST(Settings, ACapacityEndsUnlimited) {
  const Options options = Loaded("preset = \"seed\"\ncapacity = \"1GiB\"");
  EXPECT_FALSE(options.unlimited);
  EXPECT_EQ(options.capacity, kGiB);
}

TEST(BadSettings, UnknownNamesNameFileLineAndTheNearest) {
  EXPECT_EQ(Refused("dwell = \"2s\"\n\ntll = \"2s\"\n"),
            "t.toml:3: unknown setting 'tll'; did you mean 'ttl'?");
  EXPECT_EQ(Refused("[threshold]\nnormal = 0.5"),
            "t.toml:2: unknown setting 'threshold.normal'; did you mean 'thresholds.normal'?");
  EXPECT_EQ(Refused("[thresholds]\nnorml = 0.5"),
            "t.toml:2: unknown setting 'thresholds.norml'; did you mean 'thresholds.normal'?");
  EXPECT_EQ(Refused("colour = 1"), "t.toml:1: unknown setting 'colour'");
  EXPECT_EQ(Refused("\n[server]\n"), "t.toml:2: unknown setting 'server'");
  EXPECT_EQ(Refused("prest = 1"), "t.toml:1: unknown setting 'prest'; did you mean 'preset'?");
}

TEST(BadSettings, AnOldNameIsAnErrorWithTheNewOne) {
  EXPECT_EQ(Refused("\nwrite_behind_after = \"1s\""),
            "t.toml:2: unknown setting 'write_behind_after': it is now write_back_after");
  Options options;
  const Status set = ApplySetting(&options, "write_behind_rate", "1MiB");
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().message, "unknown setting 'write_behind_rate': it is now write_back_rate");
  for (const RenamedName& each : RenamedNames()) {
    if (each.kind != NameKind::kSetting) continue;
    EXPECT_FALSE(FindSetting(each.old_name)) << each.old_name;
    EXPECT_TRUE(FindSetting(each.name)) << each.name;
  }
}

TEST(BadSettings, WrongTypesSayWhatWouldBeRight) {
  EXPECT_EQ(Refused("dwell = true"),
            "t.toml:1: dwell is true or false; it must be a duration, as in \"2s\", \"500ms\" or "
            "\"10min\"");
  EXPECT_EQ(Refused("reserve = \"4%\""),
            "t.toml:1: reserve is a string; it must be a share, a number such as 0.85");
  EXPECT_EQ(
      Refused("token_budget = 1.5"),
      "t.toml:1: token_budget is a number with a point; it must be a whole number of at least "
      "0, such as 1000000, or \"none\"");
  EXPECT_THAT(Refused("policy = 3"), HasSubstr("policy is an integer; it must be a word"));
  EXPECT_THAT(Refused("unlimited = \"yes\""), HasSubstr("it must be true or false"));
  EXPECT_THAT(Refused("ttl = [1]"), HasSubstr("ttl is a list; it must be a duration"));
  EXPECT_THAT(Refused("ttl = 07:32:00"), HasSubstr("ttl is a date or time"));
  EXPECT_THAT(Refused("thresholds = 0.7"), HasSubstr("t.toml:1: unknown setting 'thresholds'"));
  EXPECT_THAT(Refused("thresholds = 0.7"),
              HasSubstr("a table, of thresholds.normal, thresholds.pressure, "));
  EXPECT_THAT(Refused("[dwell]\nx = 1"), HasSubstr("unknown setting 'dwell.x'"));
}

TEST(BadSettings, ValuesThatDoNotReadNameTheLine) {
  EXPECT_THAT(Refused("\ncapacity = \"4G\""),
              StartsWith("t.toml:2: capacity: \"4G\" is not a size"));
  EXPECT_THAT(Refused("capacity = -1"), StartsWith("t.toml:1: capacity: \"-1\" is not a size"));
  EXPECT_THAT(Refused("dwell = 5"), StartsWith("t.toml:1: dwell: \"5\" is not a duration"));
  EXPECT_THAT(Refused("dwell = \"none\""), StartsWith("t.toml:1: dwell: "));
  EXPECT_THAT(Refused("entries_max = -1"),
              StartsWith("t.toml:1: entries_max: '-1' is not a whole"));
  EXPECT_THAT(Refused("reserve = nan"), StartsWith("t.toml:1: reserve: 'nan' is not a share"));
  EXPECT_THAT(Refused("preset = \"sed\""), HasSubstr("did you mean 'seed'?"));
  EXPECT_THAT(Refused("preset = 1"), HasSubstr("preset is an integer"));
}

TEST(BadSettings, ChecksAfterReadingNameTheLineToo) {
  EXPECT_THAT(Refused("\ncapacity = 0"), StartsWith("t.toml:2: capacity is 0"));
  EXPECT_THAT(Refused("[thresholds]\nnormal = 0.6\ncritical = 0.8"),
              StartsWith("t.toml:3: thresholds.critical is 0.8: thresholds must rise"));
  EXPECT_THAT(Refused("policy = \"lfu\""), StartsWith("t.toml:1: policy: 'lfu' is not known"));
  EXPECT_THAT(Refused("exit_band = 0.9"), StartsWith("t.toml:1: exit_band is 0.9"));
  EXPECT_THAT(Refused("entries_max = 0"), StartsWith("t.toml:1: entries_max is 0"));
  EXPECT_THAT(Refused("sample_period = 0"), StartsWith("t.toml:1: sample_period"));
  EXPECT_THAT(Refused("token_budget = -1"), StartsWith("t.toml:1: token_budget is -1"));
  EXPECT_THAT(Refused("device = \"abacus\""), StartsWith("t.toml:1: device: 'abacus'"));
  EXPECT_THAT(Refused("preset = \"seed\"\nunlimited = true\ncapacity = 5"),
              StartsWith("t.toml:2: unlimited and capacity exclude each other"));
  // If the fault lies in a default that the file did not change, only the file is
  // named.
  EXPECT_THAT(Refused("thresholds.normal = 0.9"),
              StartsWith("t.toml: thresholds.pressure is 0.85"));
}

TEST(BadSettings, AFileThatIsNotTomlNamesTheLine) {
  EXPECT_THAT(Refused("dwell = \"2s\"\nttl = = 3"), StartsWith("t.toml:2: "));
  EXPECT_THAT(Refused("dwell = \"2s\"\ndwell = \"3s\""), StartsWith("t.toml:2: "));
}

TEST(BadSettings, AFailureChangesNothing) {
  Options options;
  EXPECT_FALSE(ApplySetting(&options, "dwell", "soon"));
  EXPECT_FALSE(ApplySetting(&options, "capacity", "4G"));
  EXPECT_FALSE(ApplySetting(&options, "nonsense", "1"));
  for (const Setting& setting : Settings()) {
    EXPECT_EQ(setting.print(options), setting.print(Options())) << setting.name;
  }
}

// tools/write_settings_page.sh runs this one with SPILLWAY_WRITE_PAGES set.
TEST(Settings, ALogLevelThatIsNoneIsRefused) {
  Options options;
  for (const char* good : {"", "info", "warning", "error", "off"}) {
    options.log = good;
    EXPECT_TRUE(CheckSettings(options)) << good;
  }
  options.log = "loud";
  const Status status = CheckSettings(options);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("log: 'loud' is not known"), std::string::npos);
}

TEST(SettingsPage, IsCurrent) {
  const char* path = "docs/reference/settings.md";
  if (std::getenv("SPILLWAY_WRITE_PAGES") != nullptr) std::ofstream(path) << SettingsPage();
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << ": run from the root of the tree";
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), SettingsPage()) << "run tools/write_settings_page.sh";
}

}  // namespace
}  // namespace spillway
