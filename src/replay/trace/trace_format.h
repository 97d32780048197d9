// SPDX-License-Identifier: Apache-2.0
// The formats of traces. Each is a parser of lines.
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

// A request with more blocks is considered an error,
inline constexpr std::size_t kChainMax = std::size_t{1} << 20;
// and so is one with more tokens (bytes, for lmcache) of input.
inline constexpr std::uint64_t kInputMax = std::uint64_t{1} << 32;

// A parser for one format, with the state of the file so far.
class TraceFormat {
 public:
  virtual ~TraceFormat() = default;
  virtual std::string_view name() const = 0;
  // Parses one line, an object. An error says what was expected; nothing is added then.
  virtual Status Line(const Json& line, TraceBuilder* builder) = 0;
  // Tokens per raw id. Known after the first line.
  virtual std::uint32_t id_tokens() const = 0;
};

struct FormatOptions {
  // Sessions whose times start at 0 are placed this far apart.
  std::int64_t spacing_ms = 60'000;
};

// "mooncake", "weka", "lmcache", "dynamo" and "log".
std::span<const std::string_view> TraceFormatNames();
// Null: the name is unknown.
std::unique_ptr<TraceFormat> MakeTraceFormat(std::string_view name, const FormatOptions& options);
// The format of a file that begins with this line. Empty: unknown.
std::string_view FindTraceFormat(const Json& first);
// Raw ids per block by default: 8 of 64 tokens for weka.
std::uint32_t UsualGroup(std::string_view format);

std::unique_ptr<TraceFormat> MakeMooncakeFormat();
std::unique_ptr<TraceFormat> MakeDynamoFormat();
std::unique_ptr<TraceFormat> MakeLogFormat();
// The delta-coded formats.
std::unique_ptr<TraceFormat> MakeWekaFormat(const FormatOptions& options);
std::unique_ptr<TraceFormat> MakeLmcacheFormat(const FormatOptions& options);

}  // namespace spillway
