// SPDX-License-Identifier: Apache-2.0
// Parses and formats sizes and times for people. Independent of the locale;
// everything that is formatted can be parsed.
#pragma once

#include <string>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// "1000", "512MiB", "1.5 GiB", "2GB": KiB, MiB, GiB, TiB are powers of 1024,
// kB, MB, GB, TB of 1000, in upper or lower case; no unit means bytes. "4G" is
// refused, since half of its readers would be wrong.
Result<Bytes> ParseBytes(std::string_view text);

// "20s", "500ms", "1.5 min", "2h": ns, us, ms, s, min, h, d. Only 0 needs no unit.
Result<Duration> ParseDuration(std::string_view text);

// In the largest unit with a value of at least 1, with three digits or exact:
// "0 B", "1000 B", "64 KiB", "1.5 GiB", "13.7 MiB".
std::string FormatBytes(Bytes bytes);

// The same for durations: "0 s", "250 us", "1.5 s", "10 min".
std::string FormatDuration(Duration duration);

}  // namespace spillway
