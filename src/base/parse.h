// Sizes and times as people write them, and back. Nothing depends on the
// locale; what one side prints the other reads.
#pragma once

#include <string>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// "1000", "512MiB", "1.5 GiB", "2GB": B, KiB, MiB, GiB, TiB count in 1024s, kB,
// MB, GB, TB in 1000s, in either case of letters; no unit means bytes. A bare
// "4G" is refused, since half of its readers would be wrong.
Result<Bytes> ParseBytes(std::string_view text);

// "20s", "500ms", "1.5 min", "2h": ns, us, ms, s, min, h, d. Only 0 needs no unit.
Result<Duration> ParseDuration(std::string_view text);

// In the largest unit that keeps it at 1 or more, three digits or what is
// exact: "0 B", "1000 B", "64 KiB", "1.5 GiB", "13.7 MiB".
std::string FormatBytes(Bytes bytes);

// The same for time: "0 s", "250 us", "1.5 s", "10 min".
std::string FormatDuration(Duration duration);

}  // namespace spillway
