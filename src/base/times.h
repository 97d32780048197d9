// Time as plain numbers, for people and other programs to read.
#pragma once

#include <chrono>
#include <cstdint>

#include "spillway/units.h"

namespace spillway {

inline double InSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

inline std::int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now();  // real world: for people to read
  return std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
}

}  // namespace spillway
