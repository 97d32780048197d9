// SPDX-License-Identifier: Apache-2.0
#include "replay/scenario_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "replay/seconds.h"

namespace spillway {
namespace {

// --- parsing text into fields ---

enum class Kind : std::uint8_t { kNull, kBoolean, kWhole, kNumber, kString, kList, kObject };

std::string_view Describe(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return "true or false";
    case Kind::kWhole:
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "";
}

struct Field {
  std::string name;
  Kind kind = Kind::kNull;
  std::string text;  // The value of a string; a number as written.
  double number = 0;
};

// Keeps numbers as written, which a parsed document would not. Nested lists and objects are
// skipped; only their kind is kept.
class FieldReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Value(Kind::kNull, {}, 0); }
  bool boolean(bool) override { return Value(Kind::kBoolean, {}, 0); }
  bool number_integer(number_integer_t value) override {
    return Value(Kind::kWhole, fmt::to_string(value), static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Value(Kind::kWhole, fmt::to_string(value), static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return Value(Kind::kNumber, text, value);
  }
  bool string(string_t& value) override { return Value(Kind::kString, std::move(value), 0); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    if (depth_++ == 0) return true;
    return depth_ > 2 || Value(Kind::kObject, {}, 0);
  }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override {
    if (depth_++ == 0) return NotAnObject();
    return depth_ > 2 || Value(Kind::kList, {}, 0);
  }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    if (std::ranges::find(fields, name, &Field::name) != fields.end()) {
      wrong = fmt::format("the field '{}' appears twice", Printable(name));
      return false;
    }
    fields.push_back({std::move(name), Kind::kNull, {}, 0});
    return true;
  }

  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::json::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 3: why"
    const std::string_view what = e.what();
    std::size_t begin = what.find(": ");
    begin = begin != std::string_view::npos ? begin + 2 : what.find("] ") + 2;
    wrong = fmt::format("not a JSON object, at byte {}: {}", at, what.substr(begin));
    return false;
  }

  std::vector<Field> fields;
  std::string wrong;

