// Sixteen databases in one cache: a key of database 0 stands in the cache as it
// is, so that everybody else finds it there; one of another database, or one that
// would be taken for such, carries a prefix of two bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/units.h"

namespace spillway::server {

inline constexpr int kDatabases = 16;
inline constexpr char kDbMark = '\xff';
inline constexpr std::size_t kDbKeyMax = kKeyBytesMax - 2;

// The key as the cache knows it. `buffer` holds it where it has to be made.
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

}  // namespace spillway::server
