// SPDX-License-Identifier: Apache-2.0
// How long a restart takes with many entries on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway::kill {

struct RestartTimes {
  double fill_s = 0;        // Until all of them were on disk.
  double open_ms = 0;       // Cache::Open.
  double first_get_ms = 0;  // From before Open until the first get has its bytes.
  double last_get_ms = 0;   // The same for an entry that is found last.
  std::uint64_t found = 0;
};

// Puts that many entries of 100 bytes into a cache in `dir`, kills it, and opens it
// again three times: the fastest of them. Empty: something failed, and was printed.
std::optional<RestartTimes> MeasureRestart(const std::string& dir, std::uint64_t entries);

}  // namespace spillway::kill
