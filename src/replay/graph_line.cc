// SPDX-License-Identifier: Apache-2.0
#include "replay/graph_line.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace spillway {
namespace {

using nlohmann::json;

struct Shape {
  std::string_view what;
  std::array<std::string_view, 2> required;  // In addition to `op`, `do` and `run`.
  std::array<std::string_view, 4> optional;  // In addition to `at`.
};
constexpr std::array kShapes = {
    Shape{"begin", {}, {"client"}},
    Shape{"step", {"id"}, {"agent", "join", "k", "est_ms"}},
    Shape{"edge", {"from", "to"}, {"kind", "prob", "choice"}},
    Shape{"bind", {"agent", "key"}, {"kind"}},
    Shape{"start", {"id"}, {}},
    Shape{"finish", {"id"}, {"taken"}},
    Shape{"skip", {"id"}, {}},
    Shape{"fail", {"id"}, {"on_fail"}},
    Shape{"loop", {"from", "to"}, {}},
    Shape{"end", {}, {}},
};

// Reads fields by name; the first error is kept.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {}

  void Text(const char* name, std::string* text) {
    const json* const value = Find(name);
    if (value == nullptr) return;
    value->is_string() ? void(*text = value->get<std::string>()) : Wrong(name, "a string");
  }
  void Number(const char* name, std::optional<double>* number) {
    const json* const value = Find(name);
    if (value == nullptr) return;
    value->is_number() ? void(*number = value->get<double>()) : Wrong(name, "a number");
  }
  void Whole(const char* name, std::uint32_t* number) {
    const json* const value = Find(name);
    if (value == nullptr) return;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > 0xffffffffU) {
      return Wrong(name, "a whole number from 0 to 4294967295");
    }
    *number = value->get<std::uint32_t>();
  }
  void Texts(const char* name, std::optional<std::vector<std::string>>* texts) {
    const json* const value = Find(name);
    if (value == nullptr) return;
    const auto is_text = [](const json& each) { return each.is_string(); };
    if (!value->is_array() || !std::ranges::all_of(*value, is_text)) {
      return Wrong(name, "a list of strings");
    }
    *texts = value->get<std::vector<std::string>>();
  }
  template <typename Enum, std::size_t N>
  void Word(const char* name, const std::array<Enum, N>& words, Enum* word) {
    std::string text;
    Text(name, &text);
    if (Find(name) == nullptr) return;
    std::vector<std::string_view> known;
    for (const Enum each : words) {
      known.push_back(Name(each));
      if (known.back() == text) return void(*word = each);
    }
    Wrong(name, fmt::format("one of {}", fmt::join(known, ", ")));
  }
  const Status& status() const { return status_; }

 private:
  const json* Find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void Wrong(const char* name, std::string_view right) {
    if (status_) {
      status_ =
          Bad(fmt::format("{} is {}; it must be {}", name, Printable(Find(name)->dump()), right));
    }
  }

  const json& object_;
  Status status_;
};

Status CheckNames(const json& object, const Shape& shape) {
  std::vector<std::string_view> known = {"at", "op", "do", "run"};
  std::vector<std::string_view> required = {"run"};
  for (const std::string_view name : shape.required) {
    if (!name.empty()) required.push_back(name);
  }
  known.insert(known.end(), required.begin() + 1, required.end());
  for (const std::string_view name : shape.optional) {
    if (!name.empty()) known.push_back(name);
  }
  for (const std::string_view name : required) {
    if (!object.contains(name)) {
      return Bad(fmt::format("the field '{}' is missing; graph {} needs it", name, shape.what));
    }
  }
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, name) == known.end()) {
      return Bad(fmt::format("unknown field '{}'{}; graph {} takes {}", Printable(name),
                             DidYouMean(name, known), shape.what, fmt::join(known, ", ")));
    }
  }
  return {};
}

}  // namespace

Result<GraphLine> ParseGraphLine(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return Bad("a line must be a JSON object");
  GraphLine line;
  const auto what = object.find("do");
  if (what == object.end()) return Bad("the field 'do' is missing; graph needs it");
  if (what->is_string()) line.what = what->get<std::string>();
  const auto shape = std::ranges::find(kShapes, line.what, &Shape::what);
  if (shape == kShapes.end()) {
    std::vector<std::string_view> known;
    for (const Shape& each : kShapes) known.push_back(each.what);
    return Bad(fmt::format("graph can't do {}{}; known: {}", Printable(what->dump()),
                           DidYouMean(line.what, known), fmt::join(known, ", ")));
  }
  if (Status ok = CheckNames(object, *shape); !ok) return ok.error();
  Reader reader(object);
  reader.Text("run", &line.run);
  reader.Text("client", &line.client);
  reader.Text("id", &line.id);
  reader.Text("agent", &line.agent);
  reader.Text("key", &line.key);
  reader.Texts("taken", &line.taken);
  reader.Word("on_fail", std::array{OnFail::kSkip, OnFail::kPoison, OnFail::kRetry}, &line.on_fail);
  if (line.what == "step") {
    line.step.id = line.id;
    line.step.agent = line.agent;
    reader.Word("join", std::array{Join::kAll, Join::kAny, Join::kKOf}, &line.step.join);
    reader.Whole("k", &line.step.k);
    reader.Number("est_ms", &line.step.est_ms);
  }
  reader.Text("from", &line.edge.from);
  reader.Text("to", &line.edge.to);
  if (line.what == "edge") {
    reader.Word("kind", std::array{EdgeKind::kForward, EdgeKind::kBack}, &line.edge.kind);
    reader.Number("prob", &line.edge.prob);
    reader.Text("choice", &line.edge.choice);
  }
  if (line.what == "bind") {
    reader.Word("kind", std::array{KeyKind::kFixed, KeyKind::kHistory, KeyKind::kVolatile},
                &line.kind);
  }
  if (!reader.status()) return reader.status().error();
  return line;
}

Status Tell(StepGraph* graph, const GraphLine& line, TimePoint now) {
  if (line.what == "begin") {
    RunSpec spec;
    spec.client = line.client;
    return graph->BeginRun(line.run, spec, now);
  }
  if (line.what == "step") return graph->AddStep(line.run, line.step, now);
  if (line.what == "edge") return graph->AddEdge(line.run, line.edge, now);
  if (line.what == "bind") return graph->Bind(line.run, line.agent, line.key, line.kind, now);
  if (line.what == "start") return graph->Start(line.run, line.id, now);
  if (line.what == "finish") return graph->Finish(line.run, line.id, line.taken, now);
  if (line.what == "skip") return graph->Skip(line.run, line.id, now);
  if (line.what == "fail") return graph->Fail(line.run, line.id, line.on_fail, now);
  if (line.what == "loop") return graph->Loop(line.run, line.edge.from, line.edge.to, now);
  return graph->EndRun(line.run, RunState::kFinished, now);
}

}  // namespace spillway
