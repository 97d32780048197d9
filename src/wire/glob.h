// SPDX-License-Identifier: Apache-2.0
// Glob patterns over keys, as in KEYS and SCAN: ? * [a-z] [^a-z] \x. Never recurses, and takes at
// most pattern x text steps, so no pattern can use much time.
#pragma once

#include <string_view>

namespace spillway::wire {

// Whether the whole of `text` matches.
bool GlobMatches(std::string_view pattern, std::string_view text);
// The same, ignoring the case of ASCII letters.
bool GlobMatchesAnyCase(std::string_view pattern, std::string_view text);

}  // namespace spillway::wire
