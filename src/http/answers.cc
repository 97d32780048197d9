// SPDX-License-Identifier: Apache-2.0
#include "http/answers.h"

#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway::http {

Answer Wrong(int status, std::string_view why) {
  return {.status = status, .body = Text(Json{{"error", std::string(why)}})};
}

Answer Good(const Json& json) { return {.body = Text(json)}; }

Result<std::uint64_t> Number(const Target& target, const std::string& name, std::uint64_t otherwise,
                             std::uint64_t most) {
  const std::string_view text = target.Get(name);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: '{}' is not a number from 0 to {}", name, Printable(text), most)};
  }
  return value;
}

Result<Json> BodyOf(const Request& request) {
  if (!request.content_type.starts_with("application/json")) {
    return Error{Code::kInvalidArgument, "the body must be sent as application/json"};
  }
  Json json = Json::parse(request.body, nullptr, false);
  if (!json.is_object()) return Error{Code::kInvalidArgument, "the body must be a JSON object"};
  return json;
}

Result<std::string> KeyIn(const Json& body) {
  const auto word = [&](const char* name) {
    const auto at = body.find(name);
    return at != body.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  return KeyOf(word("key"), word("hex"));
}

}  // namespace spillway::http
