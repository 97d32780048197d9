// SPDX-License-Identifier: Apache-2.0
// Clients' predictions, right or wrong; and whether an entry evicted by them had to be
// next.
#include <fmt/format.h>

#include "tiersim/world_parts.h"

namespace spillway::tiersim {

namespace {
constexpr std::size_t kSteps = 6;
constexpr Duration kProtectedFor = std::chrono::minutes(10);

std::string StepName(std::size_t at) { return fmt::format("s{}", at); }
}  // namespace

// All of them are only hints: refusals are fine.
void World::DoGraph() {
  const std::string run = fmt::format("r{}", rng_.Below(3));
  const std::string step = StepName(rng_.Below(kSteps));
  switch (rng_.Below(8)) {
    case 0:
    case 1:
      return BeginRun(run);
    case 2:
    case 3:
    case 4:
      (void)graph_->Start(run, step, now());
      return;
    case 5:
    case 6:
      (void)graph_->Finish(run, step, now());
      return;
    default:
      if (rng_.OneIn(2)) (void)graph_->EndRun(run, RunState::kFinished, now());
  }
}

void World::BeginRun(const std::string& run) {
  if (!graph_->BeginRun(run, {run}, now())) return;
  for (std::size_t at = 0; at < kSteps; ++at) {
    (void)graph_->AddStep(run, {StepName(at), StepName(at)}, now());
    if (at > 0) (void)graph_->AddEdge(run, {StepName(at - 1), StepName(at)}, now());
    (void)graph_->Bind(run, StepName(at), ledger_.key(AnyKey()), KeyKind::kHistory, now());
  }
  if (rng_.OneIn(2)) {
    (void)graph_->AddEdge(run, {StepName(kSteps - 1), StepName(0), EdgeKind::kBack}, now());
  }
}

void World::DoHint() {
  const KeyNo key = AnyKey();
  const Waiting waiting(this);
  core_->Advise(ledger_.key(key),
                Advice(rng_.OneIn(2) ? Hint::kAgain : Hint::kDone, plan_.tick * 100, {}));
}

bool World::IsWanted(SetNo set) {
  if (graph_ == nullptr) return false;
  const KeyFacts facts = graph_->Facts(ledger_.key(ledger_.at(set).key), now());
  return facts.known && !facts.retired;
}

// Entries of a running step, within its time, and all of them together at most half of
// the tier.
bool World::MustBeProtected(TierId tier, SetNo set) {
  const SetInfo& info = ledger_.at(set);
  const KeyFacts facts = graph_->Facts(ledger_.key(info.key), now());
  if (!facts.running) return false;
  if (now() - std::max(facts.running_since, info.last_use) >= kProtectedFor) return false;
  Bytes running = info.size;
  for (KeyNo key = 0; key < plan_.keys.size(); ++key) {
    const SetNo other = ledger_.current(key);
    if (other == 0 || other == set) continue;
    if (graph_->Facts(ledger_.key(key), now()).running) running += ledger_.at(other).size;
  }
  return running <= store().capacity(tier) / 2;
}

void World::JudgeWorkflow(const Event& event, TierId tier, SetNo set) {
  if (graph_ == nullptr || event.order != "workflow" || verdict_.failed()) return;
  const bool gone = event.action == Action::kDestroy;
  const std::string& key = ledger_.key(ledger_.at(set).key);
  if (gone && MustBeProtected(tier, set)) {
    return Fail(sim::kWhoLeaves,
                fmt::format("'{}' was destroyed ({}), and its step runs", key, Name(event.reason)));
  }
  // Where the order alone decides: no entry further from its step may have stayed.
  const bool by_order = event.reason == Reason::kAsk || event.reason == Reason::kReserve ||
                        (event.reason == Reason::kOrder && event.level == Level::kPressure);
  const KeyFacts facts = graph_->Facts(key, now());
  if (!by_order || !facts.steps || facts.retired || facts.running) return;
  const bool last = (LowerCopiesMask(tier) & store().tiers()) == 0;
  // Destroyed although there is a tier below: its copy failed, and evicting another
  // entry would not have helped.
  if (gone && !last) return;
  // Entries with a copy below are no pressure: relief never takes them for one without.
  const bool backed =
      !gone && (store().slots().record(ledger_.at(set).slot).copies & LowerCopiesMask(tier)) != 0;
  for (KeyNo other = 0; other < plan_.keys.size(); ++other) {
    const SetNo that = ledger_.current(other);
    if (that == 0 || that == set) continue;
    const std::uint32_t slot = SlotOf(other);
    if (slot == kNoSlot || store().Leases(slot) > 0) continue;
    const Record& record = store().slots().record(slot);
    if (!Has(record.copies, tier) || record.has_children()) continue;
    if (last ? gone != (record.copies == MaskOf(tier)) : backed != record.clean_in(tier)) continue;
    // A copy that nobody below takes goes if there is one above; it may yet take this one.
    const bool stays =
        record.copies == MaskOf(tier) || ledger_.at(that).size < ledger_.at(set).size;
    const bool transfers = record.below != nullptr && record.below->transfer != nullptr;
    if (!last && !backed && (stays || transfers)) continue;
    const KeyFacts further = graph_->Facts(ledger_.key(other), now());
    if (!further.steps || further.retired || further.running) continue;
    if (*further.steps <= *facts.steps) continue;
    return Fail(sim::kWhoLeaves,
                fmt::format("'{}', {} steps away, left the {} tier ({}) before '{}', {} steps away",
                            key, *facts.steps, Name(tier), Name(event.reason), ledger_.key(other),
                            *further.steps));
  }
}

}  // namespace spillway::tiersim
