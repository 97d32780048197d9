// SPDX-License-Identifier: Apache-2.0
#include "replay/trace/read_trace.h"

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kWekaHead =
    R"({"format":"spillway-trace","version":1,"block_tokens":64,"id_scope":"session"})"
    "\n"
    R"({"sessions":[{"s":0},{"s":1}]})"
    "\n";
const std::string kLogHead = R"({"format":"spillway-log","version":1,"block_tokens":16})"
                             "\n";

ReadOptions Forced(const std::string& format) {
  ReadOptions options;
  options.format = format;
  return options;
}

class ReadTraceTest : public ::testing::Test {
 protected:
  ReadTraceTest()
      : dir_(std::filesystem::temp_directory_path() / fmt::format("spillway-trace-{}", getpid())) {
    std::filesystem::create_directories(dir_);
  }
  ~ReadTraceTest() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& text) {
    const std::string path = dir_ / "trace.jsonl";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string WriteGzip(const std::string& text) {
    const std::string path = dir_ / "trace.jsonl.gz";
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return path;
  }
  static std::vector<std::vector<BlockId>> Chains(const Trace& trace) {
    std::vector<std::vector<BlockId>> chains;
    TraceWalk walk(trace);
    while (walk.more()) {
      const auto chain = walk.Next();
      chains.emplace_back(chain.begin(), chain.end());
    }
    return chains;
  }
  std::string ErrorOf(const std::string& text, const ReadOptions& options = {}) {
    const Result<Trace> trace = ReadTrace(Write(text), options);
    return trace ? "no error" : trace.error().message;
  }

  std::filesystem::path dir_;
};

TEST_F(ReadTraceTest, MooncakeInOrderOfTime) {
  const std::string text =
      R"({"timestamp":2000,"input_length":1100,"output_length":5,"hash_ids":[0,7,9]})"
      "\n\n"
      R"({"timestamp":1000,"input_length":600,"output_length":5,"hash_ids":[0,7]})"
      "\n"
      R"({"timestamp":1000,"input_length":512,"output_length":5,"hash_ids":[0]})";
  for (const std::string& path : {Write(text), WriteGzip(text)}) {
    const Result<Trace> trace = ReadTrace(path, {});
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->format, "mooncake");
    EXPECT_EQ(trace->block_tokens, 512U);
    EXPECT_EQ(trace->unique_blocks, 3U);
    EXPECT_EQ(trace->references, 6U);
    EXPECT_EQ(trace->input_tokens, 2212U);
    EXPECT_EQ(trace->requests[0].tokens, 600U);
    EXPECT_EQ(trace->requests[1].tokens, 512U);  // Equal times keep their order.
    EXPECT_EQ(trace->requests[2].tokens, 1100U);
    // The second block is the session's name.
    EXPECT_EQ(trace->requests[0].session, trace->requests[2].session);
    EXPECT_NE(trace->requests[0].session, trace->requests[1].session);
    EXPECT_THAT(Chains(*trace),
                ElementsAre(ElementsAre(0, 1), ElementsAre(0), ElementsAre(0, 1, 2)));
  }
}

TEST_F(ReadTraceTest, WekaUndoesDeltasPlacesSessionsAndGroups) {
  const std::string text = kWekaHead +
                           R"({"s":0,"a":0,"t":0,"n":130,"x":"T","k":0,"b":[[1,4]]})"
                           "\n"
                           R"({"s":0,"a":1,"t":5,"n":130,"x":"-","k":0,"b":[[1,2],[50,2]]})"
                           "\n"
                           R"({"s":0,"a":0,"t":90000,"n":300,"x":"E","k":3,"b":[[9,2]]})"
                           "\n"
                           R"({"s":1,"a":0,"t":0,"n":130,"x":"E","k":0,"b":[[1,2]]})"
                           "\n";
  ReadOptions options;
  options.group = 2;
  const Result<Trace> trace = ReadTrace(Write(text), options);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, "weka");
  EXPECT_EQ(trace->block_tokens, 128U);
  // 1 2|3 4, 1 2|50 51, another session's 1 2, then 1 2|3 9; 10 is dropped.
  EXPECT_THAT(Chains(*trace),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2), ElementsAre(4), ElementsAre(0, 3)));
  EXPECT_EQ(trace->requests[2].at_ms, 60000);
  EXPECT_EQ(trace->requests[3].at_ms, 90000);
  EXPECT_EQ(trace->requests[0].state, 1U);
  EXPECT_EQ(trace->requests[1].state, 0U);
  EXPECT_EQ(trace->requests[3].state, 2U);
  EXPECT_EQ(trace->requests[0].session, trace->requests[3].session);
  EXPECT_NE(trace->requests[0].session, trace->requests[1].session);
  options.spacing_ms = 200'000;
  EXPECT_EQ(ReadTrace(Write(text), options)->requests[3].at_ms, 200'000);
  options.group = 0;
  EXPECT_EQ(ReadTrace(Write(text), options)->block_tokens, 512U);
}

