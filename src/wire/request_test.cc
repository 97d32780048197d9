// SPDX-License-Identifier: Apache-2.0
#include "wire/request.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace spillway::wire {
namespace {

using Outcome = RequestParser::Outcome;

std::vector<std::string> ArgsOf(const RequestParser& parser, std::string_view frame) {
  std::vector<std::string> args;
  for (std::size_t i = 0; i < parser.count(); ++i) args.emplace_back(parser.arg(i, frame));
  return args;
}

std::string ErrorOf(std::string_view frame, const RequestLimits& limits = {}) {
  RequestParser parser;
  return parser.Parse(frame, limits) == Outcome::kError ? parser.error() : "(no error)";
}

TEST(RequestParser, ReadsAnArrayOfBulkStrings) {
  RequestParser parser;
  const std::string frame = "*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\nrest";
  ASSERT_EQ(parser.Parse(frame, {}), Outcome::kRequest);
  EXPECT_EQ(ArgsOf(parser, frame), (std::vector<std::string>{"GET", "a\r\nb"}));
  EXPECT_EQ(frame.substr(parser.consumed()), "rest");
}

TEST(RequestParser, ReadsTheSameHoweverTheBytesArrive) {
  const std::string frame = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n";
  for (std::size_t step = 1; step < frame.size(); ++step) {
    RequestParser parser;
    std::size_t shown = 0;
    Outcome outcome = Outcome::kMore;
    while (outcome == Outcome::kMore && shown < frame.size()) {
      shown = std::min(shown + step, frame.size());
      outcome = parser.Parse(std::string_view(frame).substr(0, shown), {});
    }
    ASSERT_EQ(outcome, Outcome::kRequest) << "in steps of " << step;
    EXPECT_EQ(ArgsOf(parser, frame), (std::vector<std::string>{"SET", "k", "value"}));
    EXPECT_EQ(parser.consumed(), frame.size());
  }
}

TEST(RequestParser, ReadsOneRequestAfterAnother) {
  const std::string bytes = "*1\r\n$4\r\nPING\r\nECHO hi\r\n*0\r\n*1\r\n$4\r\nQUIT\r\n";
  RequestParser parser;
  std::string_view rest = bytes;
  std::vector<std::string> names;
  while (!rest.empty()) {
    const Outcome outcome = parser.Parse(rest, {});
    ASSERT_TRUE(outcome == Outcome::kRequest || outcome == Outcome::kNothing);
    if (outcome == Outcome::kRequest) names.emplace_back(parser.arg(0, rest));
    rest.remove_prefix(parser.consumed());
    parser.Next();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"PING", "ECHO", "QUIT"}));
}

TEST(RequestParser, SaysWhatIsWrongInTheWordsOfRedis) {
  EXPECT_EQ(ErrorOf("*x\r\n"), "invalid multibulk length");
  EXPECT_EQ(ErrorOf("*99999999999\r\n"), "invalid multibulk length");
  EXPECT_EQ(ErrorOf("*1\r\nfoo\r\n"), "expected '$', got 'f'");
  EXPECT_EQ(ErrorOf("*1\r\n$-1\r\n"), "invalid bulk length");
  EXPECT_EQ(ErrorOf("*1\r\n$536870913\r\n"), "invalid bulk length");
  EXPECT_EQ(ErrorOf("GET \"a\r\n"), "unbalanced quotes in request");
  EXPECT_EQ(ErrorOf(std::string(65 * 1024, 'a')), "too big inline request");
  EXPECT_EQ(ErrorOf("*" + std::string(65 * 1024, '1')), "too big mbulk count string");
  EXPECT_EQ(ErrorOf("*1\r\n$" + std::string(65 * 1024, '1')), "too big bulk count string");
}

