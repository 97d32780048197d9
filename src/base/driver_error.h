// SPDX-License-Identifier: Apache-2.0
// A vendor library's error code as an Error: the call, its code and the
// library's own text, as in "nvmlInit_v2 failed: 9 (Driver Not Loaded)".
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "spillway/result.h"

namespace spillway {

// `words` may be null: the library has no text for this code.
inline Error DriverError(std::string_view call, int code, const char* words) {
  // AMD's unknown error is 0xffffffff, which would print as -1.
  const std::string number =
      code < 0 ? fmt::format("{:#x}", static_cast<unsigned>(code)) : fmt::format("{}", code);
  return Error{Code::kUnavailable, words == nullptr || *words == 0
                                       ? fmt::format("{} failed: {}", call, number)
                                       : fmt::format("{} failed: {} ({})", call, number, words)};
}

}  // namespace spillway
