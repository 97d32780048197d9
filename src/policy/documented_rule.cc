// SPDX-License-Identifier: Apache-2.0
// The mode table: what each level evicts.
#include "base/mutant.h"
#include "policy/policy.h"

namespace spillway {

namespace {

class DocumentedRule final : public Rule {
 public:
  explicit DocumentedRule(const RuleSettings& settings) : settings_(settings) {}

  Relief For(Level level, const TierFacts& facts) const override {
    Relief relief;
    switch (level) {
      case Level::kRelaxed:
        if (MutantOn(Mutant::kRelaxedEvicts)) relief.Add(Idle(settings_.idle_normal));
        break;
      case Level::kNormal: {
        Stage stage = Idle(settings_.idle_normal);
        stage.target = settings_.thresholds.normal - settings_.exit_band;
        if (MutantOn(Mutant::kReliefOvershoots)) stage.target.reset();
        if (MutantOn(Mutant::kIdleLimitIgnored)) *stage.idle_over /= 2;
        relief.Add(stage);
        break;
      }
      case Level::kPressure:
        relief.Add(ByOrder(Action::kDestroy));
        break;
      case Level::kCritical:
        if (facts.has_lower) {
          Stage offload = Idle(settings_.idle_critical);
          offload.action = Action::kDemote;
          offload.by_last_use = true;
          offload.target = Target();
          relief.Add(offload);
          relief.Add(ByOrder(Action::kDemote));
        } else {
          relief.Add(ByOrder(Action::kDestroy));
        }
        break;
      case Level::kEmergency: {
        Stage all = Idle(settings_.idle_critical);
        all.by_last_use = true;
        if (MutantOn(Mutant::kEmergencyTakesFresh)) *all.idle_over /= 2;
        relief.Add(all);
        if (facts.has_lower) relief.Add(ByOrder(Action::kDemote));
        break;
      }
    }
    return relief;
  }

  Relief ForUnknown() const override {
    Relief relief;
    Stage stage = ByOrder(Action::kDestroy);
    stage.target = settings_.thresholds.pressure;
    stage.ranked_at = Level::kPressure;  // Ranks as at PRESSURE, whatever the last known level.
    relief.Add(stage);
    return relief;
  }

  bool RunsOnEverySample() const override { return true; }
  bool RunsAfterSet(Level) const override { return false; }
  bool corrects_samples() const override { return true; }
  bool keeps_lineage() const override { return true; }

 private:
  double Target() const { return settings_.thresholds.pressure - settings_.exit_band; }

  static Stage Idle(Duration over) {
    Stage stage;
    stage.idle_over = over;
    stage.reason = Reason::kIdle;
    return stage;
  }

  Stage ByOrder(Action action) const {
    Stage stage;
    stage.action = action;
    stage.reason = settings_.order_reason;
    stage.target = Target();
    return stage;
  }

  const RuleSettings settings_;
};

}  // namespace

std::unique_ptr<Rule> MakeDocumentedRule(const RuleSettings& settings) {
  return std::make_unique<DocumentedRule>(settings);
}

}  // namespace spillway
