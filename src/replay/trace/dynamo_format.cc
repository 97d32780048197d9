// SPDX-License-Identifier: Apache-2.0
// Dynamo's request traces: events. A request_end event has a chain of 16-token blocks; tool events
// are skipped.
#include <string>

#include <fmt/format.h>

#include "replay/trace/trace_format.h"

namespace spillway {
namespace {

class DynamoFormat final : public TraceFormat {
 public:
  std::string_view name() const override { return "dynamo"; }
  std::uint32_t id_tokens() const override { return id_tokens_; }

  Status Line(const Json& line, TraceBuilder* builder) override {
    const Result<const Json*> event = ObjectIn(line, "event");
    if (!event) return event.error();
    const Result<std::string> type = TextIn(**event, "event_type");
    if (!type) return type.error();
    if (*type != "request_end") return {};
    const Result<const Json*> request = ObjectIn(**event, "request");
    if (!request) return request.error();
    const Result<const Json*> agent = ObjectIn(**event, "agent_context");
    if (!agent) return agent.error();
    return Add(**request, **agent, builder);
  }

 private:
  Status Add(const Json& from, const Json& agent, TraceBuilder* builder) {
    const Result<std::string> session = TextIn(agent, "session_id");
    if (!session) return session.error();
    const Result<std::uint64_t> at = NumberIn(from, "request_received_ms");
    if (!at) return at.error();
    const Result<std::uint64_t> tokens = NumberIn(from, "input_tokens", kInputMax);
    if (!tokens) return tokens.error();
    const Result<const Json*> replay = ObjectIn(from, "replay");
    if (!replay) return replay.error();
    const Result<std::uint64_t> size = NumberIn(**replay, "trace_block_size", 1 << 20);
    if (!size) return size.error();
    if (Status ok = NumbersIn(**replay, "input_sequence_hashes", &ids_); !ok) return ok;
    const bool other_size = !builder->empty() && *size != id_tokens_;
    if (*size == 0 || other_size || ids_.size() > kChainMax) {
      return Error{Code::kInvalidArgument,
                   fmt::format("'replay': expected blocks of one size ({} so far) and at most {}",
                               id_tokens_, kChainMax)};
    }
    id_tokens_ = static_cast<std::uint32_t>(*size);
    TraceRequest request;
    request.at_ms = static_cast<std::int64_t>(*at);
    request.tokens = *tokens;
    request.session = builder->SessionOf(*session);
    builder->Add(request, builder->StreamOf("").number, 0, ids_, 0);
    return {};
  }

  std::vector<std::uint64_t> ids_;
  std::uint32_t id_tokens_ = 16;
};

}  // namespace

std::unique_ptr<TraceFormat> MakeDynamoFormat() { return std::make_unique<DynamoFormat>(); }

}  // namespace spillway
