#include "demo/replayed.h"

#include <poll.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "demo/child.h"

namespace spillway::demo {

namespace {
constexpr int kWithinMs = 10'000;
constexpr int kLookMs = 2;
}  // namespace

Result<Replayed> ReadReplayed(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto number = [&](const char* name) {
    const auto at = json.find(name);
    return at != json.end() && at->is_number();
  };
  if (!json.is_object() || !json.contains("policy") || !json["policy"].is_string() ||
      !number("token_hit_ratio") || !number("input_tokens")) {
    return Error{Code::kUnavailable,
                 fmt::format("spillway replay says '{}'", Printable(line, 120))};
  }
  return Replayed{json["policy"].get<std::string>(), json["token_hit_ratio"].get<double>(),
                  json["input_tokens"].get<Tokens>()};
}

Result<std::vector<Replayed>> ReplayLog(const std::string& program, const std::string& log,
                                        const std::vector<std::string>& policies, Tokens capacity) {
  Result<Child> child = Child::Start({program, "replay", "--trace", log, "--policy",
                                      fmt::format("{}", fmt::join(policies, ",")), "--capacity",
                                      fmt::format("{}-tokens", capacity), "--json"});
  if (!child) return child.error();
  std::vector<std::string> lines;
  const auto hear = [&] { child->Hear([&](std::string_view line) { lines.emplace_back(line); }); };
  for (int waited = 0; waited < kWithinMs && !child->Ended(); waited += kLookMs) {
    hear();
    ::poll(nullptr, 0, kLookMs);
  }
  hear();
  if (!child->Ended()) return Error{Code::kDeadline, "spillway replay takes too long"};
  std::vector<Replayed> all;
  for (const std::string& line : lines) {
    Result<Replayed> one = ReadReplayed(line);
    if (!one) return one.error();
    all.push_back(std::move(*one));
  }
  if (all.size() != policies.size()) {
    return Error{Code::kUnavailable, "spillway replay ended without a word"};
  }
  return all;
}

}  // namespace spillway::demo
