// SPDX-License-Identifier: Apache-2.0
// What a seed decides before anything happens: which tiers there are, how large they
// and the values are, how clients behave, what goes wrong. Many things are drawn to be
// absent: a bug that needs two of them together is found more easily where there is
// nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cache/tier_id.h"
#include "server/settings.h"
#include "serversim/model.h"
#include "serversim/net.h"
#include "serversim/pool.h"
#include "sim/curve.h"
#include "spillway/options.h"

namespace spillway::serversim {

// What can happen next, beside what is ready to run.
enum class Do : std::uint8_t {
  kRequest,
  kConnect,
  kDisconnect,
  kSample,
  kTend,
  kLook,
  kDiskBackground,
  kStepClock,
  // What goes wrong.
  kTierRefuses,
  kFileFaults,
  kBitRot,
  kSlowDisk,
  kSourceFails,
  kSlowReader,
  kRestart,
  kCrash,
  kCount
};
inline constexpr std::size_t kDos = static_cast<std::size_t>(Do::kCount);

struct TierPlan {
  bool there = false;
  Bytes capacity = 0;
  Bytes total = 0;
  sim::Curve::Shape shape = sim::Curve::Shape::kFlat;
  double low = 0;
  double high = 0;
  Duration period{};
};

struct Plan {
  // `without`: names of commands, and of faults ("crash", "restart", "faults",
  // "disconnect", "large", "network": sockets that fill up, bytes in pieces), that are
  // not drawn.
  static Plan Draw(std::uint64_t seed, const std::set<std::string>& without);
  std::string Describe() const;
  bool Has(TierId tier) const { return tiers[IndexOf(tier)].there; }

  Options options;
  server::Settings server;
  std::array<TierPlan, kTiers> tiers;
  Bytes chunk = 0;
  bool sampled = false;
  Model::Rules rules;

  std::vector<std::string> keys;
  int databases = 1;  // 0 to this, but one.
  Bytes value_max = 0;
  std::uint32_t large_percent = 0;  // Values near the largest; the others are mostly small.
  std::uint64_t end_ms_max = 0;     // Longest own ttl.

  std::size_t clients = 1;
  std::size_t pipeline = 1;  // Requests that a client sends ahead of replies.
  Net::Shape net;
  std::uint32_t multi_percent = 0;
  std::size_t multi_max = 0;              // Commands in a transaction.
  std::uint32_t bulk_percent = 0;         // Of them whose replies are more than a client is kept.
  std::uint32_t unfinished_percent = 12;  // Of values in pieces that stay so.

  Duration tick{};
  std::uint32_t still_percent = 0;
  std::uint32_t queue_percent = 0;  // How often something that is ready runs.
  Pool::Faults moves;
  std::uint32_t load_percent =
      0;                // Restarts at which the disk has been read in before clients come.
  Duration load_lag{};  // So long a restart has not begun to read the disk in.
  std::uint32_t rot_percent = 0;     // Restarts at which the journal has been damaged meanwhile.
  std::uint32_t verify_percent = 0;  // Restarts behind which all keys are read.
  std::array<std::uint32_t, kDos> weights{};
  std::uint64_t weights_sum = 0;
  std::vector<std::uint32_t> commands;  // Weights, by the list in requests.cc.
  std::uint64_t commands_sum = 0;
};

}  // namespace spillway::serversim
