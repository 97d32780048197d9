// Room that is lacking, for those parts of the engine that make it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cache/engine.h"

namespace spillway {

// What is lacking. A victim takes its share off each.
struct Engine::Need {
  Bytes bytes = 0;
  Tokens tokens = 0;
  Bytes names = 0;
  std::uint64_t slots = 0;

  bool any() const { return bytes > 0 || tokens > 0 || names > 0 || slots > 0; }
  Reason reason() const {
    return bytes == 0 && names == 0 && slots == 0 ? Reason::kBudget : Reason::kRoom;
  }
  bool HelpedBy(Bytes b, Tokens t, Bytes n) const {
    return (bytes > 0 && b > 0) || (tokens > 0 && t > 0) || (names > 0 && n > 0) || slots > 0;
  }
  void Less(Bytes b, Tokens t, Bytes n) {
    bytes -= std::min(bytes, b);
    tokens -= std::min(tokens, t);
    names -= std::min(names, n);
    slots -= std::min<std::uint64_t>(slots, 1);
  }
};

}  // namespace spillway
