// SPDX-License-Identifier: Apache-2.0
// The stream that every engine is measured with: 1 M keys of 16 bytes, requested by Zipf's law with
// exponent 0.99; the same for all engines and runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace spillway::bench {

// One request, as it would be in a receive buffer. Requests are read in sequence, so that the
// engine is measured and not the memory of the keys.
struct Request {
  char key_bytes[16];
  std::uint64_t value;  // The key's value. Never 0.

  std::string_view key() const { return {key_bytes, sizeof key_bytes}; }
};

// The request for the key of that rank; 0 is the most popular.
Request RequestFor(std::uint64_t rank);

// SplitMix64: small, and the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();
  double Share() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // [0, 1)

 private:
  std::uint64_t state_;
};

class Zipf {
 public:
  Zipf(std::size_t keys, double exponent);
  std::uint64_t Draw(Random& random) const;

 private:
  std::vector<double> up_to_;  // Share of requests for ranks up to and including this one.
};

std::vector<Request> Stream(const Zipf& zipf, std::size_t requests, std::uint64_t seed);

}  // namespace spillway::bench
