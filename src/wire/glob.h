// Patterns over keys, as KEYS and SCAN use them: ? * [a-z] [^a-z] \x. Never
// recurses, and takes at most pattern x text steps: a pattern can't be a bomb.
#pragma once

#include <string_view>

namespace spillway::wire {

bool GlobMatches(std::string_view pattern, std::string_view text);
// With letters of either case taken for the same.
bool GlobMatchesAnyCase(std::string_view pattern, std::string_view text);

}  // namespace spillway::wire
