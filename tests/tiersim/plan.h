// What a seed decides before anything happens: which tiers there are, how large
// they and the values are, the settings, who else wants the memory, and what
// goes wrong. Many things are drawn to be absent: a bug that needs two of them
// together is found more easily where there is nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/tier_id.h"
#include "sim/curve.h"
#include "spillway/options.h"

namespace spillway::tiersim {

// What can happen next, beside what is pending.
enum class Do : std::uint8_t {
  kSet,
  kGet,      // Waits for what is below.
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
  // What goes wrong.
  kTierRefuses,
  kFileFaults,
  kBitRot,
  kSlowDisk,
  kSourceFails,
  kRestart,
  kCrash,
  // Clients who know what comes next, or think so.
  kGraph,
  kHint,
  kCount
};
inline constexpr std::size_t kDos = static_cast<std::size_t>(Do::kCount);

struct TierPlan {
  bool there = false;
  Bytes capacity = 0;
  Bytes total = 0;  // Of what it stands on; samples are a share of it.
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
  std::size_t chain = 1;  // Keys in a row of which each continues the one before.
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

  std::size_t clients = 0;  // Operations under way at most.
  std::size_t leases_max = 0;
  std::uint32_t hurried_percent = 0;
  std::uint32_t queue_percent = 0;
  std::uint32_t slow_percent = 0;  // Moves that take long.
  std::uint32_t fail_percent = 0;  // Moves that fail.
  std::uint32_t tear_percent = 0;  // Moves whose landing gets other bytes.
  std::array<std::uint32_t, kDos> weights{};
  std::uint64_t weights_sum = 0;
};

}  // namespace spillway::tiersim
