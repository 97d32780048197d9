// "Did you mean": the known name that is fewest edits away from what was typed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace spillway {

// Empty when nothing known is near: more than a third of the letters differ.
std::string_view Nearest(std::string_view typed, std::span<const std::string_view> known);

// "; did you mean 'ttl'?", or nothing.
std::string DidYouMean(std::string_view typed, std::span<const std::string_view> known);

}  // namespace spillway