TEST_F(ReadTraceTest, LmcacheCountsTokensFromBytesAndSharesIds) {
  const std::string text =
      R"({"format":"spillway-trace","block_bytes":64,"block_tokens_estimate":16})"
      "\n"
      R"({"s":0,"g":"coder","t":0,"n":130,"o":1,"k":0,"b":[[0,2]]})"
      "\n"
      R"({"s":0,"g":"tool","t":7,"n":200,"o":1,"k":1,"b":[[5,1]]})"
      "\n"
      R"({"s":1,"g":"coder","t":0,"n":130,"o":1,"k":0,"b":[[0,2]]})"
      "\n";
  const Result<Trace> trace = ReadTrace(Write(text), {});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, "lmcache");
  EXPECT_EQ(trace->block_tokens, 16U);
  EXPECT_EQ(trace->requests[0].tokens, 32U);
  EXPECT_THAT(Chains(*trace), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2), ElementsAre(0, 1)));
}

TEST_F(ReadTraceTest, DynamoTakesRequestsAndPassesToolsOver) {
  const std::string text =
      R"({"timestamp":1,"event":{"event_type":"tool_start","tool":{}}})"
      "\n"
      R"({"timestamp":1,"event":{"event_type":"request_end","agent_context":{"session_id":"x"},)"
      R"("request":{"input_tokens":40,"request_received_ms":500,"replay":{"trace_block_size":16,)"
      R"("input_sequence_hashes":[17959506591765528465,3]}}}})"
      "\n";
  const Result<Trace> trace = ReadTrace(Write(text), {});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, "dynamo");
  EXPECT_EQ(trace->requests.size(), 1U);
  EXPECT_EQ(trace->references, 2U);
  EXPECT_EQ(trace->block_tokens, 16U);
}

TEST_F(ReadTraceTest, TheCachesOwnLogHasStatesAndHints) {
  const std::string text =
      kLogHead +
      R"({"at_ms":5,"tokens":40,"chain":[9,8],"session":"a","state":"tool","hint":"again"})"
      "\n"
      R"({"at_ms":6,"tokens":40,"chain":[9,8],"session":"a","state":"human","hint":"done"})"
      "\n"
      R"({"at_ms":7,"tokens":40,"chain":[8]})"
      "\n";
  const Result<Trace> trace = ReadTrace(Write(text), {});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, "log");
  EXPECT_EQ(trace->requests[0].state, 1U);
  EXPECT_EQ(trace->requests[0].again, 1);
  EXPECT_TRUE(trace->requests[1].done);
  EXPECT_EQ(trace->requests[2].again, -1);
  EXPECT_EQ(trace->unique_blocks, 3U);  // 8 alone differs from 8 after 9.
}

