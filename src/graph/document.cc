// SPDX-License-Identifier: Apache-2.0
#include "graph/document.h"

#include <array>
#include <cmath>
#include <ranges>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "graph/step_graph_impl.h"

namespace spillway {
namespace {

using nlohmann::json;

// One object of the document. Fields are read by name; the first error is kept.
class Fields {
 public:
  Fields(const json& object, std::string place, Status* status)
      : object_(object), place_(std::move(place)), status_(status) {}

  bool Open(std::span<const std::string_view> known) {
    if (!object_.is_object()) {
      Wrong("", fmt::format("is {}; it must be an object", object_.type_name()));
      return false;
    }
    for (const auto& [name, value] : object_.items()) {
      if (std::ranges::find(known, name) != known.end()) continue;
      Wrong("", fmt::format("has an unknown field '{}'{}; known: {}", Printable(name),
                            DidYouMean(name, known), fmt::join(known, ", ")));
      return false;
    }
    return true;
  }

  void Text(const char* name, std::string* text, bool required = false) {
    const json* value = Find(name, required);
    if (value == nullptr) return;
    if (!value->is_string()) return Wrong(name, "must be a string");
    *text = value->get<std::string>();
  }
  void Number(const char* name, std::optional<double>* number) {
    const json* value = Find(name, false);
    if (value == nullptr) return;
    if (!value->is_number()) return Wrong(name, "must be a number");
    *number = value->get<double>();
  }
  void Whole(const char* name, std::optional<std::uint32_t>* number) {
    const json* value = Find(name, false);
    if (value == nullptr) return;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > kNoIndex) {
      return Wrong(name, fmt::format("must be a whole number from 0 to {}", kNoIndex));
    }
    *number = value->get<std::uint32_t>();
  }
  template <typename Enum, std::size_t N>
  void Word(const char* name, const std::array<Enum, N>& words, Enum* word) {
    std::string text;
    Text(name, &text);
    if (text.empty()) return;
    std::vector<std::string_view> known;
    for (const Enum each : words) {
      known.push_back(Name(each));
      if (known.back() == text) {
        *word = each;
        return;
      }
    }
    Wrong(name,
          fmt::format("is '{}'; it must be one of {}", Printable(text), fmt::join(known, ", ")));
  }
  // Calls each(Fields of the element) for a list of objects.
  template <typename Each>
  void List(const char* name, Each each) {
    const json* value = Find(name, false);
    if (value == nullptr) return;
    if (!value->is_array()) return Wrong(name, "must be a list");
    for (std::size_t i = 0; i < value->size() && *status_; ++i) {
      each(Fields((*value)[i], fmt::format("{}[{}]", name, i), status_));
    }
  }

 private:
  const json* Find(const char* name, bool required) {
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    if (required) Wrong(name, "is missing");
    return nullptr;
  }
  void Wrong(std::string_view name, std::string_view what) {
    if (!*status_) return;
    const std::string_view dot = place_.empty() || name.empty() ? "" : ".";
    const std::string place = fmt::format("{}{}{}", place_, dot, name);
    *status_ = Bad(fmt::format("{} {}", place.empty() ? "the document" : place, what));
  }

