// How answers are made: good ones, wrong ones, numbers out of a query.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/api.h"
#include "http/api_json.h"
#include "spillway/result.h"

namespace spillway::http {

Answer Wrong(int status, std::string_view why);
Answer Good(const Json& json);

// A number of the query within bounds, or the error.
Result<std::uint64_t> Number(const Target& target, const std::string& name, std::uint64_t otherwise,
                             std::uint64_t most);

// The body as an object, for those who send one as such: a page of others can't.
Result<Json> BodyOf(const Request& request);
// A key out of it: "key" or "hex".
Result<std::string> KeyIn(const Json& body);

}  // namespace spillway::http
