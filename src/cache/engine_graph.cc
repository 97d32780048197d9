// SPDX-License-Identifier: Apache-2.0
// The step graph in the engine: what it predicts of keys becomes next uses of entries,
// read change by change. Predictions are hints. The engine counts how often they were
// right, and a graph that is mostly wrong orders nothing.
#include <algorithm>
#include <new>
#include <ranges>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutant.h"
#include "base/reserve_one.h"
#include "cache/engine.h"
#include "cache/use_log.h"

namespace spillway {

namespace {
// Time alone changes what a graph predicts, so it is read again this often.
constexpr Duration kHearEvery = std::chrono::milliseconds(100);
// Assumed length of a step, to compare advice without steps with steps.
constexpr double kStepS = 10;
// The share that came true of about this many predictions decides: the graph is
// distrusted below kTrustLeast, and trusted again above kTrustAgain.
constexpr double kForetellings = 64;
// "Again" without a time: most entries are used again within a minute or two.
constexpr Duration kAgainIn = std::chrono::minutes(1);
constexpr Duration kFarthest = std::chrono::hours(24);
constexpr std::size_t kSoonMax = 1024;
constexpr double kTrustLeast = 0.5;
constexpr double kTrustAgain = 0.65;

NextUse::Kind KindOf(const KeyFacts& facts) {
  if (facts.retired) return NextUse::Kind::kDead;
  if (facts.running) return NextUse::Kind::kRunning;
  return facts.steps == 0U ? NextUse::Kind::kNext : NextUse::Kind::kWanted;
}
}  // namespace

void Engine::Attach(std::shared_ptr<StepGraph> graph, Cache::AgentOrder order, TimePoint now) {
  if (graph_ == nullptr && graph == nullptr) return;
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    if (graph_ != nullptr && store_->IsLive(store_->IdOf(slot))) ForgetNextUse(slot, false);
  }
  graph_ = std::move(graph);
  outside_ = std::move(order);
  agents_.clear();
  heard_ = graph_version_ = starts_seen_ = mispredictions_seen_ = 0;
  heard_at_ = TimePoint();
  right_ = wrong_ = 0;
  trusted_ = true;
  attached_ = next_uses_.in_force = false;
  next_uses_.armed = next_uses_.armed || graph_ != nullptr;
  soon_.clear();
  soon_.reserve(kSoonMax);  // NoteSoon must need no memory.
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    if (!store_->IsLive(store_->IdOf(slot))) continue;
    if (graph_ != nullptr) Introduce(slot, now);
    Enter(slot);
  }
  if (outside_) AskOutside(now);
  if (graph_ != nullptr) SyncGraphChanges(now);
}

// An order of agents is a run in which they follow one another, the last named one
// first: it could start now.
void Engine::AskOutside(TimePoint now) {
  static constexpr std::string_view kRun = "outside";
  std::vector<std::string> agents = outside_();
  if (agents == agents_) return;
  agents_ = std::move(agents);
  (void)graph_->EndRun(kRun, RunState::kFinished, now);
  if (agents_.empty() || !graph_->BeginRun(kRun, {}, now)) return;
  std::string before;
  for (const std::string& agent : std::views::reverse(agents_)) {
    // Empty names and names given twice are skipped.
    if (!graph_->AddStep(kRun, {agent, agent}, now)) continue;
    if (!before.empty()) (void)graph_->AddEdge(kRun, {before, agent}, now);
    before = agent;
  }
}

void Engine::SyncGraph(TimePoint now) {
  if (scores_ != nullptr) TakeReportedUses(now);
  if (graph_ == nullptr || closed_) return;
  next_uses_.now = now;
  if (outside_ && now - heard_at_ >= kHearEvery) AskOutside(now);
  if (graph_->told() == heard_ && now - heard_at_ < kHearEvery) return;
  if (MutantOn(Mutant::kGraphChangesMissed) && heard_ != 0) return;
  try {
    SyncGraphChanges(now);
  } catch (const std::bad_alloc&) {
    // The version is still the old one: the next call reads the changes again.
  }
}

void Engine::SyncGraphExactly(TimePoint now) {
  if (graph_ != nullptr) (void)graph_->ChangedSince(graph_->version(), now);  // Updates all keys.
  heard_at_ = TimePoint();
  SyncGraph(now);
}

// Throws bad_alloc; then it has read nothing or a part.
void Engine::SyncGraphChanges(TimePoint now) {
  next_uses_.now = now;
  heard_ = graph_->told();
  heard_at_ = now;
  told_.clear();
  // Collects first: the visitor must not call the graph, as LinkUp does below.
  const Pulse pulse = graph_->VisitChanges(
      graph_version_, now, [this](std::string_view key, const KeyFacts& facts) {
        const std::uint32_t slot = store_->index().Lookup(store_->index().HashOf(key), key);
        if (slot != kNoSlot) told_.push_back({store_->IdOf(slot), facts});
      });
  for (const Told& told : told_) {
    if (store_->IsLive(told.id)) UpdateNextUse(told.id.slot, told.facts, now);
  }
  graph_version_ = pulse.version;
  for (const Told& told : told_) {
    if (store_->IsLive(told.id) && told.facts.known) LinkUp(told.id.slot);
  }
  attached_ = pulse.attached;
  Trust(pulse);
  const bool by_name = top_->dirty->policy.name == "workflow";
  next_uses_.in_force = trusted_ && (attached_ || by_name || MutantOn(Mutant::kIdleGraphOrders));
  PrefetchAhead(now);
}