 private:
  bool Value(Kind kind, std::string text, double number) {
    if (depth_ == 0) return NotAnObject();
    const bool opens = kind == Kind::kList || kind == Kind::kObject;
    if (depth_ > (opens ? 2 : 1)) return true;  // Inside a nested list or object.
    Field& field = fields.back();
    field.kind = kind;
    field.text = std::move(text);
    field.number = number;
    return true;
  }
  bool NotAnObject() {
    wrong = R"(a line must be a JSON object, as in {"at":0,"op":"tick"})";
    return false;
  }
  bool Close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

// --- converting fields into a line ---

struct Shape {
  std::string_view name;
  ScenarioLine::Op op;
  std::array<std::string_view, 2> required;  // In addition to `op`.
  std::array<std::string_view, 3> optional;  // In addition to `at`.
};

using Op = ScenarioLine::Op;
constexpr std::array kShapes = {
    Shape{"set", Op::kSet, {"key", "tokens"}, {"bytes", "agent", "parent"}},
    Shape{"get", Op::kGet, {"key"}, {}},
    Shape{"delete", Op::kDelete, {"key"}, {}},
    Shape{"clear", Op::kClear, {}, {}},
    Shape{"pressure", Op::kPressure, {"value"}, {}},
    Shape{"tick", Op::kTick, {}, {}},
    Shape{"order", Op::kOrder, {}, {}},
    Shape{"graph", Op::kGraph, {}, {}},  // graph_line.cc checks its fields.
    Shape{"steps", Op::kSteps, {"run"}, {}},
};

Error WrongKind(const Field& field, std::string_view right) {
  return Bad(fmt::format("{} is {}; it must be {}", field.name, Describe(field.kind), right));
}

Result<const Shape*> ShapeOf(const std::vector<Field>& fields) {
  const auto op = std::ranges::find(fields, "op", &Field::name);
  if (op == fields.end()) return Bad("the field 'op' is missing");
  if (op->kind != Kind::kString) return WrongKind(*op, "a string");
  std::vector<std::string_view> known;
  for (const Shape& shape : kShapes) {
    if (shape.name == op->text) return &shape;
    known.push_back(shape.name);
  }
  return Bad(fmt::format("unknown op '{}'{}; known: {}", Printable(op->text),
                         DidYouMean(op->text, known), fmt::join(known, ", ")));
}

Status CheckNames(const Shape& shape, const std::vector<Field>& fields) {
  std::vector<std::string_view> known = {"at", "op"};
  for (const std::string_view name : shape.required) {
    if (name.empty()) continue;
    known.push_back(name);
    if (std::ranges::find(fields, name, &Field::name) == fields.end()) {
      return Bad(fmt::format("the field '{}' is missing; {} needs it", name, shape.name));
    }
  }
  for (const std::string_view name : shape.optional) {
    if (!name.empty()) known.push_back(name);
  }
  for (const Field& field : fields) {
    if (std::ranges::find(known, field.name) == known.end()) {
      return Bad(fmt::format("unknown field '{}'{}; {} takes {}", Printable(field.name),
                             DidYouMean(field.name, known), shape.name, fmt::join(known, ", ")));
    }
  }
  return {};
}

Status ReadTime(const Field& field, std::optional<Duration>* at) {
  if (field.kind != Kind::kWhole && field.kind != Kind::kNumber) {
    return WrongKind(field, "a number of seconds");
  }
  *at = ParseSeconds(field.text);
  if (!*at) {
    return Bad(fmt::format("at is {}; it must be from 0 to {} seconds", field.text,
                           Duration::max() / std::chrono::seconds(1)));
  }
  return {};
}

Status ReadName(const Field& field, Bytes least, Bytes most, std::string* name) {
  if (field.kind != Kind::kString) return WrongKind(field, "a string");
  if (field.text.size() < least || field.text.size() > most) {
    return Bad(fmt::format("{} has {} bytes; it must have {} to {}", field.name, field.text.size(),
                           least, most));
  }
  *name = field.text;
  return {};
}

Result<std::uint64_t> ReadCount(const Field& field, std::uint64_t most) {
  const std::string right = fmt::format("a whole number from 0 to {}", most);
  if (field.kind != Kind::kWhole && field.kind != Kind::kNumber) return WrongKind(field, right);
  std::uint64_t count = 0;
  const char* end = field.text.data() + field.text.size();
  const auto [stop, error] = std::from_chars(field.text.data(), end, count);
  if (error != std::errc() || stop != end || count > most) {
    return Bad(fmt::format("{} is {}; it must be {}", field.name, field.text, right));
  }
  return count;
}

Status ReadPressure(const Field& field, std::optional<double>* pressure) {
  if (field.kind == Kind::kNull) return {};
  if (field.kind != Kind::kWhole && field.kind != Kind::kNumber) {
    return WrongKind(field, "a number from 0 to 1, or null");
  }
  if (!(field.number >= 0 && field.number <= 1)) {
    return Bad(fmt::format("value is {}; pressure must be from 0 to 1, or null", field.text));
  }
  *pressure = field.number + 0.0;  // -0 is 0.
  return {};
}

Status ReadField(const Field& field, ScenarioLine* line) {
  if (field.name == "at") return ReadTime(field, &line->at);
  if (field.name == "run") return ReadName(field, 1, kAgentBytesMax, &line->run);
  if (field.name == "key") return ReadName(field, 1, kKeyBytesMax, &line->key);
  if (field.name == "agent") return ReadName(field, 0, kAgentBytesMax, &line->agent);
  if (field.name == "parent") return ReadName(field, 1, kKeyBytesMax, &line->parent);
  if (field.name == "value") return ReadPressure(field, &line->pressure);
  if (field.name == "tokens") {
    const Result<std::uint64_t> tokens = ReadCount(field, kTokensMax);
    if (!tokens) return tokens.error();
    line->tokens = static_cast<Tokens>(*tokens);
  }
  if (field.name == "bytes") {
    const Result<std::uint64_t> bytes = ReadCount(field, std::numeric_limits<std::int64_t>::max());
    if (!bytes) return bytes.error();
    line->bytes = *bytes;
  }
  return {};
}

}  // namespace

Result<ScenarioLine> ParseScenarioLine(std::string_view text) {
  FieldReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return Bad(reader.wrong);
  const Result<const Shape*> shape = ShapeOf(reader.fields);
  if (!shape) return shape.error();
  ScenarioLine line;
  line.name = (*shape)->name;
  line.op = (*shape)->op;
  if (line.op == Op::kGraph) {
    Result<GraphLine> graph = ParseGraphLine(text);
    if (!graph) return graph.error();
    line.graph = std::move(*graph);
    const auto at = std::ranges::find(reader.fields, "at", &Field::name);
    if (at == reader.fields.end()) return line;
    if (Status ok = ReadTime(*at, &line.at); !ok) return ok.error();
    return line;
  }
  if (Status ok = CheckNames(**shape, reader.fields); !ok) return ok.error();
  for (const Field& field : reader.fields) {
    if (Status ok = ReadField(field, &line); !ok) return ok.error();
  }
  return line;
}

}  // namespace spillway
