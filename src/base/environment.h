// SPDX-License-Identifier: Apache-2.0
// The value of an environment variable; empty if it is not set.
#pragma once

#include <cstdlib>
#include <string>

namespace spillway {

inline std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace spillway
