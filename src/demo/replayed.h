// The recorded turns through other caches, by `spillway replay`, a process of its
// own: what they would have found in the same memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Replayed {
  std::string policy;
  double share = 0;  // Of all tokens asked for, found.
  Tokens input = 0;
};

// `program` is `spillway`. Each of `policies` with room for so many tokens.
Result<std::vector<Replayed>> ReplayLog(const std::string& program, const std::string& log,
                                        const std::vector<std::string>& policies, Tokens capacity);

// A line of `spillway replay --json`, understood.
Result<Replayed> ReadReplayed(std::string_view line);

}  // namespace spillway::demo
