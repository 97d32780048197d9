// What the Api says, as JSON.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "http/feed.h"
#include "spillway/cache.h"
#include "spillway/result.h"

namespace spillway::http {

using Json = nlohmann::ordered_json;

// Bytes that are no text are replaced.
std::string Text(const Json& json);

// {"key": ...}; a key that is long or no plain text is shown shortened and escaped,
// and stands whole beside it as "hex".
Json KeyJson(std::string_view key);
// The other way: one of the two.
Result<std::string> KeyOf(std::string_view key, std::string_view hex);

Json ItemJson(const Feed::Item& item);

// What there is to say of an entry beside its key.
void AddEntryJson(const Cache::EntryInfo& entry, Json* json);

}  // namespace spillway::http
