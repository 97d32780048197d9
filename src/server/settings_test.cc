// SPDX-License-Identifier: Apache-2.0
#include "server/settings.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

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
  EXPECT_THAT(ErrorOf("[server]\nport = 70000\n"), HasSubstr("is not a port; it must be"));
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

TEST(DaemonSettings, AWrongPortIsShownAsItWasGiven) {
  for (const std::string port :
       {"-1", "65536", "18446744073709551616", "-18446744073709551615", "1e3", "0x50"}) {
    const std::string right = "'" + port + "' is not a port; it must be 0 to 65535";
    for (const char* name : {"port", "http_port"}) {
      const SettingRow* const row = FindRow(name);
      Settings settings;
      const Status read = row->read(port, &settings);
      ASSERT_FALSE(read) << name;
      EXPECT_EQ(read.error().message, right) << name;
      EXPECT_EQ(row->print(settings), row->print(Settings())) << name;
    }
  }
  EXPECT_THAT(ErrorOf("[server]\nport = -1\n"), HasSubstr("server.port: '-1' is not a port"));
  EXPECT_THAT(ErrorOf("[server]\nclients_max = -1\n"),
              HasSubstr("'-1' is not a whole number of at least 0"));
}

TEST(DaemonSettings, AnOldNameIsAnErrorWithTheNewOne) {
  EXPECT_THAT(ErrorOf("write_behind_after = \"1s\"\n"),
              HasSubstr(":1: unknown setting 'write_behind_after': it is now write_back_after"));
  EXPECT_THAT(ErrorOf("[server]\nwrite_behind_after = \"1s\"\n"),
              HasSubstr(":2: server.write_behind_after: no such setting: it is now "
                        "write_back_after, and is no setting of the server"));
}

// --- what may change while it runs ---

TEST(DaemonSettings, APasswordIsNotTakenAwayWhileOthersCanConnect) {
  for (const bool open_to_all : {false, true}) {
    for (const bool http : {false, true}) {
      Settings before;
      (http ? before.http_bind : before.bind) = "192.0.2.1";
      before.password = "x";
      before.open_to_all = open_to_all;
      Settings after = before;
      after.password.clear();
      const Status gone = CheckChange(before, after);
      ASSERT_FALSE(gone);
      EXPECT_THAT(gone.error().message,
                  HasSubstr(http ? "server.http_bind: 192.0.2.1" : "server.bind: 192.0.2.1"));
      after.password = "y";
      EXPECT_TRUE(CheckChange(before, after));
      EXPECT_TRUE(CheckChange(after, before));
    }
  }
  Settings local;
  local.password = "x";
  EXPECT_TRUE(CheckChange(local, Settings()));
  Settings closed = local;  // Nothing listens there.
  closed.bind = "192.0.2.1";
  closed.port = 0;
  Settings without = closed;
  without.password.clear();
  EXPECT_TRUE(CheckChange(closed, without));
}

TEST(DaemonSettings, PasswordChangesHaveWords) {
  Settings none;
  Settings one;
  one.password = "1";
  Settings other;
  other.password = "2";
  EXPECT_EQ(PasswordChange(none, none), "");
  EXPECT_EQ(PasswordChange(one, one), "");
  EXPECT_EQ(PasswordChange(none, one), "set");
  EXPECT_EQ(PasswordChange(one, other), "changed");
  EXPECT_EQ(PasswordChange(one, none), "removed");
}

TEST(DaemonSettings, AReloadNamesWhatItChangedAndWhatItCouldNot) {
  const Config running = DefaultConfig();
  const auto read = LoadConfig(
      "capacity = \"77MiB\"\npolicy = \"lru\"\n[thresholds]\nnormal = 0.5\n"
      "[server]\nidle_max = \"9s\"\nport = 7000\nhttp_hosts = \"a\"\n",
      "d.toml", running);
  ASSERT_TRUE(read) << read.error().message;
  Settings live = running.server;
  live.socket = "/resolved";  // What a running daemon has made of its settings is no change.
  live.io_threads = 3;
  const Result<Reloaded> reloaded = Reload(running, *read, &live);
  ASSERT_TRUE(reloaded) << reloaded.error().message;
  EXPECT_THAT(reloaded->changed, ElementsAre("server.idle_max"));
  EXPECT_THAT(reloaded->kept, UnorderedElementsAre("server.port", "server.http_hosts", "capacity",
                                                   "policy", "thresholds.normal"));
  EXPECT_EQ(live.idle_max, std::chrono::seconds(9));
  EXPECT_EQ(live.port, running.server.port);
  EXPECT_EQ(live.socket, "/resolved");
  // The same file again: what needs a restart still does.
  const Result<Reloaded> again = Reload(running, *read, &live);
  ASSERT_TRUE(again);
  EXPECT_THAT(again->changed, IsEmpty());
  EXPECT_EQ(again->kept.size(), 5U);
}

TEST(DaemonSettings, AReloadChecksThePasswordAgainstTheAddressesThatAreOpen) {
  Config running = DefaultConfig();
  running.server.bind = "192.0.2.1";
  running.server.password = "x";
  Settings live = running.server;
  // Safe by itself, and not for a daemon that still listens where it did.
  const auto read = LoadConfig("[server]\nidle_max = \"9s\"\n", "d.toml", DefaultConfig());
  ASSERT_TRUE(read);
  const Result<Reloaded> reloaded = Reload(running, *read, &live);
  ASSERT_FALSE(reloaded);
  EXPECT_THAT(reloaded.error().message, HasSubstr("server.bind: 192.0.2.1"));
  EXPECT_EQ(live.password, "x");
  EXPECT_EQ(live.idle_max, running.server.idle_max);
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
