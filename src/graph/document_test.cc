// SPDX-License-Identifier: Apache-2.0
#include "graph/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/one_run.h"

namespace spillway {
namespace {

using testing::At;
using ::testing::HasSubstr;

constexpr std::string_view kDocument = R"({
  "run": "r", "client": "c", "workflow": "w", "weight": 2, "deadline_ms": 60000,
  "steps": [{"id": "plan", "agent": "planner", "est_ms": 1500, "max_visits": 3},
            {"id": "code"}, {"id": "check", "join": "k", "k": 1}],
  "edges": [{"from": "plan", "to": "code"}, {"from": "code", "to": "check", "prob": 0.5},
            {"from": "check", "to": "plan", "kind": "back", "choice": "again"}],
  "bind": [{"agent": "code", "key": "k", "kind": "history", "parent": "root"}]
})";

TEST(GraphDocument, LoadsAWholeRun) {
  StepGraph graph;
  const Result<std::string> run = graph.Load(kDocument, At(0));
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(*run, "r");
  const auto steps = *graph.Steps("r", At(0));
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].agent, "planner");
  EXPECT_EQ(steps[1].agent, "code");
  EXPECT_EQ(steps[1].steps, 1U);
  EXPECT_DOUBLE_EQ(steps[1].eta_ms, 1500);
  EXPECT_DOUBLE_EQ(steps[2].p, 0.5);
  EXPECT_EQ(graph.Facts("root", At(0)).steps, 1U);
  EXPECT_DOUBLE_EQ(graph.Facts("root", At(0)).weight, 2);
  EXPECT_EQ(graph.stats().edges, 3U);
  EXPECT_EQ(graph.Expire(At(61)).size(), 1U);
}

struct Wrong {
  const char* json;
  const char* says;
};

class GraphDocumentWrong : public ::testing::TestWithParam<Wrong> {};

TEST_P(GraphDocumentWrong, IsRefusedByPlaceAndLeavesNothing) {
  StepGraph graph;
  ASSERT_TRUE(graph.Advise("known", std::chrono::seconds(5), 1, At(0)));
  ASSERT_TRUE(graph.Link("known", "above"));
  const Result<std::string> run = graph.Load(GetParam().json, At(0));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, HasSubstr(GetParam().says));
  EXPECT_EQ(graph.stats().runs, 0U);
  EXPECT_EQ(graph.stats().steps, 0U);
  EXPECT_EQ(graph.stats().edges, 0U);
  EXPECT_EQ(graph.stats().keys, 2U);
  EXPECT_FALSE(graph.Facts("known", At(0)).retired);
  EXPECT_TRUE(graph.Facts("above", At(0)).known);
  EXPECT_FALSE(graph.run_state("r"));
}

INSTANTIATE_TEST_SUITE_P(
    All, GraphDocumentWrong,
    ::testing::Values(
        Wrong{"", "not JSON"}, Wrong{R"({"run":"r",})", "line 1, column 12"},
        Wrong{"[]", "the document is array; it must be an object"}, Wrong{"{}", "run is missing"},
        Wrong{R"({"run":7})", "run must be a string"},
        Wrong{R"({"run":"r","stps":[]})", "unknown field 'stps'; did you mean 'steps'?"},
        Wrong{R"({"run":"r","weight":"x"})", "weight must be a number"},
        Wrong{R"({"run":"r","deadline_ms":-1})", "deadline_ms is -1"},
        Wrong{R"({"run":"r","steps":{}})", "steps must be a list"},
        Wrong{R"({"run":"r","steps":[{"id":"a"},{}]})", "steps[1].id is missing"},
        Wrong{R"({"run":"r","steps":[{"id":"a"},{"id":"a"}]})", "steps[1]: step 'a' is in run"},
        Wrong{R"({"run":"r","steps":[{"id":"a","join":"some"}]})",
              "steps[0].join is 'some'; it must be one of all, any, k"},
        Wrong{R"({"run":"r","steps":[{"id":"a","k":-1}]})", "steps[0].k must be a whole number"},
        Wrong{R"({"run":"r","steps":[{"id":"a"}],"edges":[{"from":"a","to":"b"}]})",
              "edges[0]: no step 'b'"},
        Wrong{R"({"run":"r","steps":[{"id":"a"},{"id":"b"}],
                  "edges":[{"from":"a","to":"b","prob":2}]})",
              "edges[0]: edge 'a' to 'b': prob is 2"},
        Wrong{R"({"run":"r","bind":[{"agent":"a","key":"x"},{"agent":"a","key":"known",
                  "parent":"x"},{"agent":"a","key":""}]})",
              "bind[2]: a key has 0 bytes"},
        Wrong{R"({"run":"r","bind":[{"agent":"a","key":"above","parent":"known"}]})",
              "bind[0]: key 'above' can't continue 'known'"}));

}  // namespace
}  // namespace spillway
