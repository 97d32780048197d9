// SPDX-License-Identifier: Apache-2.0
#include "replay/run_scenario.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "replay/line_reader.h"

namespace spillway {
namespace {

constexpr int kBadInput = 2;
constexpr int kCantWrite = 1;

int Complain(std::FILE* err, std::string_view what, std::size_t line) {
  // The message may quote bytes that are not UTF-8.
  const std::string text =
      nlohmann::json(what).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  fmt::print(err, "{{\"error\":{},\"line\":{}}}\n", text, line);
  return kBadInput;
}

int CantWrite(std::FILE* err) {
  fmt::print(err, "{{\"error\":\"can't write: {}\"}}\n", std::strerror(errno));
  return kCantWrite;
}

}  // namespace

int RunScenario(Scenario* scenario, int in, std::FILE* out, std::FILE* err) {
  LineReader reader(in);
  std::string text;
  for (;;) {
    if (!reader.ready() && std::fflush(out) != 0) return CantWrite(err);
    const Result<std::optional<std::string_view>> line = reader.Next();
    if (!line || !*line) {
      if (std::fflush(out) != 0) return CantWrite(err);
      return line ? 0 : Complain(err, line.error().message, reader.number());
    }
    if ((*line)->find_first_not_of(" \t\r") == std::string_view::npos) continue;
    text.clear();
    if (Status ok = scenario->Run(**line, &text); !ok) {
      if (std::fflush(out) != 0) return CantWrite(err);
      return Complain(err, ok.error().message, reader.number());
    }
    if (std::fwrite(text.data(), 1, text.size(), out) != text.size()) return CantWrite(err);
  }
}

}  // namespace spillway
