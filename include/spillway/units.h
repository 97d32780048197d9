// The quantities every folder speaks of. They live at the bottom so that no
// include has to point upward.
#pragma once

#include <chrono>
#include <cstdint>

namespace spillway {

using Bytes = std::uint64_t;
using Tokens = std::int64_t;  // Signed, so that a negative count can be seen and refused.
using Duration = std::chrono::nanoseconds;

// The cache's own time line. It has no now(): time comes in through a Clock,
// so that a test or a simulation can be the one who moves it.
struct Timeline {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  static constexpr bool is_steady = true;
};
using TimePoint = std::chrono::time_point<Timeline, Duration>;

// One stored generation of a key inside one cache. `slot` says where its facts
// stand, `tag` (the low bits of its generation) tells it from the slot's
// earlier and later tenants.
struct EntryId {
  std::uint32_t slot = 0xffffffffU;
  std::uint32_t tag = 0;
  friend bool operator==(EntryId a, EntryId b) { return a.slot == b.slot && a.tag == b.tag; }
  friend bool operator!=(EntryId a, EntryId b) { return !(a == b); }
};

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;

// Borders. A key is any 1 to 64 Ki bytes; a single entry may claim at most
// this many tokens (ten thousand contexts of 100 K tokens: more is a mistake).
inline constexpr Bytes kKeyBytesMax = 64 * kKiB;
inline constexpr Bytes kAgentBytesMax = kKiB;
inline constexpr Bytes kMetaBytesMax = 64 * kKiB;
inline constexpr Tokens kTokensMax = 1'000'000'000;

}  // namespace spillway
