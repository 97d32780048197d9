// SPDX-License-Identifier: Apache-2.0
// docs/reference/daemon-settings.md is written from the table, and a test holds it
// to that. SPILLWAY_WRITE_PAGES=1 writes it anew.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "cache/settings.h"
#include "server/settings.h"

namespace spillway::server {
namespace {

TEST(DaemonSettingsPage, IsCurrent) {
  const char* const path = "docs/reference/daemon-settings.md";
  if (std::getenv("SPILLWAY_WRITE_PAGES") != nullptr) std::ofstream(path) << DaemonSettingsPage();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), DaemonSettingsPage()) << "SPILLWAY_WRITE_PAGES=1 writes it anew";
}

// The sample with every setting switched on is the daemon's defaults: it names them all, and its
// values are read as they are written.
TEST(SampleConfig, SwitchedOnItIsTheDefaults) {
  std::istringstream lines(SampleConfig());
  std::string text;
  std::size_t settings = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    const bool is_setting = line.starts_with("# ") && line.find(" = ") != std::string::npos &&
                            line.find(' ', 2) == line.find(" = ");
    if (is_setting && line.find("password_file") == std::string::npos) {
      ++settings;
      line.erase(0, 2);
    }
    text += line + "\n";
  }
  EXPECT_EQ(settings, SettingRows().size() + spillway::Settings().size());
  const Result<Config> read = LoadConfig(text, "sample.toml", DefaultConfig());
  ASSERT_TRUE(read) << read.error().message;
  const Config defaults = DefaultConfig();
  for (const SettingRow& row : SettingRows()) {
    EXPECT_EQ(row.print(read->server), row.print(defaults.server)) << row.name;
  }
  for (const Setting& setting : spillway::Settings()) {
    if (setting.name == "capacity") continue;  // By default a share of this machine.
    EXPECT_EQ(setting.print(read->cache), setting.print(defaults.cache)) << setting.name;
  }
}

// As it is shipped, all of it commented out.
TEST(SampleConfig, AsItIsItChangesNothing) {
  const Result<Config> read = LoadConfig(SampleConfig(), "sample.toml", DefaultConfig());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->server.port, Settings().port);
}

}  // namespace
}  // namespace spillway::server
