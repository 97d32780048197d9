// A whole trace from a file, whatever its format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "replay/trace/trace.h"
#include "spillway/result.h"

namespace spillway {

struct ReadOptions {
  std::string format;  // Empty: found by itself.
  std::int64_t spacing_ms = 60'000;
  std::uint32_t group = 0;  // Raw ids of a block; 0: as is usual for the format.
  bool skip_bad = false;    // Count lines that are broken, and go on.
  // Called now and then with the share of the file that was read.
  std::function<void(std::optional<double>)> progress;
  // Called with each line that is skipped: "line 7: ...".
  std::function<void(const std::string&)> skipped;
};

// An error names the file, the line and what was expected there.
Result<Trace> ReadTrace(const std::string& path, const ReadOptions& options);

}  // namespace spillway
