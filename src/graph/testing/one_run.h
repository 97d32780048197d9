// SPDX-License-Identifier: Apache-2.0
// A step graph with one run, for short tests.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "spillway/step_graph.h"

namespace spillway::testing {

inline TimePoint At(double seconds) {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

inline constexpr std::optional<std::uint32_t> kNever = std::nullopt;

class OneRun {
 public:
  explicit OneRun(std::string name = "r", const RunSpec& spec = {}, StepGraph* shared = nullptr)
      : run_(std::move(name)), graph_(shared == nullptr ? &own_ : shared) {
    Ok(graph_->BeginRun(run_, spec, now));
  }

  // "A>B>C D>E": adds steps as they appear, joined by ALL unless added before.
  void Chain(std::string_view text) {
    std::string word;
    std::string before;
    for (const char c : std::string(text) + " ") {
      if (c != '>' && c != ' ') {
        word += c;
        continue;
      }
      AddOnce(word);
      if (!before.empty()) Edge(before, word);
      before = c == '>' ? word : "";
      word.clear();
    }
  }
  void Add(const StepSpec& step) { Ok(graph_->AddStep(run_, step, now)); }
  void AddOnce(const std::string& id) {
    if (!graph_->Step(run_, id, now)) Add({id, id});
  }
  void Edge(const std::string& from, const std::string& to) { Edge(EdgeSpec{from, to}); }
  void Edge(const EdgeSpec& edge) { Ok(graph_->AddEdge(run_, edge, now)); }
  void Back(const std::string& from, const std::string& to) {
    Edge(EdgeSpec{from, to, EdgeKind::kBack});
  }
  void Bind(std::string_view agent, std::string_view key, KeyKind kind = KeyKind::kFixed) {
    Ok(graph_->Bind(run_, agent, key, kind, now));
  }

  void Start(std::string_view step) { Ok(graph_->Start(run_, step, now)); }
  void Finish(std::string_view step) { Ok(graph_->Finish(run_, step, now)); }
  void Finish(std::string_view step, const std::vector<std::string>& taken) {
    Ok(graph_->Finish(run_, step, taken, now));
  }
  void Do(std::string_view step) {
    Start(step);
    Finish(step);
  }
  void Skip(std::string_view step) { Ok(graph_->Skip(run_, step, now)); }
  void Fail(std::string_view step, OnFail on_fail) { Ok(graph_->Fail(run_, step, on_fail, now)); }
  void Loop(std::string_view from, std::string_view to) { Ok(graph_->Loop(run_, from, to, now)); }
  void End(RunState how = RunState::kFinished) { Ok(graph_->EndRun(run_, how, now)); }

  std::optional<std::uint32_t> Steps(std::string_view step) const {
    const auto steps = graph_->steps_to_execution(run_, step, now);
    EXPECT_TRUE(steps) << steps.error().message;
    return *steps;
  }
  StepFacts Of(std::string_view step) const {
    const Result<StepFacts> facts = graph_->Step(run_, step, now);
    EXPECT_TRUE(facts) << facts.error().message;
    return *facts;
  }
  StepState State(std::string_view step) const { return Of(step).state; }
  KeyFacts Key(std::string_view key) const { return graph_->Facts(key, now); }
  std::vector<std::string> Order() const { return graph_->eviction_order(1000, now); }

  StepGraph& graph() { return *graph_; }
  const std::string& run() const { return run_; }

  TimePoint now = At(100);

 private:
  static void Ok(const Status& status) {
    EXPECT_TRUE(status) << (status ? "" : status.error().message);
  }
  const std::string run_;
  StepGraph own_;
  StepGraph* const graph_;
};

}  // namespace spillway::testing
