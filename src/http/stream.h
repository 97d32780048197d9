// What one listener has been told, and what he must be told next: a whole state
// first, then only what changed in it, as a merge patch (RFC 7396).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "http/api_json.h"
#include "spillway/units.h"

namespace spillway::http {

struct Stream {
  // With nothing to tell, a comment so often shows that somebody is there.
  static constexpr Duration kQuietMax = std::chrono::seconds(5);

  Duration every{};
  std::uint64_t after = 0;  // The last event told.
  bool changes = false;     // Only what changed; else the whole state each time.
  std::optional<Json> told;
  Duration quiet{};
};

// What makes `before` into `after`; empty: nothing. Lists count as one thing. A null
// in it takes a field away, and is what an unknown value is.
std::optional<Json> PatchOf(const Json& before, const Json& after);

}  // namespace spillway::http
