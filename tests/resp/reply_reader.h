// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of replies into single ones, without understanding them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace spillway::resp {

// Bytes of the reply that `from` begins with; 0: it is not whole yet.
inline std::size_t ReplyBytes(std::string_view from) {
  std::size_t at = 0;
  long left = 1;
  while (left > 0) {
    const std::size_t end = from.find("\r\n", at);
    if (end == std::string_view::npos) return 0;
    const char kind = from[at];
    const long number = std::strtol(from.data() + at + 1, nullptr, 10);
    at = end + 2;
    --left;
    switch (kind) {
      case '$':
      case '=':
      case '!':
        if (number >= 0) at += static_cast<std::size_t>(number) + 2;
        break;
      case '*':
      case '~':
      case '>':
        if (number > 0) left += number;
        break;
      case '%':
        if (number > 0) left += 2 * number;
        break;
      default:
        break;
    }
    if (at > from.size()) return 0;
  }
  return at;
}

}  // namespace spillway::resp