// Updates the next use of an entry. It must leave its queues first: they rank by that
// next use.
void Engine::UpdateNextUse(std::uint32_t slot, const KeyFacts& facts, TimePoint now) {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  NextUse* next_use = next_uses_.Find(id);
  if (next_use == nullptr && !facts.known) return;
  if (next_use != nullptr && !facts.running) Judge(*next_use, slot);
  const bool over = !facts.known || facts.retired || facts.steps;
  if (next_use != nullptr && next_use->advised && over) JudgeAdvice(*next_use, slot);
  if (facts.known) next_use = next_uses_.Make(id);
  for (const TierId tier : kTierIds) {
    if (Has(record.copies, tier)) state(tier).QueueOf(record).workflow_order.Left(id);
  }
  if (!facts.known) {
    next_uses_.Erase(id);
  } else {
    const bool ran = next_use->kind == NextUse::Kind::kRunning;
    next_use->kind = KindOf(facts);
    next_use->bytes = store_->slots().slot(slot).size;
    next_use->eta_s = facts.eta_ms / 1000;
    next_use->steps = facts.steps.value_or(
        1 + static_cast<std::uint32_t>(std::clamp(next_use->eta_s / kStepS, 0.0, 1e9)));
    next_use->p = facts.p;
    next_use->conf = facts.conf;
    next_use->as_of = now;
    next_use->running_since = facts.running_since;
    next_use->advised = !facts.steps && !facts.retired;
    if (!ran) {
      next_use->uses_then = LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load());
    }
    next_uses_.Changed(next_use);
    NoteSoon(*next_use, now);
  }
  for (const TierId tier : kTierIds) {
    if (!Has(record.copies, tier)) continue;
    EvictionQueue& queue = state(tier).QueueOf(record);
    Facts read;
    if (queue.view.Read(id, &read) && !queue.workflow_order.Entered(id, read))
      queue.lacks_entries = true;
  }
}

// The step that should have used the entry is over: checks whether it did.
void Engine::Judge(const NextUse& next_use, std::uint32_t slot) {
  if (next_use.kind != NextUse::Kind::kRunning) return;
  const std::uint64_t uses = LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load());
  if (uses != next_use.uses_then || store_->Leases(slot) != store_->PinsOf(slot)) return;
  // The prediction counted as right when the step began.
  right_ = std::max(right_ - 1, 0.0);
  wrong_ += 1;
}

void Engine::Advise(std::string_view key, const Advice& advice, TimePoint now) {
  if (advice.empty()) return;
  if (uses_ != nullptr) uses_->Record(key, advice.hint);
  if (scores_ != nullptr) TellScores(key, advice, now);
  if (graph_ == nullptr) return;
  const Hint hint = advice.hint;
  const double p = hint == Hint::kDone ? 0 : again_right_ / (again_right_ + again_wrong_);
  const Duration when = std::clamp(advice.eta.value_or(kAgainIn), Duration::zero(), kFarthest);
  try {
    if (!advice.step.empty()) BindToStep(advice.step, key, now);
    // A full graph ignores it.
    if (hint != Hint::kNone) (void)graph_->Advise(key, when, p, now);
    SyncGraph(now);
  } catch (const std::bad_alloc&) {
    // It was only a hint.
  }
}

// `step` is RUN/STEP: binds the key to the agent of that step.
void Engine::BindToStep(std::string_view step, std::string_view key, TimePoint now) {
  const std::size_t slash = step.rfind('/');
  if (slash == std::string_view::npos) return;
  const std::string_view run = step.substr(0, slash);
  const Result<std::string> agent = graph_->AgentOf(run, step.substr(slash + 1));
  if (agent) (void)graph_->Bind(run, *agent, key, KeyKind::kHistory, now);
}

// A client said that the entry would be used again, and that time is over.
void Engine::JudgeAdvice(const NextUse& next_use, std::uint32_t slot) {
  const std::uint64_t uses = LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load());
  (uses != next_use.uses_then ? again_right_ : again_wrong_) += 1;
  const double all = again_right_ + again_wrong_;
  if (all > kForetellings) {
    again_right_ *= kForetellings / all;
    again_wrong_ *= kForetellings / all;
  }
}

