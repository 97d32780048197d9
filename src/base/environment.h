// A variable of the environment; empty where there is none.
#pragma once

#include <cstdlib>
#include <string>

namespace spillway {

inline std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace spillway
