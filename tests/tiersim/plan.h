// SPDX-License-Identifier: Apache-2.0
// What a seed decides before anything happens: which tiers there are, how large they
// and the values are, the settings, the memory that others want, and the faults. Many
// things are drawn to be absent: a bug that needs two of them together is found more
// easily if there is nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/tier_id.h"
#include "sim/curve.h"
#include "spillway/options.h"

namespace spillway::tiersim {

// What can happen next, besides running a pending task.
enum class Do : std::uint8_t {
  kSet,
  kGet,      // Waits for values in lower tiers.
  kGetInto,  // The same, into memory of the client's.
  kGetNow,   // Only what is in memory.
  kRelease,
  kErase,
  kClear,
  kTouch,
  kContains,
  kMatch,
  kPrefetch,
  kGiveBack,
  kSample,
  kTend,
  kLook,
  kStartStop,
  kDiskBackground,
  kStepClock,
  kStats,
  // Faults.
  kTierRefuses,
  kFileFaults,
  kBitRot,
  kSlowDisk,
  kSourceFails,
  kRestart,
  kCrash,
  // Clients' predictions, right or wrong.
  kGraph,
  kHint,
  // Changes of an entry's ttl.
  kDeadline,
  kCount
};
inline constexpr std::size_t kDos = static_cast<std::size_t>(Do::kCount);

struct TierPlan {
  bool there = false;
  Bytes capacity = 0;
  Bytes total = 0;  // Of the memory under it; samples are a share of it.
  sim::Curve::Shape shape = sim::Curve::Shape::kFlat;
  double low = 0;  // What others hold, as a share of `total`.
  double high = 0;
  Duration period{};
};

struct Plan {
  static Plan Draw(std::uint64_t seed);
  std::string Describe() const;
  static constexpr Bytes kPage = 4096;
  bool Has(TierId tier) const { return tiers[IndexOf(tier)].there; }

  Options options;
  std::array<TierPlan, kTiers> tiers;
  std::vector<std::string> keys;
  std::size_t chain = 1;  // Keys in a row, each of which continues the one before.
  std::uint32_t parent_percent = 0;
  Bytes value_max = 0;
  bool equal_sizes = false;
  Tokens tokens_max = 0;
  Bytes chunk = 0;
  bool shared = false;
  Bytes reserve = 0;
  int hash_bits = 64;
  std::size_t moves_per_step = 4096;

  Duration tick{};
  std::uint32_t still_percent = 0;
  std::uint32_t ttl_percent = 0;
  Duration ttl_max{};
  bool sampled = false;
  bool graph = false;

  std::size_t clients = 0;  // Most operations in flight.
  std::size_t leases_max = 0;
  std::uint32_t hurried_percent = 0;
  std::uint32_t queue_percent = 0;
  std::uint32_t slow_percent = 0;  // Transfers that take long.
  std::uint32_t fail_percent = 0;  // Transfers that fail.
  std::uint32_t gone_percent = 0;  // Writes of a key that was just removed.
  std::uint32_t kill_percent = 0;  // Kills as soon as a write has ended something for good.
  std::uint32_t tear_percent = 0;  // Transfers whose destination gets other bytes.
  std::array<std::uint32_t, kDos> weights{};
  std::uint64_t weights_sum = 0;
};

}  // namespace spillway::tiersim
