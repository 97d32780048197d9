// SPDX-License-Identifier: Apache-2.0
// The target of a request: path and query, decoded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::http {

struct Target {
  std::string path;
  std::map<std::string, std::string> query;  // If a name is given twice, the first value counts.

  // Parses a target. %XX may give any byte. Empty: it is malformed (no leading '/', a broken %, or
  // a zero byte in the path).
  static std::optional<Target> Parse(std::string_view text);

  std::string_view Get(const std::string& name, std::string_view otherwise = {}) const;
};

}  // namespace spillway::http
