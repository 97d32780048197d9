// SPDX-License-Identifier: Apache-2.0
// Lines of the log that `spillway replay` reads (docs/reference/replay.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway {

struct TraceLine {
  std::int64_t at_ms = 0;
  Tokens tokens = 0;
  std::span<const std::uint64_t> chain;  // Ids, root first.
  std::string_view session;              // Any bytes; empty: none.
  Hint hint = Hint::kNone;
};

// The first line of a log; `unit`: tokens per id.
std::string TraceHeader(Tokens unit);
// Throws bad_alloc; then `to` may end in a part of the line.
void AppendTo(std::string* to, const TraceLine& line);

}  // namespace spillway
