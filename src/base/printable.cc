// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <iterator>

#include <fmt/format.h>

namespace spillway {

std::string Printable(std::string_view bytes, std::size_t most) {
  std::string out;
  for (const char c : bytes) {
    if (out.size() >= most) return out + "...";
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\\' || c == '\'') {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace spillway
