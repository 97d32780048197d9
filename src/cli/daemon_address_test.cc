// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_address.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Way = DaemonAddress::Way;

DaemonAddress Of(const std::string& url) {
  const Result<DaemonAddress> address = ParseDaemonUrl(url);
  EXPECT_TRUE(address) << url << ": " << (address ? "" : address.error().message);
  return address ? *address : DaemonAddress();
}

TEST(DaemonUrl, NamesEachOfTheDaemonsDoors) {
  const DaemonAddress redis = Of("redis://example:7000");
  EXPECT_EQ(redis.way, Way::kRedis);
  EXPECT_EQ(redis.Text(), "example:7000");
  EXPECT_EQ(Of("spillway://example").Text(), "example:7379");
  const DaemonAddress http = Of("http://127.0.0.1:7380/api/v1/stats");
  EXPECT_EQ(http.way, Way::kHttp);
  EXPECT_EQ(http.Text(), "127.0.0.1:7380");
  EXPECT_EQ(Of("example").way, Way::kHttp);  // As `top` always accepted it.
  EXPECT_EQ(Of("example").Text(), "example:7380");
  const DaemonAddress socket = Of("unix:///run/a%20b@c.sock");
  EXPECT_EQ(socket.way, Way::kUnix);
  EXPECT_EQ(socket.socket, "/run/a b@c.sock");
  EXPECT_EQ(Of("redis://[::1]:7000").host, "::1");
  EXPECT_EQ(Of("redis://[::1]:7000").Text(), "[::1]:7000");
  EXPECT_EQ(Of("http://[::1]").Text(), "[::1]:7380");
}

TEST(DaemonUrl, PasswordsArePercentDecodedAndDatabasesRead) {
  EXPECT_EQ(Of("redis://:p%40ss%3A%2f%25@h").password, "p@ss:/%");
  EXPECT_EQ(Of("redis://default:a:b@h").password, "a:b");
  EXPECT_EQ(Of("unix://:%ff%00@/s").password, std::string("\xff\0", 2));
  EXPECT_EQ(Of("redis://name@h").password, "");
  EXPECT_EQ(Of("redis://:@h").password, "");
  EXPECT_EQ(Of("redis://h/15").database, 15);
  EXPECT_EQ(Of("redis://h/").database, std::nullopt);
}

TEST(DaemonUrl, WhatIsNoAddressIsRefusedAndItsPasswordIsNotShown) {
  for (const std::string url : {"",
                                "redis://",
                                "https://h",
                                "ftp://:secret@h",
                                "redis://:sec%zzret@h",
                                "redis://:secret%4@h",
                                "redis://:se/cret@h:7379",
                                "redis://:se?cret@h",
                                "redis://:se#cret@h",
                                "unix://:secret@h/s",
                                "unix://:secret@",
                                "unix://h",
                                "redis://:secret@h:0",
                                "redis://:secret@h:65536",
                                "redis://:secret@h:-1",
                                "redis://:secret@[::1",
                                "redis://:secret@h/16",
                                "redis://:secret@h/x",
                                "redis://:secret@:7379",
                                "http://h:x"}) {
    const Result<DaemonAddress> address = ParseDaemonUrl(url);
    ASSERT_FALSE(address) << url;
    EXPECT_EQ(address.error().code, Code::kInvalidArgument) << url;
    EXPECT_THAT(address.error().message, Not(HasSubstr("cret"))) << url;
  }
  EXPECT_THAT(ParseDaemonUrl("ftp://h").error().message,
              AllOf(HasSubstr("'ftp://h'"), HasSubstr("redis://HOST:PORT")));
  EXPECT_THAT(ParseDaemonUrl("redis://h:70000").error().message,
              HasSubstr("'70000' is not a port; it must be 1 to 65535"));
}

}  // namespace
}  // namespace spillway
