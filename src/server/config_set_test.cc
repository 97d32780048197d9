// SPDX-License-Identifier: Apache-2.0
// CONFIG SET of the password: when it is refused, and what the log has of it.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/log_lines.h"
#include "server/testing/session_fixture.h"

namespace spillway::server {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class ConfigSetTest : public testing::SessionTest {
 protected:
  void OpenWithPassword() {
    config_.server.password = "secret";
    Open();
    ASSERT_EQ(Do({"AUTH", "secret"}), "+OK\r\n");
    session_.address = "192.0.2.7:1234";
  }
};

TEST_F(ConfigSetTest, APasswordIsNotTakenAwayOnAWideBindAndTheTryIsLogged) {
  config_.server.bind = "0.0.0.0";
  config_.server.open_to_all = true;
  OpenWithPassword();
  const spillway::testing::LogLines log;
  for (const std::string name : {"requirepass", "password", "RequirePass"}) {
    EXPECT_THAT(Do({"CONFIG", "SET", "timeout", "77", name, ""}),
                AllOf(StartsWith("-ERR CONFIG SET failed"), HasSubstr("server.bind: 0.0.0.0")));
    EXPECT_EQ(state_->settings.password, "secret");
    EXPECT_NE(state_->settings.idle_max, std::chrono::seconds(77));
    EXPECT_THAT(log.Take(), ElementsAre(AllOf(StartsWith("warning: CONFIG SET by 192.0.2.7:1234"),
                                              HasSubstr("the password was not removed"))));
  }
  EXPECT_EQ(Do({"CONFIG", "SET", "requirepass", "other"}), "+OK\r\n");
  EXPECT_EQ(state_->settings.password, "other");
}

TEST_F(ConfigSetTest, AnOldNameIsAnErrorWithTheNewOne) {
  Open();
  const std::string error =
      "-ERR unknown setting 'write_behind_after': it is now write_back_after\r\n";
  EXPECT_EQ(Do({"CONFIG", "SET", "timeout", "77", "write_behind_after", "1s"}), error);
  EXPECT_NE(state_->settings.idle_max, std::chrono::seconds(77));
  EXPECT_EQ(Do({"CONFIG", "GET", "timeout", "write_behind_after"}), error);
  EXPECT_EQ(Do({"CONFIG", "GET", "Write_Behind_Rate"}),
            "-ERR unknown setting 'Write_Behind_Rate': it is now write_back_rate\r\n");
}

TEST_F(ConfigSetTest, EveryChangeOfThePasswordIsLoggedWithoutIt) {
  OpenWithPassword();
  const spillway::testing::LogLines log;
  EXPECT_EQ(Do({"CONFIG", "SET", "timeout", "30", "requirepass", "secret"}), "+OK\r\n");
  EXPECT_THAT(log.Take(), IsEmpty());
  for (const auto& [password, word] :
       {std::pair<std::string, std::string>{"other", "changed"}, {"", "removed"}, {"new", "set"}}) {
    EXPECT_EQ(Do({"CONFIG", "SET", "requirepass", password}), "+OK\r\n");
    const std::vector<std::string> lines = log.Take();
    EXPECT_THAT(lines, ElementsAre(HasSubstr("by 192.0.2.7:1234: the password was " + word)));
    EXPECT_THAT(lines, Each(AllOf(Not(HasSubstr("secret")), Not(HasSubstr("other")))));
  }
}

}  // namespace
}  // namespace spillway::server
