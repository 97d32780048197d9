// SPDX-License-Identifier: Apache-2.0
// The rules of the small program that Spillway grew from: quarters instead of targets, marks
// instead of demotion, no chains, fixed limits.
#include <algorithm>

#include "policy/policy.h"

namespace spillway {

namespace {

class SeedRule final : public Rule {
 public:
  Relief For(Level level, const TierFacts& facts) const override {
    Stage stage;
    stage.by_last_use = true;
    switch (level) {
      case Level::kRelaxed:
        return {};
      case Level::kNormal:
        stage.idle_over = std::chrono::seconds(120);
        break;
      case Level::kPressure:
        stage.by_last_use = false;
        stage.reason = Reason::kHeavy;
        stage.count = std::max<std::size_t>(1, facts.entries / 4);
        break;
      case Level::kCritical:
        stage.idle_over = std::chrono::seconds(30);
        stage.action = Action::kDemote;
        break;
      case Level::kEmergency:
        stage.idle_over = std::chrono::seconds(30);
        break;
    }
    Relief relief;
    relief.Add(stage);
    return relief;
  }

  Relief ForUnknown() const override { return {}; }
  bool RunsOnEverySample() const override { return false; }
  bool RunsAfterSet(Level level) const override { return level >= Level::kPressure; }
  bool corrects_samples() const override { return false; }
  bool keeps_lineage() const override { return false; }
};

}  // namespace

std::unique_ptr<Rule> MakeSeedRule() { return std::make_unique<SeedRule>(); }

}  // namespace spillway
