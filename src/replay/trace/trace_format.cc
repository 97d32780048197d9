// SPDX-License-Identifier: Apache-2.0
#include "replay/trace/trace_format.h"

#include <array>

namespace spillway {
namespace {
constexpr std::array<std::string_view, 5> kNames = {"mooncake", "weka", "lmcache", "dynamo", "log"};
}  // namespace

std::span<const std::string_view> TraceFormatNames() { return kNames; }

std::unique_ptr<TraceFormat> MakeTraceFormat(std::string_view name, const FormatOptions& options) {
  if (name == "mooncake") return MakeMooncakeFormat();
  if (name == "weka") return MakeWekaFormat(options);
  if (name == "lmcache") return MakeLmcacheFormat(options);
  if (name == "dynamo") return MakeDynamoFormat();
  if (name == "log") return MakeLogFormat();
  return nullptr;
}

std::string_view FindTraceFormat(const Json& first) {
  if (!first.is_object()) return {};
  if (first.contains("hash_ids")) return "mooncake";
  if (first.contains("event")) return "dynamo";
  const auto format = first.find("format");
  if (format == first.end() || !format->is_string()) return {};
  if (*format == "spillway-log") return "log";
  if (*format != "spillway-trace") return {};
  return first.contains("block_bytes") ? "lmcache" : "weka";
}

std::uint32_t UsualGroup(std::string_view format) { return format == "weka" ? 8 : 1; }

}  // namespace spillway
