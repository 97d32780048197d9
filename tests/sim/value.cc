// SPDX-License-Identifier: Apache-2.0
#include "sim/value.h"

#include <array>
#include <cstring>

#include "sim/rng.h"

namespace spillway::sim {

namespace {

constexpr Bytes kOffsets = 32 * kKiB;

const std::byte* Pool() {
  static const auto pool = [] {
    std::array<std::byte, kOffsets + kValueMax> bytes;
    Rng rng(0x5eed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Next());
    return bytes;
  }();
  return pool.data();
}

}  // namespace

Value::Value(std::uint64_t set, Bytes size)
    : name_(Mix(set)), size_(size), rest_(Pool() + name_ % kOffsets) {}

Source Value::AsSource() const {
  // Sometimes in one piece, sometimes in three: both must give the same value.
  std::vector<Fragment> fragments{{&name_, head()}};
  const Bytes rest = size_ - head();
  const Bytes cut = name_ % 3 == 0 ? rest / 3 : 0;
  if (cut > 0) fragments.push_back({rest_, cut});
  if (rest > 0) fragments.push_back({rest_ + cut, rest - cut});
  return Source(std::move(fragments));
}

Bytes Value::FirstWrong(const std::byte* data) const {
  if (size_ == 0) return 0;  // No bytes, no error.
  if (std::memcmp(data, &name_, head()) != 0) return 0;
  const Bytes rest = size_ - head();
  if (std::memcmp(data + head(), rest_, rest) == 0) return size_;
  Bytes at = 0;
  while (data[head() + at] == rest_[at]) ++at;
  return head() + at;
}

}  // namespace spillway::sim
