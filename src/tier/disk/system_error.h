// SPDX-License-Identifier: Apache-2.0
// The system's error for a file, as an Error: full disks are NoMemory, all
// others Unavailable.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "spillway/result.h"

namespace spillway {

inline bool IsFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// `error` is an errno, positive.
inline Error SystemError(int error, std::string_view doing, std::string_view path) {
  return {IsFull(error) || error == ENOMEM ? Code::kNoMemory : Code::kUnavailable,
          fmt::format("disk: cannot {} {}: {}", doing, path, std::strerror(error))};
}

}  // namespace spillway
