// The formats a trace may have, each a reader of lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "replay/trace/json_fields.h"
#include "replay/trace/trace.h"
#include "spillway/result.h"

namespace spillway {

// More blocks than this in one request are taken for a mistake.
inline constexpr std::size_t kChainMax = std::size_t{1} << 20;
// And more tokens (bytes, for lmcache) of input.
inline constexpr std::uint64_t kInputMax = std::uint64_t{1} << 32;

class TraceFormat {
 public:
  virtual ~TraceFormat() = default;
  virtual std::string_view name() const = 0;
  // One line, an object. An error says what was expected; nothing is added then.
  virtual Status Line(const Json& line, TraceBuilder* builder) = 0;
  // Tokens of one raw id, once a line was read.
  virtual std::uint32_t id_tokens() const = 0;
};

struct FormatOptions {
  // Sessions whose times start at 0 are placed this far apart.
  std::int64_t spacing_ms = 60'000;
};

// "mooncake", "weka", "lmcache", "dynamo" and "log".
std::span<const std::string_view> TraceFormatNames();
// Null: that name is not known.
std::unique_ptr<TraceFormat> MakeTraceFormat(std::string_view name, const FormatOptions& options);
// Which one a file is that begins with this line; empty: none of them.
std::string_view FindTraceFormat(const Json& first);
// Raw ids that make one block, when nobody says: 8 of 64 tokens for weka.
std::uint32_t UsualGroup(std::string_view format);

std::unique_ptr<TraceFormat> MakeMooncakeFormat();
std::unique_ptr<TraceFormat> MakeDynamoFormat();
std::unique_ptr<TraceFormat> MakeLogFormat();
// The delta-coded ones.
std::unique_ptr<TraceFormat> MakeWekaFormat(const FormatOptions& options);
std::unique_ptr<TraceFormat> MakeLmcacheFormat(const FormatOptions& options);

}  // namespace spillway
