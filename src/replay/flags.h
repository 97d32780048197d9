// SPDX-License-Identifier: Apache-2.0
// Hints that clients could have given, added to the requests of a trace. A policy under replay
// knows nothing else about the future.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "replay/trace/trace.h"
#include "spillway/result.h"

namespace spillway {

// Which hints to add.
struct FlagSettings {
  enum class Kind : std::uint8_t { kTrace, kEnd, kBit };
  Kind kind = Kind::kTrace;  // Only hints in the trace itself.
  double wrong = 0;          // kBit: the share of bits that are inverted.
};

// Parses "", "end" or "bit:E" with E from 0 to 1.
Result<FlagSettings> ParseFlags(std::string_view text);

// The hints of one request.
struct RequestFlags {
  std::int8_t again = -1;  // 0 or 1; -1: no hint.
  bool done = false;
};

// Makes one element for each request. kEnd: the last request of each session is `done`. kBit:
// `again` says whether the last block but one is used by a later request; each bit is inverted with
// probability `wrong`, from `seed`.
std::vector<RequestFlags> MakeFlags(const Trace& trace, const FlagSettings& settings,
                                    std::uint64_t seed);

}  // namespace spillway
