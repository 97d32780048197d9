// SPDX-License-Identifier: Apache-2.0
// The Api's values as JSON.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "http/feed.h"
#include "spillway/cache.h"
#include "spillway/result.h"

namespace spillway::http {

using Json = nlohmann::ordered_json;

// Prints JSON. Bytes that are not UTF-8 are replaced.
std::string Text(const Json& json);

// {"key": ...}. A long or non-text key is shortened and escaped there, and is also given completely
// as "hex".
Json KeyJson(std::string_view key);
// The inverse: a key given as one of the two.
Result<std::string> KeyOf(std::string_view key, std::string_view hex);

// One event of the feed.
Json ItemJson(const Feed::Item& item);

// Adds everything about an entry except its key.
void AddEntryJson(const Cache::EntryInfo& entry, Json* json);

}  // namespace spillway::http
