// SPDX-License-Identifier: Apache-2.0
// A hint for a line that TOML cannot parse: a size or duration without quotes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

// "; write it in quotes: capacity = \"24GiB\"" if the line, counted from 1, is a name and a number
// with a unit. Empty otherwise.
std::string QuotesHint(std::string_view toml_text, std::uint32_t line);

}  // namespace spillway
