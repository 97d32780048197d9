// SPDX-License-Identifier: Apache-2.0
// Times as plain numbers, for people and other programs.
#pragma once

#include <chrono>
#include <cstdint>

#include "spillway/units.h"

namespace spillway {

inline double InSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

inline double InMicroseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

inline std::int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now();  // real world: for people to read
  return std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
}

}  // namespace spillway
