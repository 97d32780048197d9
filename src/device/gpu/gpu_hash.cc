// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_hash.h"

#include <cstring>

#include "base/hash.h"

namespace spillway {

std::array<std::uint64_t, kGpuHashKeys> GpuHashKeys() {
  constexpr std::size_t kSecret = sizeof(XXH3_kSecret);
  constexpr std::size_t kStripe = 64;
  std::array<std::uint64_t, kGpuHashKeys> keys{};
  std::size_t next = 0;
  const auto take = [&](std::size_t at, std::size_t words) {
    std::memcpy(&keys.at(next), &XXH3_kSecret[at], words * sizeof(std::uint64_t));
    next += words;
  };
  take(0, 23);  // Each stripe of a block uses the words from 8 bytes after the stripe before.
  take(kSecret - kStripe, 8);       // Scrambling.
  take(kSecret - kStripe - 7, 8);   // The last stripe.
  take(11, 8);                      // The final merge, low half
  take(kSecret - kStripe - 11, 8);  // and high half.
  for (const std::uint64_t word :
       {std::uint64_t{XXH_PRIME32_3}, std::uint64_t{XXH_PRIME64_1}, std::uint64_t{XXH_PRIME64_2},
        std::uint64_t{XXH_PRIME64_3}, std::uint64_t{XXH_PRIME64_4}, std::uint64_t{XXH_PRIME32_2},
        std::uint64_t{XXH_PRIME64_5}, std::uint64_t{XXH_PRIME32_1}}) {
    keys.at(next++) = word;
  }
  return keys;
}

}  // namespace spillway
