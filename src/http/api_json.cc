#include "http/api_json.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cache/stats_json.h"

namespace spillway::http {

namespace {

constexpr std::size_t kPlainMax = 256;
constexpr std::size_t kHexInPage = std::size_t{4} << 20U;  // Of all keys of an answer.

bool IsPlain(std::string_view key) {
  return key.size() <= kPlainMax && Printable(key, kPlainMax) == key;
}

std::string HexOf(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

int Nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// An entry, kept while a page is made.
struct Row {
  std::string key;
  std::string agent;
  Tokens tokens;
  Bytes bytes;
  std::uint64_t uses;
  Duration idle;
  std::uint64_t leases;
  std::string_view tier;
  bool backed;
};

using Less = bool (*)(const Row&, const Row&);
struct Sort {
  std::string_view name;
  Less less;
};
template <auto Field>
bool By(const Row& a, const Row& b) {
  return a.*Field != b.*Field ? a.*Field < b.*Field : a.key < b.key;
}
constexpr std::array<Sort, 8> kSorts = {{{"key", &By<&Row::key>},
                                         {"agent", &By<&Row::agent>},
                                         {"tokens", &By<&Row::tokens>},
                                         {"bytes", &By<&Row::bytes>},
                                         {"idle", &By<&Row::idle>},
                                         {"uses", &By<&Row::uses>},
                                         {"leases", &By<&Row::leases>},
                                         {"tier", &By<&Row::tier>}}};

std::vector<Row> RowsOf(const Cache& cache, std::string_view search) {
  std::vector<Row> rows;
  cache.ForEach([&](const Cache::EntryInfo& entry) {
    if (!search.empty() && entry.key.find(search) == std::string_view::npos &&
        entry.agent.find(search) == std::string_view::npos) {
      return;
    }
    rows.push_back({std::string(entry.key), std::string(entry.agent), entry.tokens, entry.bytes,
                    entry.access_count, entry.idle, entry.leases, entry.tier, entry.backed});
  });
  return rows;
}

}  // namespace

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json KeyJson(std::string_view key) {
  if (IsPlain(key)) return {{"key", std::string(key)}};
  return {{"key", Printable(key)}, {"hex", HexOf(key)}};
}

Result<std::string> KeyOf(std::string_view key, std::string_view hex) {
  if (key.empty() == hex.empty()) {
    return Error{Code::kInvalidArgument, "one of key and hex is needed"};
  }
  if (hex.empty()) return std::string(key);
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = Nibble(hex[i]);
    const int low = Nibble(hex[i + 1]);
    if (high < 0 || low < 0) break;
    bytes += static_cast<char>(high * 16 + low);
  }
  if (2 * bytes.size() != hex.size()) {
    return Error{Code::kInvalidArgument, "hex: pairs of the digits 0-9 and a-f are needed"};
  }
  return bytes;
}

Json StateJson(const Cache& cache) {
  Json json = Json::parse(StatsJson(cache.stats()));
  json["mode"] = std::string(Name(cache.mode()));
  json["blocked"] = cache.is_blocked();
  return json;
}

Json ItemJson(const Feed::Item& item) {
  Json json = {{"number", item.number}, {"unix_ms", item.unix_ms}, {"tier", item.tier}};
  if (item.is_level) {
    json["from"] = std::string(Name(item.from));
    json["level"] = std::string(Name(item.level));
    json["pressure"] = item.pressure;
    return json;
  }
  json["key"] = Printable(item.key);
  if (item.key_bytes > item.key.size()) json["key_bytes"] = item.key_bytes;
  json["action"] = std::string(Name(item.action));
  json["reason"] = std::string(Name(item.reason));
  json["level"] = std::string(Name(item.level));
  if (!item.order.empty()) json["order"] = item.order;
  json["bytes"] = item.bytes;
  json["tokens"] = item.tokens;
  return json;
}

Result<Json> ContextsJson(const Cache& cache, std::string_view search, std::string_view sort,
                          bool desc, std::size_t offset, std::size_t limit) {
  const auto found = std::ranges::find(kSorts, sort, &Sort::name);
  if (found == kSorts.end()) {
    std::string names;
    for (const Sort& each : kSorts) names += (names.empty() ? "" : ", ") + std::string(each.name);
    return Error{Code::kInvalidArgument,
                 fmt::format("sort: '{}' is not known; known: {}", Printable(sort), names)};
  }
  std::vector<Row> rows = RowsOf(cache, search);
  const std::size_t from = std::min(offset, rows.size());
  const std::size_t to = std::min(from + limit, rows.size());
  const auto before = [&](const Row& a, const Row& b) {
    return desc ? found->less(b, a) : found->less(a, b);
  };
  const auto at = [&](std::size_t i) { return rows.begin() + static_cast<std::ptrdiff_t>(i); };
  if (from > 0) std::nth_element(rows.begin(), at(from), rows.end(), before);
  std::partial_sort(at(from), at(to), rows.end(), before);
  Json page = Json::array();
  std::size_t hex_left = kHexInPage;
  for (std::size_t i = from; i < to; ++i) {
    const Row& row = rows[i];
    Json json = KeyJson(row.key);
    if (json.contains("hex")) {
      const std::size_t bytes = 2 * row.key.size();
      if (bytes > hex_left) json.erase("hex");
      hex_left -= std::min(hex_left, bytes);
    }
    json["agent"] = Printable(row.agent);
    json["tokens"] = row.tokens;
    json["bytes"] = row.bytes;
    json["tier"] = row.tier;
    json["backed"] = row.backed;
    json["idle_s"] = std::chrono::duration<double>(row.idle).count();
    json["uses"] = row.uses;
    json["leases"] = row.leases;
    page.push_back(std::move(json));
  }
  return Json{{"total", cache.size()}, {"matching", rows.size()}, {"contexts", page}};
}

}  // namespace spillway::http
