// SPDX-License-Identifier: Apache-2.0
#include "serversim/value.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/rng.h"

namespace spillway::serversim {

namespace {

constexpr Bytes kShift = 4096;  // Each number takes its bytes from another place of the pool.

const std::string& Filling() {
  static const std::string pool = [] {
    sim::Rng rng(20);
    std::string bytes;
    bytes.reserve(kValueMax + kShift);
    while (bytes.size() < kValueMax + kShift) bytes += static_cast<char>(rng.Below(256));
    return bytes;
  }();
  return pool;
}

}  // namespace

Value NumberValue(std::uint64_t number) {
  return {.number = number, .size = fmt::to_string(number).size(), .is_number = true};
}

std::string TextOf(const Value& value) {
  if (value.is_number) return fmt::to_string(value.number);
  std::string text = fmt::format("{}:", value.number);
  if (text.size() >= value.size) return text.substr(0, value.size);
  text.append(Filling(), sim::Mix(value.number) % kShift, value.size - text.size());
  return text;
}

}  // namespace spillway::serversim
