// SPDX-License-Identifier: Apache-2.0
// Reads fields of a JSON object. Errors say what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "spillway/result.h"

namespace spillway {

using Json = nlohmann::json;

// A whole number from 0 to `most`.
Result<std::uint64_t> NumberIn(const Json& object, const char* field,
                               std::uint64_t most = std::uint64_t{1} << 62);
Result<std::string> TextIn(const Json& object, const char* field);
Result<const Json*> ObjectIn(const Json& object, const char* field);
// A list of whole numbers of at least 0.
Status NumbersIn(const Json& object, const char* field, std::vector<std::uint64_t>* out);
// A list of [first, count], expanded. At most `most` numbers.
Status RangesIn(const Json& object, const char* field, std::size_t most,
                std::vector<std::uint64_t>* out);

}  // namespace spillway
