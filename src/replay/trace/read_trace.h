// SPDX-License-Identifier: Apache-2.0
// Reads a whole trace from a file of any known format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "replay/trace/trace.h"
#include "spillway/result.h"

namespace spillway {

// How to read a trace.
struct ReadOptions {
  std::string format;  // Empty: detected from the file.
  std::int64_t spacing_ms = 60'000;
  std::uint32_t group = 0;  // Raw ids per block. 0: the usual number for the format.
  bool skip_bad = false;    // Count malformed lines and continue.
  // Called from time to time with the share of the file read so far.
  std::function<void(std::optional<double>)> progress;
  // Called for each skipped line: "line 7: ...".
  std::function<void(const std::string&)> skipped;
};

// An error names the file, the line and what was expected there.
Result<Trace> ReadTrace(const std::string& path, const ReadOptions& options);

}  // namespace spillway