// Counts how many starts of steps the graph predicted, with older counts fading, and
// decides whether its order is used. Two thresholds, so that trust does not flap.
void Engine::Trust(const Pulse& pulse) {
  const auto starts = static_cast<double>(pulse.starts - starts_seen_);
  const auto wrong = static_cast<double>(pulse.mispredictions - mispredictions_seen_);
  starts_seen_ = pulse.starts;
  mispredictions_seen_ = pulse.mispredictions;
  right_ += std::max(starts - wrong, 0.0);
  wrong_ += wrong;
  const double all = right_ + wrong_;
  if (all > kForetellings) {
    right_ *= kForetellings / all;
    wrong_ *= kForetellings / all;
  }
  // A few predictions are no evidence.
  const double share = (right_ + 4) / (right_ + wrong_ + 4);
  trusted_ = share >= (trusted_ ? kTrustLeast : kTrustAgain);
}

void Engine::Introduce(std::uint32_t slot, TimePoint now) {
  const Slot& where = store_->slots().slot(slot);
  try {
    const std::string_view agent = AgentOf(where, store_->slots().record(slot));
    // A full graph does not learn it.
    if (!agent.empty()) (void)graph_->Own(agent, where.key());
    const KeyFacts facts = graph_->Glance(where.key(), now);
    if (!facts.known) return;
    UpdateNextUse(slot, facts, now);
    // A running step that sets the entry has used it, whether it reads it or not.
    NextUse* const next_use = next_uses_.Find(store_->IdOf(slot));
    if (next_use != nullptr && next_use->kind == NextUse::Kind::kRunning) next_use->uses_then = 0;
    LinkUp(slot);
  } catch (const std::bad_alloc&) {
    // It counts as unknown until the graph changes its prediction.
  }
}

// A step that wants an entry also wants its parents.
void Engine::LinkUp(std::uint32_t slot) {
  for (;;) {
    NextUse* const next_use = next_uses_.Find(store_->IdOf(slot));
    if (next_use != nullptr && std::exchange(next_use->linked, true)) return;
    const std::uint32_t parent = store_->ParentOf(slot);
    if (parent == kNoSlot) return;
    if (!graph_->Link(store_->slots().slot(slot).key(), store_->slots().slot(parent).key())) return;
    slot = parent;
  }
}

void Engine::ForgetNextUse(std::uint32_t slot, bool for_good) {
  const EntryId id = store_->IdOf(slot);
  const Slot& where = store_->slots().slot(slot);
  const Record& record = store_->slots().record(slot);
  for (const TierId tier : kTierIds) {
    if (Has(record.copies, tier)) state(tier).QueueOf(record).workflow_order.Left(id);
  }
  const bool known = next_uses_.Find(id) != nullptr;
  next_uses_.Erase(id);
  const std::string_view agent = AgentOf(where, record);
  if (!agent.empty()) graph_->Disown(agent, where.key());
  if (for_good && (known || !agent.empty())) graph_->Forget(where.key());
}

bool Engine::IsProtected(const TierState& tier, std::uint32_t slot) const {
  if (!next_uses_.in_force) return false;
  return tier.dirty->workflow_order.Protects(store_->IdOf(slot), store_->FactsOf(slot, tier.id));
}

// Two heaps, of entries with and without a known next use, merged as `WorkflowOrder` merges
// them.
std::vector<std::uint32_t> Engine::PredictedOrder() const {
  const TierId top = store_->top();
  const EvictionQueue& queue = *top_->dirty;
  struct Candidate {
    EntryId id;
    Facts facts;
  };
  const auto after = [&](const Candidate& a, const Candidate& b) {
    return queue.workflow_order.Before(b.id, b.facts, a.id, a.facts);
  };
  std::unordered_map<std::uint32_t, std::uint32_t> children;
  std::array<std::vector<Candidate>, 2> heaps;
  const auto consider = [&](std::uint32_t slot, std::uint32_t left) {
    if (left > 0 || store_->Leases(slot) > 0) return;
    const Candidate candidate{store_->IdOf(slot), store_->FactsOf(slot, top)};
    if (queue.workflow_order.Protects(candidate.id, candidate.facts)) return;
    auto& heap = heaps[next_uses_.Find(candidate.id) == nullptr ? 0 : 1];
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), after);
  };
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    const auto word = store_->slots().slot(slot).word.Load();
    if (LeaseWord::StateOf(word) != SlotState::kVisible) continue;
    if (!Has(store_->slots().record(slot).copies, top)) continue;
    const std::uint32_t count = store_->slots().record(slot).children[IndexOf(top)];
    if (count > 0) children[slot] = count;
    consider(slot, count);
  }
  std::vector<std::uint32_t> out;
  while (!heaps[0].empty() || !heaps[1].empty()) {
    std::size_t from = heaps[0].empty() ? 1 : 0;
    if (!heaps[0].empty() && !heaps[1].empty() && after(heaps[0].front(), heaps[1].front())) {
      from = 1;
    }
    auto& heap = heaps[from];
    std::pop_heap(heap.begin(), heap.end(), after);
    const std::uint32_t slot = heap.back().id.slot;
    heap.pop_back();
    out.push_back(slot);
    const std::uint32_t parent = store_->ParentOf(slot);
    if (parent != kNoSlot && Has(store_->slots().record(parent).copies, top)) {
      consider(parent, --children[parent]);
    }
  }
  return out;
}

}  // namespace spillway
