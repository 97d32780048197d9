// SPDX-License-Identifier: Apache-2.0
// Sixteen databases in one cache. A key of database 0 is the cache's key, so that the C API, Python
// and HTTP find it by the same name. A key of another database, or one that begins with the mark,
// gets a prefix of two bytes: the mark and the database's number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/units.h"

namespace spillway::server {

inline constexpr int kDatabases = 16;
inline constexpr char kDbMark = '\xff';
inline constexpr std::size_t kDbKeyMax = kKeyBytesMax - 2;

// The cache's key. `buffer` holds it if it has a prefix.
inline std::string_view CacheKey(int db, std::string_view key, std::string* buffer) {
  if (db == 0 && !key.empty() && key[0] != kDbMark) return key;
  buffer->assign(1, kDbMark);
  *buffer += static_cast<char>(db);
  *buffer += key;
  return *buffer;
}

struct DbKey {
  int db = 0;
  std::string_view key;
};
inline DbKey DbKeyOf(std::string_view cache_key) {
  if (cache_key.size() < 2 || cache_key[0] != kDbMark) return {0, cache_key};
  const int db = static_cast<unsigned char>(cache_key[1]);
  return {db < kDatabases ? db : 0, cache_key.substr(2)};
}

// A database is a group of the cache's keys, for Options::key_group.
static_assert(kDatabases == kKeyGroups);
inline std::uint8_t GroupOfKey(std::string_view cache_key) {
  return static_cast<std::uint8_t>(DbKeyOf(cache_key).db);
}

}  // namespace spillway::server
