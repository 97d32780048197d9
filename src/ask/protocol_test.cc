// SPDX-License-Identifier: Apache-2.0
#include "ask/protocol.h"

#include <chrono>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string Refused(std::string_view line) {
  const Result<AskRequest> request = ParseAskRequest(line);
  return request ? "(accepted)" : request.error().message;
}

TEST(AskProtocol, WhatIsPrintedIsReadBack) {
  for (const AskRequest& request :
       {AskRequest{AskRequest::Verb::kHeld, "demo", 0, {}},
        AskRequest{AskRequest::Verb::kHold, "GPU-5d3a-1", 1, milliseconds(1)},
        AskRequest{AskRequest::Verb::kAsk, "a.b_c-2", kAskBytesMax, kAskTimeMax}}) {
    const std::string line = FormatAskRequest(request);
    const Result<AskRequest> again = ParseAskRequest(line);
    ASSERT_TRUE(again) << line;
    EXPECT_EQ(FormatAskRequest(*again), line);
    EXPECT_TRUE(ParseAskRequest(line + "\r"));
  }
  EXPECT_EQ(FormatAskRequest({AskRequest::Verb::kAsk, "demo", 4096, milliseconds(500)}),
            "ASK 1 demo 4096 500");
}

TEST(AskProtocol, AWrongLineIsToldWhatWouldBeRight) {
  EXPECT_THAT(Refused(""), HasSubstr("ASK 1 <device> <bytes> <ms>"));
  EXPECT_THAT(Refused("GIVE 1 demo 1 1"), HasSubstr("'GIVE' is not known"));
  EXPECT_THAT(Refused("ask 1 demo 1 1"), HasSubstr("'ask' is not known"));
  EXPECT_THAT(Refused("ASK"), HasSubstr("version '' is not supported; version 1 is"));
  EXPECT_THAT(Refused("ASK 2 demo 1 1"), HasSubstr("version '2'"));
  EXPECT_THAT(Refused("ASK 1 demo 1"), HasSubstr("takes 5 words, not 4"));
  EXPECT_THAT(Refused("ASK 1 demo 1 1 1"), HasSubstr("not 6"));
  EXPECT_THAT(Refused("ASK 1  demo 1 1"), HasSubstr("not 6"));
  EXPECT_THAT(Refused("HELD 1 ../card"), HasSubstr("names no device"));
  EXPECT_THAT(Refused("HELD 1 " + std::string(65, 'a')), HasSubstr("names no device"));
  for (const char* bytes : {"-1", "+1", "1.5", "1GiB", "0x10", "18446744073709551616",
                            "1125899906842625", "99999999999999999999999999999999999999999"}) {
    EXPECT_THAT(Refused(std::string("ASK 1 demo ") + bytes + " 1"),
                HasSubstr("is not a number of bytes"))
        << bytes;
  }
  for (const char* ms : {"-1", "1s", "604800001", ""}) {
    EXPECT_THAT(Refused(std::string("ASK 1 demo 1 ") + ms),
                HasSubstr("is not a number of milliseconds"))
        << ms;
  }
  EXPECT_THAT(Refused("ASK 1 demo 1 1\x01"), HasSubstr("not a line of text"));
  EXPECT_THAT(Refused(std::string("\0ASK", 4)), HasSubstr("not a line of text"));
}

TEST(AskProtocol, AnswersAreOneLineWhateverTheySay) {
  EXPECT_EQ(FormatAskOk(5, ""), "OK 5");
  EXPECT_EQ(FormatAskOk(5, "all is leased"), "OK 5 all is leased");
  EXPECT_EQ(FormatAskError("a\nb"), "ERR a?b");
  EXPECT_LT(FormatAskError(std::string(1000, 'x')).size(), kAskLineMax);
  const Result<AskReply> reply = ParseAskReply("OK 12 why  not more\r");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->bytes, 12U);
  EXPECT_EQ(reply->rest, "why  not more");
  EXPECT_EQ(ParseAskReply("OK 12")->rest, "");
  EXPECT_EQ(ParseAskReply("ERR no").error().message, "no");
  for (const char* bad : {"", "OK", "OK -1", "OK x", "ok 1", "NO 1", "OK 1 \x7f"}) {
    EXPECT_FALSE(ParseAskReply(bad)) << bad;
  }
}

// Damaged lines: each is refused with one line of text, or parsed as what it says.
TEST(AskProtocol, HoldsAgainstManyDamagedLines) {
  constexpr std::string_view kPieces[] = {
      "ASK",  "HELD", "HOLD", "1",  "2",    "demo", "4096", "500", "-1",  "18446744073709551615",
      " ",    "  ",   "\t",   "\r", "\xff", "0",    "OK",   "ERR", "GPU", "..",
      "1e99", "",     "/",    "\n", "%s"};
  std::mt19937 random(5);
  const auto pick = [&](std::size_t of) { return static_cast<std::size_t>(random() % of); };
  int accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string line;
    if (i % 2 == 0) {
      line = "ASK 1 demo 4096 500";
      for (std::size_t flips = pick(3); flips > 0; --flips) {
        line[pick(line.size())] = static_cast<char>(random());
      }
      if (pick(4) == 0) line.resize(pick(line.size()));
    } else {
      for (std::size_t pieces = pick(9); pieces > 0; --pieces) {
        line += kPieces[pick(std::size(kPieces))];
        if (pick(4) != 0) line += ' ';
      }
    }
    const Result<AskRequest> request = ParseAskRequest(line);
    if (request) {
      ++accepted;
      ASSERT_LE(request->bytes, kAskBytesMax) << line;
      ASSERT_LE(request->time, kAskTimeMax) << line;
      ASSERT_TRUE(IsAskDevice(request->device)) << line;
      ASSERT_TRUE(ParseAskRequest(FormatAskRequest(*request))) << line;
    } else {
      const std::string answer = FormatAskError(request.error().message);
      ASSERT_LT(answer.size(), kAskLineMax) << line;
      ASSERT_FALSE(ParseAskReply(answer)) << line;
    }
    (void)ParseAskReply(line);
  }
  EXPECT_GT(accepted, 2'000);
}

}  // namespace
}  // namespace spillway