  const json& object_;
  const std::string place_;
  Status* const status_;
};

constexpr std::array<std::string_view, 8> kRunFields = {
    "run", "client", "workflow", "weight", "deadline_ms", "steps", "edges", "bind"};
constexpr std::array<std::string_view, 6> kStepFields = {"id", "agent",  "join",
                                                         "k",  "est_ms", "max_visits"};
constexpr std::array<std::string_view, 5> kEdgeFields = {"from", "to", "kind", "prob", "choice"};
constexpr std::array<std::string_view, 4> kBindFields = {"agent", "key", "kind", "parent"};
constexpr std::array kJoins = {Join::kAll, Join::kAny, Join::kKOf};
constexpr std::array kEdgeKinds = {EdgeKind::kForward, EdgeKind::kBack};
constexpr std::array kKeyKinds = {KeyKind::kFixed, KeyKind::kHistory, KeyKind::kVolatile};

void ReadStep(Fields fields, StepSpec* step) {
  if (!fields.Open(kStepFields)) return;
  fields.Text("id", &step->id, true);
  fields.Text("agent", &step->agent);
  fields.Word("join", kJoins, &step->join);
  std::optional<std::uint32_t> k;
  fields.Whole("k", &k);
  step->k = k.value_or(0);
  fields.Number("est_ms", &step->est_ms);
  fields.Whole("max_visits", &step->max_visits);
}

void ReadEdge(Fields fields, EdgeSpec* edge) {
  if (!fields.Open(kEdgeFields)) return;
  fields.Text("from", &edge->from, true);
  fields.Text("to", &edge->to, true);
  fields.Word("kind", kEdgeKinds, &edge->kind);
  fields.Number("prob", &edge->prob);
  fields.Text("choice", &edge->choice);
}

void ReadBinding(Fields fields, GraphDocument::Binding* binding) {
  if (!fields.Open(kBindFields)) return;
  fields.Text("agent", &binding->agent, true);
  fields.Text("key", &binding->key, true);
  fields.Word("kind", kKeyKinds, &binding->kind);
  fields.Text("parent", &binding->parent);
}

Status ReadDocument(const json& root, GraphDocument* document) {
  Status status;
  Fields fields(root, "", &status);
  if (!fields.Open(kRunFields)) return status;
  fields.Text("run", &document->run, true);
  fields.Text("client", &document->spec.client);
  fields.Text("workflow", &document->spec.workflow);
  std::optional<double> number;
  fields.Number("weight", &number);
  document->spec.weight = number.value_or(1);
  number.reset();
  fields.Number("deadline_ms", &number);
  if (number) {
    if (!(*number > 0 && *number <= 1e11)) {
      return Bad(
          fmt::format("deadline_ms is {}; it must be more than 0 and at most 1e11", *number));
    }
    document->spec.deadline = Duration(std::llround(*number * 1e6));
  }
  fields.List("steps", [&](const Fields& at) { ReadStep(at, &document->steps.emplace_back()); });
  fields.List("edges", [&](const Fields& at) { ReadEdge(at, &document->edges.emplace_back()); });
  fields.List("bind",
              [&](const Fields& at) { ReadBinding(at, &document->bindings.emplace_back()); });
  return status;
}

}  // namespace

Result<GraphDocument> ParseGraphDocument(std::string_view text) {
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 3: why"
    const std::string_view what = e.what();
    const std::size_t begin = what.find("] ");
    return Bad(fmt::format("the document is not JSON: {}",
                           begin == std::string_view::npos ? what : what.substr(begin + 2)));
  }
  GraphDocument document;
  if (Status ok = ReadDocument(root, &document); !ok) return ok.error();
  return document;
}

// Loads all or nothing: after an error everything added so far is removed again.
Status GraphCore::Load(const GraphDocument& document, TimePoint now) {
  std::vector<KeyTable::Memory> before;
  for (const GraphDocument::Binding& each : document.bindings) {
    before.push_back(keys_.Remember(each.key));
    before.push_back(keys_.Remember(each.parent));
  }
  if (Status ok = BeginRun(document.run, document.spec, now); !ok) return ok;
  Status ok = LoadSteps(document, now);
  if (ok) ok = LoadBindings(document, now);
  if (ok) return ok;
  Drop(names_.at(document.run), RunState::kCancelled);
  ended_.pop_front();
  for (const auto& each : std::views::reverse(before)) keys_.Restore(each);
  return ok;
}

namespace {

Status At(std::string_view list, std::size_t i, const Status& wrong) {
  return Error{wrong.error().code, fmt::format("{}[{}]: {}", list, i, wrong.error().message)};
}

}  // namespace

Status GraphCore::LoadSteps(const GraphDocument& document, TimePoint now) {
  for (std::size_t i = 0; i < document.steps.size(); ++i) {
    const Status ok = AddStep(document.run, document.steps[i], now);
    if (!ok) return At("steps", i, ok);
  }
  for (std::size_t i = 0; i < document.edges.size(); ++i) {
    const Status ok = AddEdge(document.run, document.edges[i], now);
    if (!ok) return At("edges", i, ok);
  }
  return {};
}

Status GraphCore::LoadBindings(const GraphDocument& document, TimePoint now) {
  for (std::size_t i = 0; i < document.bindings.size(); ++i) {
    const GraphDocument::Binding& each = document.bindings[i];
    Status ok = Bind(document.run, each.agent, each.key, each.kind, now);
    if (ok && !each.parent.empty()) ok = Link(each.key, each.parent);
    if (!ok) return At("bind", i, ok);
  }
  return {};
}

}  // namespace spillway