TEST(RequestParser, HoldsStrangersToLess) {
  RequestLimits limits;
  limits.strangers = true;
  EXPECT_EQ(ErrorOf("*11\r\n", limits), "unauthenticated multibulk length");
  EXPECT_EQ(ErrorOf("*10\r\n", limits), "(no error)");
  EXPECT_EQ(ErrorOf("*1\r\n$16385\r\n", limits), "unauthenticated bulk length");
  EXPECT_EQ(ErrorOf("*1\r\n$16384\r\n", limits), "(no error)");
}

TEST(RequestParser, ALargeArgumentCanBeTakenOutOfTheStream) {
  RequestLimits limits;
  limits.large_from = 10;
  RequestParser parser;
  std::string frame = "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$20\r\n";
  ASSERT_EQ(parser.Parse(frame, limits), Outcome::kLarge);
  EXPECT_EQ(parser.large_bytes(), 20);
  EXPECT_EQ(parser.count(), 2u);
  EXPECT_EQ(parser.consumed(), frame.size());
  parser.TakeOut();
  EXPECT_EQ(parser.Parse(frame, limits), Outcome::kMore);
  frame += "$2\r\nEX\r\n$2\r\n10\r\n";
  ASSERT_EQ(parser.Parse(frame, limits), Outcome::kRequest);
  EXPECT_EQ(ArgsOf(parser, frame), (std::vector<std::string>{"SET", "k", "", "EX", "10"}));
}

TEST(RequestParser, ALargeArgumentAtTheEndEndsTheFrame) {
  RequestLimits limits;
  limits.large_from = 10;
  RequestParser parser;
  const std::string frame = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20\r\n";
  ASSERT_EQ(parser.Parse(frame, limits), Outcome::kLarge);
  parser.TakeOut();
  ASSERT_EQ(parser.Parse(frame, limits), Outcome::kRequest);
  EXPECT_EQ(parser.count(), 3u);
}

TEST(RequestParser, ALargeArgumentThatNobodyTakesIsReadLikeAnyOther) {
  RequestLimits limits;
  limits.large_from = 4;
  RequestParser parser;
  const std::string frame = "*2\r\n$4\r\nECHO\r\n$6\r\nabcdef\r\n";
  int offers = 0;
  Outcome outcome = parser.Parse(frame, limits);
  for (; outcome == Outcome::kLarge; outcome = parser.Parse(frame, limits)) {
    ++offers;
    parser.GoOn();
  }
  ASSERT_EQ(outcome, Outcome::kRequest);
  EXPECT_EQ(offers, 2);
  EXPECT_EQ(ArgsOf(parser, frame), (std::vector<std::string>{"ECHO", "abcdef"}));
}

TEST(RequestParser, AFrameThatPromisesAMillionArgumentsTakesNoMemoryForThem) {
  RequestParser parser;
  EXPECT_EQ(parser.Parse("*1048576\r\n", {}), Outcome::kMore);
  EXPECT_EQ(parser.count(), 0u);
}

TEST(SplitLine, QuotesAndEscapes) {
  std::vector<std::string> words;
  ASSERT_TRUE(SplitLine(R"(a "b c" 'd\'e' "\x41\n\"" )", &words));
  EXPECT_EQ(words, (std::vector<std::string>{"a", "b c", "d'e", "A\n\""}));
  EXPECT_FALSE(SplitLine("\"a\"b", &words));
  EXPECT_FALSE(SplitLine("'a", &words));
  ASSERT_TRUE(SplitLine("   ", &words));
  EXPECT_TRUE(words.empty());
}

TEST(ReadInteger, TakesWhatRedisTakes) {
  std::int64_t number = 0;
  for (const char* good : {"0", "1", "-1", "9223372036854775807", "-9223372036854775808"}) {
    EXPECT_TRUE(ReadInteger(good, &number)) << good;
  }
  for (const char* bad : {"", "-", "+1", " 1", "1 ", "01", "-0", "1.0", "0x1",
                          "99999999999999999999", "9223372036854775808"}) {
    EXPECT_FALSE(ReadInteger(bad, &number)) << bad;
  }
}

}  // namespace
}  // namespace spillway::wire
