// SPDX-License-Identifier: Apache-2.0
#include "cache/trace_line.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway {

std::string TraceHeader(Tokens unit) {
  return fmt::format(R"({{"format":"spillway-log","version":1,"block_tokens":{}}})"
                     "\n",
                     unit);
}

void AppendTo(std::string* to, const TraceLine& line) {
  const auto out = std::back_inserter(*to);
  fmt::format_to(out, R"({{"at_ms":{},"tokens":{},"chain":[{}])",
                 std::max<std::int64_t>(line.at_ms, 0), line.tokens, fmt::join(line.chain, ","));
  if (!line.session.empty()) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::format_to(out, R"(,"session":{})",
                   nlohmann::json(line.session).dump(-1, ' ', false, replace));
  }
  if (line.hint != Hint::kNone) {
    fmt::format_to(out, R"(,"hint":"{}")", line.hint == Hint::kDone ? "done" : "again");
  }
  *to += "}\n";
}

}  // namespace spillway
