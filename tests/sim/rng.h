// SPDX-License-Identifier: Apache-2.0
// The only source of randomness in a simulated world. Integer arithmetic only, so that
// a seed gives the same world in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace spillway::sim {

constexpr std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

__extension__ typedef unsigned __int128 Wide;

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(Mix(seed)) {}

  std::uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15ULL); }
  // 0 to n - 1; n must not be 0.
  std::uint64_t Below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<Wide>(Next()) * n) >> 64);
  }
  std::uint64_t Between(std::uint64_t low, std::uint64_t high) {
    return low + Below(high - low + 1);
  }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  bool Percent(std::uint64_t share) { return Below(100) < share; }
  // [0, 1)
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // Each power of two is as likely as any other.
  std::uint64_t LogBetween(std::uint64_t low, std::uint64_t high) {
    std::uint64_t doublings = 0;
    while (((low + 1) << (doublings + 1)) - 1 <= high) ++doublings;
    const std::uint64_t from = ((low + 1) << Below(doublings + 1)) - 1;
    const std::uint64_t to = 2 * from < high ? 2 * from : high;
    return Between(from, to < from ? from : to);
  }

  template <typename T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[Below(choices.size())];
  }

  // An index, by weight; at least one weight must not be 0.
  std::size_t ByWeight(std::span<const std::uint32_t> weights, std::uint64_t sum) {
    std::uint64_t at = Below(sum);
    std::size_t index = 0;
    while (at >= weights[index]) at -= weights[index++];
    return index;
  }

 private:
  std::uint64_t state_;
};

}  // namespace spillway::sim
