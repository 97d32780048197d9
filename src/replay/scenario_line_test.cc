// SPDX-License-Identifier: Apache-2.0
#include "replay/scenario_line.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using ::testing::HasSubstr;
using Op = ScenarioLine::Op;

ScenarioLine Parsed(const std::string& text) {
  const Result<ScenarioLine> line = ParseScenarioLine(text);
  EXPECT_TRUE(line) << text << ": " << (line ? "" : line.error().message);
  return line ? *line : ScenarioLine();
}

std::string Refused(const std::string& text) {
  const Result<ScenarioLine> line = ParseScenarioLine(text);
  EXPECT_FALSE(line) << text;
  return line ? "" : line.error().message;
}

TEST(ScenarioLine, ReadsEveryFieldOfASet) {
  const ScenarioLine line = Parsed(
      R"( {"parent":"p","agent":"A","bytes":7,"tokens":5,"key":"k\u00e4\u0000","op":"set","at":0.1} )");
  EXPECT_EQ(line.op, Op::kSet);
  EXPECT_EQ(line.name, "set");
  EXPECT_EQ(line.at, Duration(100'000'000));
  EXPECT_EQ(line.key, std::string("k\xc3\xa4\0", 4));
  EXPECT_EQ(line.tokens, 5);
  EXPECT_EQ(line.bytes, Bytes{7});
  EXPECT_EQ(line.agent, "A");
  EXPECT_EQ(line.parent, "p");
}

TEST(ScenarioLine, ReadsTheOtherOps) {
  EXPECT_EQ(Parsed(R"({"at":1,"op":"get","key":"k"})").op, Op::kGet);
  EXPECT_EQ(Parsed(R"({"at":1,"op":"delete","key":"k"})").op, Op::kDelete);
  EXPECT_EQ(Parsed(R"({"at":1,"op":"clear"})").op, Op::kClear);
  EXPECT_EQ(Parsed(R"({"at":1,"op":"tick"})").op, Op::kTick);
  EXPECT_EQ(Parsed(R"({"at":1,"op":"order"})").op, Op::kOrder);
  EXPECT_EQ(Parsed(R"({"op":"pressure","value":0.7})").pressure, 0.7);
  EXPECT_EQ(Parsed(R"({"op":"pressure","value":1})").pressure, 1.0);
  EXPECT_EQ(Parsed(R"({"op":"pressure","value":null})").pressure, std::nullopt);
}

TEST(ScenarioLine, WithoutAtNoTimePasses) {
  EXPECT_EQ(Parsed(R"({"op":"tick"})").at, std::nullopt);
  EXPECT_EQ(Parsed(R"({"op":"tick","at":0})").at, Duration::zero());
}

TEST(ScenarioLine, TakesTheLargestThatIsLegal) {
  const std::string key(kKeyBytesMax, 'k');
  EXPECT_EQ(Parsed(R"({"op":"get","key":")" + key + "\"}").key, key);
  EXPECT_EQ(Parsed(R"({"op":"set","key":"k","tokens":1000000000})").tokens, kTokensMax);
  EXPECT_EQ(Parsed(R"({"op":"set","key":"k","tokens":0,"bytes":9223372036854775807})").bytes,
            Bytes{9223372036854775807U});
}

