// SPDX-License-Identifier: Apache-2.0
#include "bench/support/workload.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace spillway::bench {

std::uint64_t Random::Next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

Request RequestFor(std::uint64_t rank) {
  Request request;
  Random mixed(rank);  // Keys of neighbouring ranks must not be neighbours in any table.
  const std::uint64_t high = mixed.Next();
  std::memcpy(request.key_bytes, &high, sizeof high);
  std::memcpy(request.key_bytes + sizeof high, &rank, sizeof rank);
  request.value = high | 1;
  return request;
}

Zipf::Zipf(std::size_t keys, double exponent) : up_to_(keys) {
  double sum = 0;
  for (std::size_t rank = 0; rank < keys; ++rank) {
    sum += std::pow(static_cast<double>(rank + 1), -exponent);
    up_to_[rank] = sum;
  }
  for (double& share : up_to_) share /= sum;
}

std::uint64_t Zipf::Draw(Random& random) const {
  const auto at = std::upper_bound(up_to_.begin(), up_to_.end(), random.Share());
  return static_cast<std::uint64_t>(std::min(at, up_to_.end() - 1) - up_to_.begin());
}

std::vector<Request> Stream(const Zipf& zipf, std::size_t requests, std::uint64_t seed) {
  Random random(seed);
  std::vector<Request> stream;
  stream.reserve(requests);
  for (std::size_t i = 0; i < requests; ++i) stream.push_back(RequestFor(zipf.Draw(random)));
  return stream;
}

}  // namespace spillway::bench
