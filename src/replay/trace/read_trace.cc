// SPDX-License-Identifier: Apache-2.0
#include "replay/trace/read_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/nearest.h"
#include "replay/trace/trace_format.h"
#include "replay/trace/trace_lines.h"

namespace spillway {
namespace {

constexpr std::size_t kProgressLines = 256;

std::string KnownFormats() { return fmt::format("{}", fmt::join(TraceFormatNames(), ", ")); }

// Reads the lines of a file into a builder.
class Reading {
 public:
  Reading(const std::string& path, const ReadOptions& options) : path_(path), options_(options) {}

  Result<Trace> Run() {
    Result<TraceLines> lines = TraceLines::Open(path_);
    if (!lines) return lines.error();
    for (;;) {
      const Result<std::optional<std::string_view>> line = lines->Next();
      if (!line) return At(lines->number(), line.error());
      if (!*line) break;
      if (Status ok = Take(**line); !ok) {
        if (!options_.skip_bad) return At(lines->number(), ok.error());
        ++bad_;
        if (options_.skipped) options_.skipped(At(lines->number(), ok.error()).message);
      }
      if (options_.progress && lines->number() % kProgressLines == 0) {
        options_.progress(lines->progress());
      }
    }
    if (!builder_ || builder_->empty()) {
      return Bad(fmt::format("'{}' has no requests{}", path_,
                             bad_ > 0 ? fmt::format("; {} lines were skipped", bad_) : ""));
    }
    return Finish();
  }

 private:
  Error At(std::size_t line, const Error& error) const {
    return {error.code, fmt::format("'{}' line {}: {}", path_, line, error.message)};
  }

  Status Take(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    const Json parsed = Json::parse(line, nullptr, false);
    if (!parsed.is_object()) return Bad("expected a JSON object");
    if (!format_) {
      if (Status ok = Choose(parsed); !ok) return ok;
    }
    return format_->Line(parsed, &*builder_);
  }

  Status Choose(const Json& first) {
    const std::string name =
        options_.format.empty() ? std::string(FindTraceFormat(first)) : options_.format;
    if (name.empty()) {
      return Bad(fmt::format("expected the first line of a trace ({}); --format forces one",
                             KnownFormats()));
    }
    format_ = MakeTraceFormat(name, {.spacing_ms = options_.spacing_ms});
    group_ = options_.group == 0 ? UsualGroup(name) : options_.group;
    builder_.emplace(group_);
    return {};
  }

  Trace Finish() {
    Trace trace = builder_->Finish();
    const std::size_t slash = path_.find_last_of('/');
    trace.name = slash == std::string::npos ? path_ : path_.substr(slash + 1);
    trace.format = format_->name();
    trace.block_tokens = format_->id_tokens() * group_;
    trace.bad_lines = bad_;
    return trace;
  }

  const std::string& path_;
  const ReadOptions& options_;
  std::unique_ptr<TraceFormat> format_;
  std::optional<TraceBuilder> builder_;
  std::uint32_t group_ = 1;
  std::size_t bad_ = 0;
};

}  // namespace

Result<Trace> ReadTrace(const std::string& path, const ReadOptions& options) {
  if (!options.format.empty() && MakeTraceFormat(options.format, {}) == nullptr) {
    return Bad(fmt::format("format '{}' is not known; known: {}{}", options.format, KnownFormats(),
                           DidYouMean(options.format, TraceFormatNames())));
  }
  return Reading(path, options).Run();
}

}  // namespace spillway
