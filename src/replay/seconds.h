// Seconds as a JSON number writes them, exactly: 0.1 is 100,000,000 ns, not
// what is left of it after a stay in a double.
#pragma once

#include <optional>
#include <string_view>

#include "spillway/units.h"

namespace spillway {

// `text` is a JSON number ("2", "0.1", "1.5e3"). Rounded to the nearest
// nanosecond; empty when it is negative or beyond what a Duration can hold
// (292 years). "-0" is 0.
std::optional<Duration> ParseSeconds(std::string_view text);

}  // namespace spillway
