// SPDX-License-Identifier: Apache-2.0
// A Rule says, for a level, which entries may be evicted, what is done to them and how much to
// free. Rules are pure: the same level and facts give the same answer. The Order decides which of
// the allowed entries comes first.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway {

// One action, repeated until its goal is reached or no entry qualifies any more.
struct Stage {
  // Only entries idle strictly longer than this; empty: all.
  std::optional<Duration> idle_over;
  Reason reason = Reason::kIdle;
  // kDestroy: evict to the next lower tier that can take it; in the last tier, destroy. kDemote:
  // evict only if a lower tier can take it; with the preset seed and no lower tier, mark it as
  // offloaded, still readable.
  Action action = Action::kDestroy;
  // Rank by last use instead of the order in force.
  bool by_last_use = false;
  // The level at which the order in force ranks. Empty: the current one.
  std::optional<Level> ranked_at;

  // Ends when projected pressure is under `target`, or after `count` entries. Neither: when no
  // entry qualifies any more.
  std::optional<double> target;
  std::optional<std::size_t> count;
};

// What a level asks for: at most two stages, in sequence.
struct Relief {
  std::array<Stage, 2> stages;
  std::size_t size = 0;

  const Stage* begin() const { return stages.data(); }
  const Stage* end() const { return stages.data() + size; }
  void Add(const Stage& stage) { stages.at(size++) = stage; }
};

// What a rule may know about the tier.
struct TierFacts {
  std::size_t entries = 0;
  bool has_lower = false;  // There is a lower tier that may take entries.
};

// Called on the engine's strand.
class Rule {
 public:
  virtual ~Rule() = default;
  // What to do at this level.
  virtual Relief For(Level level, const TierFacts& facts) const = 0;
  // What to do when pressure is unknown and our own bytes exceed the threshold of PRESSURE.
  // Stage::target is then a share of our own capacity.
  virtual Relief ForUnknown() const = 0;

  // When the policy runs, besides Apply and changes of level.
  virtual bool RunsOnEverySample() const = 0;
  virtual bool RunsAfterSet(Level level) const = 0;
  // Whether bytes evicted since a sample are subtracted from it until the next sample.
  virtual bool corrects_samples() const = 0;
  // Whether entries form chains: children are evicted before parents.
  virtual bool keeps_lineage() const = 0;
};

// The settings that rules use.
struct RuleSettings {
  Thresholds thresholds;
  double exit_band = 0.02;
  Duration idle_normal = std::chrono::seconds(120);
  Duration idle_critical = std::chrono::seconds(30);
  // The reason reported for the PRESSURE stage: kHeavy for the table's own order, kOrder for all
  // others.
  Reason order_reason = Reason::kHeavy;
};

}  // namespace spillway
