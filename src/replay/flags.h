// What a client could have told: hints added to the requests of a trace. They
// are all a policy may know of what comes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "replay/trace/trace.h"
#include "spillway/result.h"

namespace spillway {

struct FlagSettings {
  enum class Kind : std::uint8_t { kTrace, kEnd, kBit };
  Kind kind = Kind::kTrace;  // Only what the trace has itself.
  double wrong = 0;          // kBit: share of bits that are turned round.
};

// "" , "end" or "bit:E", E from 0 to 1.
Result<FlagSettings> ParseFlags(std::string_view text);

struct RequestFlags {
  std::int8_t again = -1;  // 0, 1; -1: nothing said.
  bool done = false;
};

// One for each request. kEnd: the last request of each session is `done`. kBit:
// `again` if the request's last block but one is used by a later request, each
// turned round with that chance, by `seed`.
std::vector<RequestFlags> MakeFlags(const Trace& trace, const FlagSettings& settings,
                                    std::uint64_t seed);

}  // namespace spillway
