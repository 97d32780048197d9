// SPDX-License-Identifier: Apache-2.0
// The state of one event stream: what its client has received, and so what comes next. The first
// message is the whole state; later ones only contain the changes, as a merge patch (RFC 7396).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "http/api_json.h"
#include "spillway/units.h"

namespace spillway::http {

struct Stream {
  // Without news, a comment is sent this often to keep the connection alive.
  static constexpr Duration kQuietMax = std::chrono::seconds(5);

  Duration every{};
  std::uint64_t after = 0;  // Number of the last event sent.
  bool changes = false;     // True: send only the changes; false: the whole state each time.
  std::optional<Json> told;
  Duration quiet{};
};

// The merge patch that turns `before` into `after`; empty: they are equal. Lists are replaced as a
// whole. Null removes a field; unknown values are null, too.
std::optional<Json> PatchOf(const Json& before, const Json& after);

}  // namespace spillway::http
