// SPDX-License-Identifier: Apache-2.0
// The tiers of a cache by name, from the top down. A cache has at least one of them. A
// TierMask is a set of tiers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class TierId : std::uint8_t { kDevice, kHost, kDisk };
inline constexpr std::size_t kTiers = 3;
inline constexpr std::array kTierIds = {TierId::kDevice, TierId::kHost, TierId::kDisk};

inline constexpr std::size_t IndexOf(TierId tier) { return static_cast<std::size_t>(tier); }

using TierMask = std::uint8_t;
inline constexpr TierMask MaskOf(TierId tier) { return static_cast<TierMask>(1U << IndexOf(tier)); }
inline constexpr bool Has(TierMask mask, TierId tier) { return (mask & MaskOf(tier)) != 0; }
// All tiers below `tier`.
inline constexpr TierMask LowerCopiesMask(TierId tier) {
  constexpr unsigned kAll = (1U << kTiers) - 1U;
  return static_cast<TierMask>(kAll & ~((2U << IndexOf(tier)) - 1U));
}

inline constexpr std::string_view Name(TierId tier) {
  constexpr std::array<std::string_view, kTiers> kNames = {"device", "host", "disk"};
  return kNames.at(IndexOf(tier));
}

}  // namespace spillway
