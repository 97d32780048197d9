// SPDX-License-Identifier: Apache-2.0
// The cache's own log of requests; docs/reference/replay.md lists its fields.
#include <fmt/format.h>

#include "replay/trace/trace_format.h"

namespace spillway {
namespace {

Result<std::uint32_t> StateOf(const Json& line) {
  if (!line.contains("state")) return 0U;
  const Result<std::string> state = TextIn(line, "state");
  if (!state) return state.error();
  if (*state == "none") return 0U;
  if (*state == "tool") return 1U;
  if (*state == "human") return 2U;
  return Error{Code::kInvalidArgument, "'state': expected tool, human or none"};
}

Status ReadHint(const Json& line, TraceRequest* request) {
  if (!line.contains("hint")) return {};
  const Result<std::string> hint = TextIn(line, "hint");
  if (!hint) return hint.error();
  if (*hint == "done") {
    request->done = true;
  } else if (*hint == "again") {
    request->again = 1;
  } else if (*hint == "not-again") {
    request->again = 0;
  } else {
    return Error{Code::kInvalidArgument, "'hint': expected again, not-again or done"};
  }
  return {};
}

class LogFormat final : public TraceFormat {
 public:
  std::string_view name() const override { return "log"; }
  std::uint32_t id_tokens() const override { return id_tokens_; }

  Status Line(const Json& line, TraceBuilder* builder) override {
    if (line.contains("format")) return Header(line);
    if (id_tokens_ == 0) {
      return Error{Code::kInvalidArgument,
                   "expected the header first, {\"format\":\"spillway-log\",\"version\":1,"
                   "\"block_tokens\":N}"};
    }
    return Request(line, builder);
  }

 private:
  Status Header(const Json& line) {
    const Result<std::uint64_t> version = NumberIn(line, "version");
    if (!version) return version.error();
    if (*version != 1) {
      return Error{Code::kInvalidArgument,
                   fmt::format("'version' is {}; this program reads 1", *version)};
    }
    const Result<std::uint64_t> size = NumberIn(line, "block_tokens", 1 << 24);
    if (!size) return size.error();
    if (*size == 0) return Error{Code::kInvalidArgument, "'block_tokens': expected 1 or more"};
    id_tokens_ = static_cast<std::uint32_t>(*size);
    return {};
  }

  Status Request(const Json& line, TraceBuilder* builder) {
    TraceRequest request;
    const Result<std::uint64_t> at = NumberIn(line, "at_ms");
    if (!at) return at.error();
    const Result<std::uint64_t> tokens = NumberIn(line, "tokens", kInputMax);
    if (!tokens) return tokens.error();
    if (Status ok = NumbersIn(line, "chain", &ids_); !ok) return ok;
    if (ids_.size() > kChainMax) {
      return Error{Code::kInvalidArgument,
                   fmt::format("'chain': expected at most {} ids", kChainMax)};
    }
    const Result<std::uint32_t> state = StateOf(line);
    if (!state) return state.error();
    if (Status ok = ReadHint(line, &request); !ok) return ok;
    std::string session = fmt::format("line:{}", lines_);
    if (line.contains("session")) {
      const Result<std::string> named = TextIn(line, "session");
      if (!named) return named.error();
      session = "s:" + *named;
    }
    request.at_ms = static_cast<std::int64_t>(*at);
    request.tokens = *tokens;
    request.state = *state;
    request.session = builder->SessionOf(session);
    builder->Add(request, builder->StreamOf("").number, 0, ids_, 0);
    ++lines_;
    return {};
  }

  std::vector<std::uint64_t> ids_;
  std::uint32_t id_tokens_ = 0;
  std::size_t lines_ = 0;
};

}  // namespace

std::unique_ptr<TraceFormat> MakeLogFormat() { return std::make_unique<LogFormat>(); }

}  // namespace spillway
