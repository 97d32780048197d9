#include "server/settings.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::server {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const Result<Config> config = LoadConfig(text, "d.toml", DefaultConfig());
  return config ? "(fine)" : config.error().message;
}

TEST(DaemonSettings, AFileHasBothHalves) {
  const Result<Config> config = LoadConfig(
      "policy = \"lru\"\n[server]\nport = 7000\nidle_max = \"5s\"\nbulk_max = \"1GiB\"\n", "d.toml",
      DefaultConfig());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server.port, 7000u);
  EXPECT_EQ(config->server.idle_max, std::chrono::seconds(5));
  EXPECT_EQ(config->server.bulk_max, kGiB);
  EXPECT_EQ(config->cache.policy, "lru");
}

TEST(DaemonSettings, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(ErrorOf("[server]\nprot = 1\n"),
            "d.toml:2: server.prot: no such setting; did you mean 'port'?");
  EXPECT_THAT(ErrorOf("[server]\nport = \"x\"\n"), HasSubstr("d.toml:2: server.port"));
  EXPECT_THAT(ErrorOf("[server]\nport = 70000\n"), HasSubstr("no port"));
  EXPECT_THAT(ErrorOf("[server]\nport = []\n"), HasSubstr("it must be a port"));
  EXPECT_THAT(ErrorOf("server = 1\n"), HasSubstr("it must be a table"));
  EXPECT_THAT(ErrorOf("[server\n"), HasSubstr("d.toml:1"));
  EXPECT_THAT(ErrorOf("polcy = \"lru\"\n"), HasSubstr("d.toml:1"));
}

TEST(DaemonSettings, AWiderBindNeedsAPassword) {
  EXPECT_THAT(ErrorOf("[server]\nbind = \"0.0.0.0\"\n"), HasSubstr("there is no password"));
  EXPECT_EQ(ErrorOf("[server]\nbind = \"0.0.0.0\"\npassword = \"x\"\n"), "(fine)");
  EXPECT_EQ(ErrorOf("[server]\nbind = \"0.0.0.0\"\nopen_to_all = true\n"), "(fine)");
}

TEST(DaemonSettings, WhatIsPrintedIsRead) {
  Settings settings;
  for (const SettingRow& row : SettingRows()) {
    const std::string text = row.print(settings);
    EXPECT_TRUE(row.read(text, &settings)) << row.name;
    EXPECT_EQ(row.print(settings), text) << row.name;
  }
}

}  // namespace
}  // namespace spillway::server
