// SPDX-License-Identifier: Apache-2.0
// Mooncake's traces: timestamp (ms), input_length, output_length, and hash_ids of 512 tokens each.
#include <string>

#include "replay/trace/trace_format.h"

namespace spillway {
namespace {

class MooncakeFormat final : public TraceFormat {
 public:
  std::string_view name() const override { return "mooncake"; }
  std::uint32_t id_tokens() const override { return 512; }

  Status Line(const Json& line, TraceBuilder* builder) override {
    TraceRequest request;
    const Result<std::uint64_t> at = NumberIn(line, "timestamp");
    if (!at) return at.error();
    const Result<std::uint64_t> tokens = NumberIn(line, "input_length", kInputMax);
    if (!tokens) return tokens.error();
    if (Status ok = NumbersIn(line, "hash_ids", &ids_); !ok) return ok;
    if (ids_.size() > kChainMax) {
      return Error{Code::kInvalidArgument, "'hash_ids': more than 1048576 of them"};
    }
    request.at_ms = static_cast<std::int64_t>(*at);
    request.tokens = *tokens;
    // Sessions have no names. The second block serves as one; the first is the system prompt, which
    // all share.
    const std::string session =
        ids_.size() > 1 ? "2:" + std::to_string(ids_[1]) : "line:" + std::to_string(lines_);
    request.session = builder->SessionOf(session);
    builder->Add(request, builder->StreamOf("").number, 0, ids_, 0);
    ++lines_;
    return {};
  }

 private:
  std::vector<std::uint64_t> ids_;
  std::size_t lines_ = 0;
};

}  // namespace

std::unique_ptr<TraceFormat> MakeMooncakeFormat() { return std::make_unique<MooncakeFormat>(); }

}  // namespace spillway
