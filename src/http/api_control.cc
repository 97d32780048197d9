// SPDX-License-Identifier: Apache-2.0
// The commands: free memory, prefetch contexts, erase a context.
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "http/answers.h"

namespace spillway::http {

namespace {

constexpr std::size_t kKeysMax = 1000;
constexpr Duration kWithinMax = std::chrono::seconds(10);

template <typename Parse>
auto SizeOf(const Json& json, const char* name, Parse parse)
    -> std::optional<decltype(parse(std::string_view()))> {
  const auto at = json.find(name);
  if (at == json.end()) return std::nullopt;
  return parse(at->is_string() ? at->get<std::string>() : at->dump());
}

}  // namespace

Answer Api::Reclaim(const Request& request, const Target&) const {
  const Result<Json> body = BodyOf(request);
  if (!body) return Wrong(400, body.error().message);
  const auto bytes = SizeOf(*body, "bytes", [](std::string_view text) { return ParseBytes(text); });
  if (!bytes) return Wrong(400, "bytes: missing; an example is \"4GiB\"");
  if (!*bytes) return Wrong(400, "bytes: " + bytes->error().message);
  const auto within =
      SizeOf(*body, "within", [](std::string_view text) { return ParseDuration(text); });
  if (within && !*within) return Wrong(400, "within: " + within->error().message);
  const Duration wait = within ? **within : std::chrono::seconds(5);
  if (wait <= Duration::zero() || wait > kWithinMax) {
    return Wrong(400, "within: it must be more than 0 and at most 10s");
  }
  return {.later = [cache = settings_.cache, bytes = **bytes, wait] {
    const Reclaimed got = cache->Reclaim(bytes, wait);
    return Good({{"freed", got.freed}, {"why_not_more", got.why_not_more}});
  }};
}

Answer Api::Prefetch(const Request& request, const Target&) const {
  const Result<Json> body = BodyOf(request);
  if (!body) return Wrong(400, body.error().message);
  std::vector<std::string> keys;
  for (const char* name : {"keys", "hex"}) {
    const auto list = body->find(name);
    if (list == body->end()) continue;
    if (!list->is_array() || list->size() > kKeysMax) {
      return Wrong(400, fmt::format("{}: it must be a list of at most {} keys", name, kKeysMax));
    }
    for (const Json& each : *list) {
      if (!each.is_string()) return Wrong(400, fmt::format("{}: each must be a string", name));
      const auto word = each.get<std::string>();
      Result<std::string> key = name[0] == 'k' ? KeyOf(word, {}) : KeyOf({}, word);
      if (!key) return Wrong(400, key.error().message);
      keys.push_back(std::move(*key));
    }
  }
  if (keys.empty()) return Wrong(400, "keys or hex: a list of keys is required");
  return {.later = [cache = settings_.cache, keys = std::move(keys)] {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    return Good({{"coming", cache->Prefetch(views.data(), views.size())}});
  }};
}

Answer Api::Drop(const Request& request, const Target&) const {
  const Result<Json> body = BodyOf(request);
  if (!body) return Wrong(400, body.error().message);
  Result<std::string> key = KeyIn(*body);
  if (!key) return Wrong(400, key.error().message);
  return {.later = [cache = settings_.cache, key = std::move(*key)] {
    return Good({{"dropped", cache->Erase(key)}});
  }};
}

}  // namespace spillway::http
