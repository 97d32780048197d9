// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known name with the fewest edits from what was typed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace spillway {

// Returns the nearest known name; empty if none is near: more than a third of
// the letters differ.
std::string_view Nearest(std::string_view typed, std::span<const std::string_view> known);

// Returns "; did you mean 'ttl'?", or an empty string.
std::string DidYouMean(std::string_view typed, std::span<const std::string_view> known);

}  // namespace spillway
