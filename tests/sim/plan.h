// SPDX-License-Identifier: Apache-2.0
// What a seed draws before anything happens: how large its world is, the cache's
// settings, what clients like to do and which faults occur. Swarm style: each seed
// gives some things no weight at all, so that worlds differ more than their average
// would.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/curve.h"
#include "sim/rng.h"
#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway::sim {

// What can happen besides running a pending task.
enum class Do : std::uint8_t {
  kSet,
  kGet,   // Lease and hold.
  kRead,  // Lease, read, release at once.
  kGetMany,
  kTouch,
  kContains,
  kRelease,
  kErase,
  kClear,
  kMatch,
  kChain,          // Match, leased as one.
  kBatch,          // Sets, gets, erases and touches in one.
  kBadSet,         // Not a legal set.
  kLook,           // Advances time.
  kTick,           // A pass without a sample.
  kHurriedRelief,  // One step of relief that runs out of time.
  kStats,          // Queries: stats, order, explain.
  kStartStop,
  // Faults.
  kRefuseMap,
  kSourceFails,
  kSourceHangs,
  kSourceLies,
  kClockSteps,
  kNeighbour,  // Takes or gives.
  kNeighbourDies,
  kCrash,
  kGraph,  // A run of the step graph begins or ends. Not drawn: see Plan::graph.
  kCount
};
inline constexpr std::size_t kDos = static_cast<std::size_t>(Do::kCount);

struct Plan {
  // --- the cache ---
  Options options;  // Without clock and listener.
  bool real_bytes = true;
  Bytes capacity = 0;  // Tier::kUnlimited: none.
  Bytes card = 0;
  Bytes chunk = 0;
  bool shared = false;
  Bytes reserve = 0;
  int hash_bits = 64;
  std::size_t moves_per_step = 4096;
  bool graph = false;  // A step graph is attached, whose runs want none of our keys.

  // --- the clients ---
  std::size_t clients = 1;
  std::size_t leases_max = 0;
  std::vector<std::string> keys;
  std::size_t hot_keys = 0;
  std::uint32_t hot_percent = 0;
  std::size_t chain = 1;  // Keys come in chains of this length.
  std::uint32_t parent_percent = 0;
  Bytes value_max = 0;
  bool equal_sizes = false;
  Tokens tokens_max = 0;
  std::uint32_t ttl_percent = 0;
  Duration ttl_max{};
  std::uint32_t names_percent = 0;    // Sets with agent and meta.
  std::uint32_t hurried_percent = 0;  // Operations with a deadline.
  std::size_t batch_max = 1;
  std::array<std::uint32_t, kDos> weights{};
  std::uint64_t weights_sum = 0;
  std::uint32_t queue_percent = 50;  // How often a pending task is run instead.

  // --- time and pressure ---
  Duration tick{};                  // An event takes up to twice this.
  std::uint32_t still_percent = 0;  // How often it takes none.
  bool sampled = false;             // A sample is taken every options.sample_period.
  // The curve is what others use; otherwise it is the pressure itself.
  bool foreign = true;
  bool real_card = false;  // The card gives the pressure; neighbours are the others.
  Curve::Shape shape = Curve::Shape::kFlat;
  double low = 0;
  double high = 0;
  Duration curve_period{};

  static Plan Draw(std::uint64_t seed);
  // One or two lines for people.
  std::string Describe() const;
};

}  // namespace spillway::sim