TEST(BadScenarioLine, SaysWhatIsWrong) {
  const std::string long_key(kKeyBytesMax + 1, 'k');
  const std::pair<std::string, const char*> table[] = {
      {"nonsense", "not a JSON object, at byte 2: syntax error"},
      {R"({"op":"tick")", "not a JSON object, at byte 13: "},
      {R"({"op":"tick"} {})", "not a JSON object, at byte 15: "},
      {R"({"op":"tick",})", "not a JSON object"},
      {R"({"op":"get","key":"\ud800"})", "not a JSON object"},
      {"{\"op\":\"get\",\"key\":\"\xff\"}", "not a JSON object"},
      {R"({"op":"pressure","value":NaN})", "not a JSON object"},
      {R"({"op":"pressure","value":1e999})", "number overflow"},
      {R"({"at":1e999,"op":"tick"})", "number overflow"},
      {R"([{"op":"tick"}])", "a line must be a JSON object"},
      {R"("tick")", "a line must be a JSON object"},
      {"null", "a line must be a JSON object"},
      {"{}", "the field 'op' is missing"},
      {R"({"op":7})", "op is a number; it must be a string"},
      {R"({"op":"sett","key":"k","tokens":1})",
       "unknown op 'sett'; did you mean 'set'?; known: set,"},
      {R"({"op":"set","key":"k","tokens":1,"key":"l"})", "the field 'key' appears twice"},
      {R"({"op":"set","key":"k"})", "the field 'tokens' is missing; set needs it"},
      {R"({"op":"set","tokens":1})", "the field 'key' is missing"},
      {R"({"op":"get"})", "the field 'key' is missing"},
      {R"({"op":"pressure"})", "the field 'value' is missing"},
      {R"({"op":"get","kye":"k","key":"k"})", "unknown field 'kye'; did you mean 'key'?"},
      {R"({"op":"get","key":"k","tokens":1})", "unknown field 'tokens'"},
      {R"({"op":"tick","value":0.5})", "unknown field 'value'; tick takes at, op"},
      {R"({"op":"set","key":5,"tokens":1})", "key is a number; it must be a string"},
      {R"({"op":"set","key":["k"],"tokens":1})", "key is a list; it must be a string"},
      {R"({"op":"set","key":{"k":{"l":1}},"tokens":1})", "key is an object"},
      {R"({"op":"get","key":""})", "key has 0 bytes; it must have 1 to 65536"},
      {R"({"op":"get","key":")" + long_key + "\"}", "key has 65537 bytes"},
      {R"({"op":"set","key":"k","tokens":"5"})", "tokens is a string; it must be a whole number"},
      {R"({"op":"set","key":"k","tokens":true})", "tokens is true or false"},
      {R"({"op":"set","key":"k","tokens":null})", "tokens is null"},
      {R"({"op":"set","key":"k","tokens":-1})", "tokens is -1; it must be a whole number from 0"},
      {R"({"op":"set","key":"k","tokens":1.5})", "tokens is 1.5"},
      {R"({"op":"set","key":"k","tokens":1000000001})", "tokens is 1000000001"},
      {R"({"op":"set","key":"k","tokens":99999999999999999999999})",
       "tokens is 99999999999999999999999"},
      {R"({"op":"set","key":"k","tokens":1,"bytes":-1})", "bytes is -1"},
      {R"({"op":"set","key":"k","tokens":1,"bytes":9223372036854775808})", "bytes is 92233"},
      {R"({"op":"set","key":"k","tokens":1,"agent":7})", "agent is a number"},
      {R"({"op":"set","key":"k","tokens":1,"parent":""})", "parent has 0 bytes"},
      {R"({"op":"set","key":"k","tokens":1,"parent":null})", "parent is null"},
      {R"({"op":"pressure","value":1.01})", "value is 1.01; pressure must be from 0 to 1, or null"},
      {R"({"op":"pressure","value":-0.01})", "value is -0.01"},
      {R"({"op":"pressure","value":"0.5"})", "value is a string"},
      {R"({"at":-1,"op":"tick"})", "at is -1; it must be from 0 to 9223372036 seconds"},
      {R"({"at":1e10,"op":"tick"})", "at is 1e10"},
      {R"({"at":"1","op":"tick"})", "at is a string; it must be a number of seconds"},
      {R"({"at":null,"op":"tick"})", "at is null"},
  };
  for (const auto& [text, message] : table) {
    EXPECT_THAT(Refused(text), HasSubstr(message)) << text.substr(0, 80);
  }
}

TEST(BadScenarioLine, OfAGraphSaysWhatWouldBeRight) {
  const std::pair<std::string, const char*> table[] = {
      {R"({"op":"graph","run":"r"})", "the field 'do' is missing"},
      {R"({"op":"graph","do":"begin"})", "the field 'run' is missing; graph begin needs it"},
      {R"({"op":"graph","do":"strat","run":"r","id":"a"})", "did you mean 'start'"},
      {R"({"op":"graph","do":7,"run":"r"})", "graph can't do 7"},
      {R"({"op":"graph","do":"start","run":"r","step":"a"})", "the field 'id' is missing"},
      {R"({"op":"graph","do":"start","run":"r","id":"a","k":1})", "unknown field 'k'"},
      {R"({"op":"graph","do":"step","run":"r","id":"a","join":"or"})", "one of all, any, k"},
      {R"({"op":"graph","do":"step","run":"r","id":"a","k":-1})", "k is -1; it must be a whole"},
      {R"({"op":"graph","do":"edge","run":"r","from":"a","to":"b","prob":"x"})", "a number"},
      {R"({"op":"graph","do":"finish","run":"r","id":"a","taken":["a",["b"]]})",
       "a list of strings"},
      {R"({"at":-1,"op":"graph","do":"end","run":"r"})", "at is -1"},
      {R"({"op":"steps"})", "the field 'run' is missing"},
  };
  for (const auto& [text, message] : table) EXPECT_THAT(Refused(text), HasSubstr(message)) << text;
}

TEST(ScenarioLine, OfAGraphIsRead) {
  const auto line =
      ParseScenarioLine(R"({"at":2,"op":"graph","do":"finish","run":"r","id":"a","taken":["b"]})");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->op, ScenarioLine::Op::kGraph);
  EXPECT_EQ(line->graph.what, "finish");
  EXPECT_EQ(line->graph.taken, (std::vector<std::string>{"b"}));
  EXPECT_EQ(line->at, Duration(std::chrono::seconds(2)));
}

TEST(BadScenarioLine, DeepNestingIsPassedOver) {
  const std::string deep(100'000, '[');
  EXPECT_THAT(Refused(R"({"op":"get","key":)" + deep + std::string(100'000, ']') + "}"),
              HasSubstr("key is a list"));
}

}  // namespace
}  // namespace spillway
