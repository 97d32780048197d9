// A Target is what a request asks for: the path and the query, decoded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::http {

struct Target {
  std::string path;
  std::map<std::string, std::string> query;  // Of a name given twice, the first.

  // Bytes after %XX, whatever they are. Empty: it is no target (no leading '/', a
  // broken %, a zero byte in the path).
  static std::optional<Target> Parse(std::string_view text);

  std::string_view Get(const std::string& name, std::string_view otherwise = {}) const;
};

}  // namespace spillway::http
