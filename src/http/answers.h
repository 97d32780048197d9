// SPDX-License-Identifier: Apache-2.0
// Helpers that make answers and read arguments of requests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/api.h"
#include "http/api_json.h"
#include "spillway/result.h"

namespace spillway::http {

// An error answer: {"error": why}.
Answer Wrong(int status, std::string_view why);
// A 200 answer with this JSON.
Answer Good(const Json& json);

// A number in the query, or `otherwise` if it is absent. An error if it is not from 0 to `most`.
Result<std::uint64_t> Number(const Target& target, const std::string& name, std::uint64_t otherwise,
                             std::uint64_t most);

// The body as a JSON object. Requires the content type application/json: a browser does not let
// another site's page send that.
Result<Json> BodyOf(const Request& request);
// The key in a body: from "key" or "hex".
Result<std::string> KeyIn(const Json& body);

}  // namespace spillway::http