TEST_F(ReadTraceTest, ABrokenLineSaysWhereAndWhatWasExpected) {
  const std::string good = R"({"timestamp":1,"input_length":6,"hash_ids":[1]})"
                           "\n";
  EXPECT_THAT(ErrorOf(good + "{\"timestamp\":\n"), HasSubstr("line 2: expected a JSON object"));
  EXPECT_THAT(ErrorOf(good + "[1,2]\n"), HasSubstr("line 2: expected a JSON object"));
  EXPECT_THAT(ErrorOf(good + R"({"timestamp":1,"input_length":6,"hash_ids":[1,-2]})"),
              HasSubstr("line 2: 'hash_ids': expected a list of whole numbers from 0 on"));
  EXPECT_THAT(ErrorOf(good + R"({"timestamp":"x","input_length":6,"hash_ids":[1]})"),
              HasSubstr("line 2: 'timestamp': expected a whole number"));
  EXPECT_THAT(ErrorOf(good + R"({"timestamp":1,"input_length":1e30,"hash_ids":[1]})"),
              HasSubstr("'input_length': expected a whole number from 0 to 4294967296"));
  EXPECT_THAT(ErrorOf(kWekaHead + R"({"s":0,"a":0,"t":0,"n":9,"k":3,"b":[]})"),
              HasSubstr("line 3: 'k' is 3: expected at most 0"));
  EXPECT_THAT(ErrorOf(kWekaHead + R"({"s":0,"a":0,"t":0,"n":9,"k":0,"b":[[1]]})"),
              HasSubstr("line 3: 'b': expected a list of [first id, count]"));
  EXPECT_THAT(ErrorOf(kWekaHead + R"({"s":0,"a":0,"t":0,"n":9,"k":0,"b":[[1,9999999999]]})"),
              HasSubstr("expected at most 1048576 ids"));
  EXPECT_THAT(ErrorOf(kWekaHead + R"({"s":0,"a":0,"t":9,"n":9,"k":0,"b":[[1,1]]})"
                                  "\n"
                                  R"({"s":0,"a":0,"t":8,"n":9,"k":1,"b":[]})"),
              HasSubstr("line 4: 't' is 8: expected no less"));
  EXPECT_THAT(ErrorOf(kLogHead + R"({"at_ms":5,"tokens":40,"chain":[9],"state":"cat"})"),
              HasSubstr("'state': expected tool, human or none"));
  EXPECT_THAT(ErrorOf("{\"format\":\"spillway-log\",\"version\":2,\"block_tokens\":16}\n"),
              HasSubstr("'version' is 2; this program reads 1"));
  EXPECT_THAT(ErrorOf("{\"what\":1}\n"), HasSubstr("line 1: expected the first line of a trace"));
}

TEST_F(ReadTraceTest, DeepNestingIsOnlyABadLine) {
  EXPECT_THAT(ErrorOf(std::string(500'000, '[')), HasSubstr("line 1: expected a JSON object"));
  EXPECT_THAT(
      ErrorOf(R"({"hash_ids":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}\n"),
      HasSubstr("line 1: "));
}

TEST_F(ReadTraceTest, SkipsBadLinesWhenAskedTo) {
  ReadOptions options;
  options.skip_bad = true;
  std::vector<std::string> skipped;
  options.skipped = [&](const std::string& what) { skipped.push_back(what); };
  const std::string good = R"({"timestamp":1,"input_length":6,"hash_ids":[1]})"
                           "\n";
  const Result<Trace> trace = ReadTrace(Write(good + "nonsense\n" + good + "{}\n"), options);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->bad_lines, 2U);
  ASSERT_EQ(skipped.size(), 2U);
  EXPECT_THAT(skipped[0], HasSubstr("line 2: expected a JSON object"));
  EXPECT_THAT(ErrorOf("nonsense\n", options), HasSubstr("no requests; 1 lines were skipped"));
}

TEST_F(ReadTraceTest, FilesThatAreNoTraces) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("has no requests"));
  EXPECT_THAT(ErrorOf("x", Forced("mooncak")),
              HasSubstr("format 'mooncak' is not known; known: mooncake, weka, lmcache, dynamo, "
                        "log; did you mean 'mooncake'?"));
  EXPECT_THAT(ReadTrace("/no/such/file", {}).error().message,
              HasSubstr("can't open '/no/such/file': No such file"));
  EXPECT_THAT(ReadTrace(dir_, {}).error().message, HasSubstr("is a directory"));
  EXPECT_THAT(ErrorOf(R"({"timestamp":1,"input_length":6,"hash_ids":[1]})", Forced("weka")),
              HasSubstr("expected the header first"));
}

TEST_F(ReadTraceTest, AnArchiveThatWasCutOffIsAnError) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += fmt::format("{{\"timestamp\":{},\"input_length\":6,\"hash_ids\":[{}]}}\n", i, i * 7919);
  }
  const std::string path = WriteGzip(text);
  ASSERT_TRUE(ReadTrace(path, {}));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const Result<Trace> trace = ReadTrace(path, {});
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().message, HasSubstr("can't read"));
}

}  // namespace
}  // namespace spillway
