// A Rule says, for a level, who may leave, what is done to them and how far.
// Rules are pure: the same level and facts give the same answer. Who leaves
// first among those who may is the Order's to say.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway {

// One thing to do, until its end is reached or nobody qualifies any more.
struct Stage {
  // Only entries idle strictly longer than this; empty: all.
  std::optional<Duration> idle_over;
  Reason reason = Reason::kIdle;
  // kDestroy: leave to the next tier that can take it, destroyed off the last
  // one. kDemote: leave only if a lower tier can take it; with the preset seed
  // and no lower tier, marked as offloaded and still readable.
  Action action = Action::kDestroy;
  // Rank by last use rather than by the order in force.
  bool by_last_use = false;
  // The order in force ranks as at this level; empty: as at the current one.
  std::optional<Level> ranked_at;

  // Ends when projected pressure is under `target` or after `count` entries;
  // neither: when nobody qualifies any more.
  std::optional<double> target;
  std::optional<std::size_t> count;
};

// What a level asks for: at most two stages, one after the other.
struct Relief {
  std::array<Stage, 2> stages;
  std::size_t size = 0;

  const Stage* begin() const { return stages.data(); }
  const Stage* end() const { return stages.data() + size; }
  void Add(const Stage& stage) { stages.at(size++) = stage; }
};

struct TierFacts {
  std::size_t entries = 0;
  bool has_lower = false;  // Is there a tier below that may take something?
};

class Rule {
 public:
  virtual ~Rule() = default;
  virtual Relief For(Level level, const TierFacts& facts) const = 0;
  // What to do when pressure is unknown and our own bytes are over the bound
  // at which PRESSURE begins (Stage::target speaks of our own share then).
  virtual Relief ForUnknown() const = 0;

  // When the policy runs besides Apply and changes of level.
  virtual bool RunsOnEverySample() const = 0;
  virtual bool RunsAfterSet(Level level) const = 0;
  // Whether what left since a sample is taken off it until the next one.
  virtual bool corrects_samples() const = 0;
  // Whether entries form chains: children leave before parents.
  virtual bool keeps_lineage() const = 0;
};

struct RuleSettings {
  Thresholds thresholds;
  double exit_band = 0.02;
  Duration idle_normal = std::chrono::seconds(120);
  Duration idle_critical = std::chrono::seconds(30);
  // What the PRESSURE stage gives as its reason: kHeavy for the table's own
  // order, kOrder for any other.
  Reason order_reason = Reason::kHeavy;
};

}  // namespace spillway
