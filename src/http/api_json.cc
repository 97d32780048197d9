// SPDX-License-Identifier: Apache-2.0
#include "http/api_json.h"

#include <chrono>

#include "base/printable.h"

namespace spillway::http {

namespace {

constexpr std::size_t kPlainMax = 256;

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
    return Error{Code::kInvalidArgument, "one of key and hex is required"};
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
    return Error{Code::kInvalidArgument, "hex: it must be pairs of the digits 0-9 and a-f"};
  }
  return bytes;
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

void AddEntryJson(const Cache::EntryInfo& entry, Json* json) {
  (*json)["agent"] = Printable(entry.agent);
  (*json)["tokens"] = entry.tokens;
  (*json)["bytes"] = entry.bytes;
  (*json)["tier"] = entry.tier;
  (*json)["backed"] = entry.clean;
  (*json)["idle_s"] = std::chrono::duration<double>(entry.idle).count();
  (*json)["uses"] = entry.access_count;
  (*json)["leases"] = entry.leases;
}

}  // namespace spillway::http
