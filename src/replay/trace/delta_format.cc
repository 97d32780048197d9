// SPDX-License-Identifier: Apache-2.0
// The delta-coded formats: a header, a table of sessions, then one request per line. `k` leading
// ids of the stream's previous line are kept, and `b` lists the ranges after them. weka has streams
// (s, a) with ids that belong to the session; lmcache has streams s with ids that all streams
// share.
#include <algorithm>

#include <fmt/format.h>

#include "replay/trace/trace_format.h"

namespace spillway {
namespace {

class DeltaFormat final : public TraceFormat {
 public:
  DeltaFormat(bool weka, const FormatOptions& options) : weka_(weka), options_(options) {}
  std::string_view name() const override { return weka_ ? "weka" : "lmcache"; }
  std::uint32_t id_tokens() const override { return id_tokens_; }

  Status Line(const Json& line, TraceBuilder* builder) override {
    if (line.contains("format")) return Header(line);
    if (line.contains("sessions")) return {};
    if (id_tokens_ == 0) {
      return Error{Code::kInvalidArgument,
                   "expected the header first, {\"format\":\"spillway-trace\",...}"};
    }
    return Request(line, builder);
  }

 private:
  Status Header(const Json& line) {
    const Result<std::uint64_t> size =
        NumberIn(line, weka_ ? "block_tokens" : "block_tokens_estimate", 1 << 20);
    if (!size) return size.error();
    if (*size == 0) return Error{Code::kInvalidArgument, "'block_tokens': expected 1 or more"};
    if (!weka_) {
      const Result<std::uint64_t> bytes = NumberIn(line, "block_bytes", 1 << 20);
      if (!bytes) return bytes.error();
      bytes_per_token_ = std::max<std::uint64_t>(1, *bytes / *size);
    }
    id_tokens_ = static_cast<std::uint32_t>(*size);
    return {};
  }

  Status Request(const Json& line, TraceBuilder* builder) {
    const Result<std::uint64_t> s = NumberIn(line, "s", 1U << 24);
    if (!s) return s.error();
    const Result<std::string> agent = Agent(line);
    if (!agent) return agent.error();
    const Result<std::uint64_t> at = NumberIn(line, "t", std::uint64_t{1} << 50);
    if (!at) return at.error();
    const Result<std::uint64_t> tokens = NumberIn(line, "n", kInputMax);
    if (!tokens) return tokens.error();
    const auto stream =
        builder->StreamOf(weka_ ? fmt::format("{}/{}", *s, *agent) : fmt::format("{}", *s));
    const Result<std::uint64_t> kept = NumberIn(line, "k");
    if (!kept) return kept.error();
    if (*kept > stream.length) {
      return Error{Code::kInvalidArgument,
                   fmt::format("'k' is {}: expected at most {}, the ids of the previous line of "
                               "the same stream",
                               *kept, stream.length)};
    }
    if (Status ok = RangesIn(line, "b", kChainMax - std::min<std::size_t>(kChainMax, *kept), &ids_);
        !ok)
      return ok;
    TraceRequest request;
    request.at_ms =
        static_cast<std::int64_t>(*at) + static_cast<std::int64_t>(*s) * options_.spacing_ms;
    if (stream.length > 0 && request.at_ms < stream.at_ms) {
      return Error{Code::kInvalidArgument,
                   fmt::format("'t' is {}: expected no less than in the previous line of the same "
                               "stream",
                               *at)};
    }
    request.tokens = *tokens / bytes_per_token_;
    request.state = State(line);
    request.session = builder->SessionOf(fmt::format("{}/{}", *s, *agent));
    builder->Add(request, stream.number, static_cast<std::size_t>(*kept), ids_,
                 weka_ ? static_cast<std::uint32_t>(*s) + 1 : 0);
    return {};
  }

  Result<std::string> Agent(const Json& line) const {
    if (!weka_) return TextIn(line, "g");
    const Result<std::uint64_t> a = NumberIn(line, "a", 1U << 24);
    if (!a) return a.error();
    return fmt::format("{}", *a);
  }

  // How the answer ended tells what the session waits for: a tool, or a human.
  static std::uint32_t State(const Json& line) {
    const auto stop = line.find("x");
    if (stop == line.end()) return 0;
    return *stop == "T" ? 1 : *stop == "E" ? 2 : 0;
  }

  const bool weka_;
  const FormatOptions options_;
  std::vector<std::uint64_t> ids_;
  std::uint32_t id_tokens_ = 0;
  std::uint64_t bytes_per_token_ = 1;
};

}  // namespace

std::unique_ptr<TraceFormat> MakeWekaFormat(const FormatOptions& options) {
  return std::make_unique<DeltaFormat>(true, options);
}

std::unique_ptr<TraceFormat> MakeLmcacheFormat(const FormatOptions& options) {
  return std::make_unique<DeltaFormat>(false, options);
}

}  // namespace spillway
