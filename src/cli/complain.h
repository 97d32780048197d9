// SPDX-License-Identifier: Apache-2.0
// How a command prints an error and chooses its exit status.
#pragma once

#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "base/exit_status.h"
#include "spillway/result.h"

namespace spillway {

inline int Complain(std::string_view command, std::string_view what, int exit_code = kBadUse) {
  fmt::print(stderr, "spillway {}: {}\n", command, what);
  return exit_code;
}
// Wrong arguments give the exit status for bad use, all other errors 1.
inline int Complain(std::string_view command, const Error& error) {
  return Complain(command, error.message, error.code == Code::kInvalidArgument ? kBadUse : 1);
}

}  // namespace spillway
