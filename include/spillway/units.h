// SPDX-License-Identifier: Apache-2.0
// The quantities that all folders use. They are defined here, at the bottom, so that no include has
// to point upward.
#pragma once

#include <chrono>
#include <cstdint>

namespace spillway {

using Bytes = std::uint64_t;
using Tokens = std::int64_t;  // Signed, so that a negative count can be detected and refused.
using Duration = std::chrono::nanoseconds;

// The cache's own time line. It has no now(): time comes in through a Clock, so that a test or a
// simulation can control it.
struct Timeline {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  static constexpr bool is_steady = true;
};
using TimePoint = std::chrono::time_point<Timeline, Duration>;

// One stored generation of a key inside one cache. `slot` is the index of its record; `tag` (the
// low bits of the generation) tells it from earlier and later entries in the same slot.
struct EntryId {
  std::uint32_t slot = 0xffffffffU;
  std::uint32_t tag = 0;
  friend bool operator==(EntryId a, EntryId b) { return a.slot == b.slot && a.tag == b.tag; }
  friend bool operator!=(EntryId a, EntryId b) { return !(a == b); }
};

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;

// Limits. A key is 1 to 64 Ki arbitrary bytes. One entry may have at most kTokensMax tokens: that
// is ten thousand contexts of 100 K tokens, so a larger number is a mistake.
inline constexpr Bytes kKeyBytesMax = 64 * kKiB;
// Number of groups that keys can be divided into (Options::key_group).
inline constexpr std::size_t kKeyGroups = 16;
inline constexpr Bytes kAgentBytesMax = kKiB;
inline constexpr Bytes kMetaBytesMax = 64 * kKiB;
inline constexpr Tokens kTokensMax = 1'000'000'000;

}  // namespace spillway
