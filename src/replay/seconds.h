// SPDX-License-Identifier: Apache-2.0
// Converts seconds, written as a JSON number, exactly: 0.1 is 100,000,000 ns. A double would lose
// digits.
#pragma once

#include <optional>
#include <string_view>

#include "spillway/units.h"

namespace spillway {

// `text` is a JSON number ("2", "0.1", "1.5e3"). Rounds to the nearest nanosecond. Empty: negative,
// or beyond the range of Duration (292 years). "-0" is 0.
std::optional<Duration> ParseSeconds(std::string_view text);

}  // namespace spillway
