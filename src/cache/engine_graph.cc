// The step graph in the engine: what it says of keys becomes outlooks of
// entries, heard change by change. What it says is a hint; how often it was
// right is counted, and a graph that is mostly wrong orders nobody.
#include <algorithm>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/mutant.h"
#include "base/room_for_one.h"
#include "cache/engine.h"
#include "cache/use_log.h"

namespace spillway {

namespace {
// Time alone changes what a graph says; so often is it asked again.
constexpr Duration kHearEvery = std::chrono::milliseconds(100);
// A step of unknown length, to compare advice without steps with steps.
constexpr double kStepS = 10;
// Of about so many foretellings the share that came true decides; it is not
// believed any more below the one, and again above the other.
constexpr double kForetellings = 64;
// "Again" without a time: most come back within a minute or two.
constexpr Duration kAgainIn = std::chrono::minutes(1);
constexpr Duration kFarthest = std::chrono::hours(24);
constexpr std::size_t kSoonMax = 1024;
constexpr double kTrustLeast = 0.5;
constexpr double kTrustAgain = 0.65;

Outlook::Kind KindOf(const KeyFacts& facts) {
  if (facts.retired) return Outlook::Kind::kDead;
  if (facts.running) return Outlook::Kind::kRunning;
  return facts.steps == 0U ? Outlook::Kind::kNext : Outlook::Kind::kWanted;
}
}  // namespace

void Engine::Attach(std::shared_ptr<StepGraph> graph, Cache::AgentOrder order, TimePoint now) {
  if (graph_ == nullptr && graph == nullptr) return;
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    if (graph_ != nullptr && store_->IsLive(store_->IdOf(slot))) Unforesee(slot, false);
  }
  graph_ = std::move(graph);
  outside_ = std::move(order);
  agents_.clear();
  heard_ = graph_version_ = starts_seen_ = mispredictions_seen_ = 0;
  heard_at_ = TimePoint();
  right_ = wrong_ = 0;
  trusted_ = true;
  attached_ = outlooks_.in_force = false;
  outlooks_.armed = outlooks_.armed || graph_ != nullptr;
  soon_.clear();
  soon_.reserve(kSoonMax);  // Who is dropped and wanted soon is noted without memory.
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    if (!store_->IsLive(store_->IdOf(slot))) continue;
    if (graph_ != nullptr) Introduce(slot, now);
    Enter(slot);
  }
  if (outside_) AskOutside(now);
  if (graph_ != nullptr) Hear(now);
}

// An order of agents is a run in which they follow one another, the last named
// first: it could start now.
void Engine::AskOutside(TimePoint now) {
  static constexpr std::string_view kRun = "outside";
  std::vector<std::string> agents = outside_();
  if (agents == agents_) return;
  agents_ = std::move(agents);
  (void)graph_->EndRun(kRun, RunState::kFinished, now);
  if (agents_.empty() || !graph_->BeginRun(kRun, {}, now)) return;
  std::string before;
  for (auto agent = agents_.rbegin(); agent != agents_.rend(); ++agent) {
    // What is no name, or named twice, is passed over.
    if (!graph_->AddStep(kRun, {*agent, *agent}, now)) continue;
    if (!before.empty()) (void)graph_->AddEdge(kRun, {before, *agent}, now);
    before = *agent;
  }
}

void Engine::Follow(TimePoint now) {
  if (scores_ != nullptr) HearUses(now);
  if (graph_ == nullptr || closed_) return;
  outlooks_.now = now;
  if (outside_ && now - heard_at_ >= kHearEvery) AskOutside(now);
  if (graph_->told() == heard_ && now - heard_at_ < kHearEvery) return;
  if (MutantOn(Mutant::kGraphChangesMissed) && heard_ != 0) return;
  try {
    Hear(now);
  } catch (const std::bad_alloc&) {
    // The version is the old one: it is heard the next time.
  }
}

void Engine::FollowExactly(TimePoint now) {
  if (graph_ != nullptr) (void)graph_->ChangedSince(graph_->version(), now);  // Settles all of it.
  heard_at_ = TimePoint();
  Follow(now);
}

// Throws bad_alloc, and is as it was or further.
void Engine::Hear(TimePoint now) {
  outlooks_.now = now;
  heard_ = graph_->told();
  heard_at_ = now;
  told_.clear();
  const Pulse pulse = graph_->VisitChanges(
      graph_version_, now, [this](std::string_view key, const KeyFacts& facts) {
        const std::uint32_t slot = store_->index().Lookup(store_->index().HashOf(key), key);
        if (slot != kNoSlot) told_.push_back({store_->IdOf(slot), facts});
      });
  for (const Told& told : told_) {
    if (store_->IsLive(told.id)) Foresee(told.id.slot, told.facts, now);
  }
  graph_version_ = pulse.version;
  for (const Told& told : told_) {
    if (store_->IsLive(told.id) && told.facts.known) LinkUp(told.id.slot);
  }
  attached_ = pulse.attached;
  Trust(pulse);
  const bool by_name = top_->firm->policy.name == "workflow";
  outlooks_.in_force = trusted_ && (attached_ || by_name || MutantOn(Mutant::kIdleGraphOrders));
  PrefetchAhead(now);
}

void Engine::Foresee(std::uint32_t slot, const KeyFacts& facts, TimePoint now) {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  Outlook* outlook = outlooks_.Find(id);
  if (outlook == nullptr && !facts.known) return;
  if (outlook != nullptr && !facts.running) Judge(*outlook, slot);
  const bool over = !facts.known || facts.retired || facts.steps;
  if (outlook != nullptr && outlook->advised && over) JudgeAdvice(*outlook, slot);
  if (facts.known) outlook = outlooks_.Make(id);
  for (const TierId tier : kTierIds) {
    if (Has(record.copies, tier)) state(tier).LineOf(record).foresight.Left(id);
  }
  if (!facts.known) {
    outlooks_.Erase(id);
  } else {
    const bool ran = outlook->kind == Outlook::Kind::kRunning;
    outlook->kind = KindOf(facts);
    outlook->bytes = store_->slots().slot(slot).size;
    outlook->eta_s = facts.eta_ms / 1000;
    outlook->steps = facts.steps.value_or(
        1 + static_cast<std::uint32_t>(std::clamp(outlook->eta_s / kStepS, 0.0, 1e9)));
    outlook->p = facts.p;
    outlook->conf = facts.conf;
    outlook->as_of = now;
    outlook->running_since = facts.running_since;
    outlook->advised = !facts.steps && !facts.retired;
    if (!ran) {
      outlook->uses_then = LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load());
    }
    ++outlook->version;
    NoteSoon(*outlook, now);
  }
  for (const TierId tier : kTierIds) {
    if (!Has(record.copies, tier)) continue;
    Line& line = state(tier).LineOf(record);
    Facts read;
    if (line.view.Read(id, &read) && !line.foresight.Entered(id, read)) line.lacks_somebody = true;
  }
}

// The step that used it is over: did it?
void Engine::Judge(const Outlook& outlook, std::uint32_t slot) {
  if (outlook.kind != Outlook::Kind::kRunning) return;
  const std::uint64_t uses = LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load());
  if (uses != outlook.uses_then || store_->Leases(slot) != store_->PinsOf(slot)) return;
  // When it began it was taken for right.
  right_ = std::max(right_ - 1, 0.0);
  wrong_ += 1;
}

void Engine::Advise(std::string_view key, const Advice& advice, TimePoint now) {
  if (advice.empty()) return;
  if (uses_ != nullptr) uses_->Hear(key, advice.hint);
  if (scores_ != nullptr) TellScores(key, advice, now);
  if (graph_ == nullptr) return;
  const Hint hint = advice.hint;
  const double p = hint == Hint::kDone ? 0 : again_right_ / (again_right_ + again_wrong_);
  const Duration when = std::clamp(advice.eta.value_or(kAgainIn), Duration::zero(), kFarthest);
  try {
    if (!advice.step.empty()) BindToStep(advice.step, key, now);
    // Full is no matter.
    if (hint != Hint::kNone) (void)graph_->Advise(key, when, p, now);
    Follow(now);
  } catch (const std::bad_alloc&) {
    // It was a hint.
  }
}

// `step` is RUN/STEP: the key is of that step's agent.
void Engine::BindToStep(std::string_view step, std::string_view key, TimePoint now) {
  const std::size_t slash = step.rfind('/');
  if (slash == std::string_view::npos) return;
  const std::string_view run = step.substr(0, slash);
  const Result<std::string> agent = graph_->AgentOf(run, step.substr(slash + 1));
  if (agent) (void)graph_->Bind(run, *agent, key, KeyKind::kHistory, now);
}

// Said to be used again by a client, and its time is over.
void Engine::JudgeAdvice(const Outlook& outlook, std::uint32_t slot) {
  const std::uint64_t uses = LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load());
  (uses != outlook.uses_then ? again_right_ : again_wrong_) += 1;
  const double all = again_right_ + again_wrong_;
  if (all > kForetellings) {
    again_right_ *= kForetellings / all;
    again_wrong_ *= kForetellings / all;
  }
}

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
  // A few are no evidence.
  const double share = (right_ + 4) / (right_ + wrong_ + 4);
  trusted_ = share >= (trusted_ ? kTrustLeast : kTrustAgain);
}

void Engine::Introduce(std::uint32_t slot, TimePoint now) {
  const Slot& where = store_->slots().slot(slot);
  try {
    const std::string_view agent = AgentOf(where, store_->slots().record(slot));
    // Full is no matter: then it is not known.
    if (!agent.empty()) (void)graph_->Own(agent, where.key());
    const KeyFacts facts = graph_->Glance(where.key(), now);
    if (!facts.known) return;
    Foresee(slot, facts, now);
    // A running step that sets it has used it, whether it is read besides or not.
    Outlook* const outlook = outlooks_.Find(store_->IdOf(slot));
    if (outlook != nullptr && outlook->kind == Outlook::Kind::kRunning) outlook->uses_then = 0;
    LinkUp(slot);
  } catch (const std::bad_alloc&) {
    // It counts as unknown until the graph says something new of it.
  }
}

// Who wants it wants what it continues.
void Engine::LinkUp(std::uint32_t slot) {
  for (;;) {
    Outlook* const outlook = outlooks_.Find(store_->IdOf(slot));
    if (outlook != nullptr && std::exchange(outlook->linked, true)) return;
    const std::uint32_t parent = store_->ParentOf(slot);
    if (parent == kNoSlot) return;
    if (!graph_->Link(store_->slots().slot(slot).key(), store_->slots().slot(parent).key())) return;
    slot = parent;
  }
}

void Engine::Unforesee(std::uint32_t slot, bool for_good) {
  const EntryId id = store_->IdOf(slot);
  const Slot& where = store_->slots().slot(slot);
  const Record& record = store_->slots().record(slot);
  for (const TierId tier : kTierIds) {
    if (Has(record.copies, tier)) state(tier).LineOf(record).foresight.Left(id);
  }
  const bool known = outlooks_.Find(id) != nullptr;
  outlooks_.Erase(id);
  const std::string_view agent = AgentOf(where, record);
  if (!agent.empty()) graph_->Disown(agent, where.key());
  if (for_good && (known || !agent.empty())) graph_->Forget(where.key());
}

bool Engine::Spared(const TierState& tier, std::uint32_t slot) const {
  if (!outlooks_.in_force) return false;
  return tier.firm->foresight.Spares(store_->IdOf(slot), store_->FactsOf(slot, tier.id));
}

// Two lines, of those it knows and of those it does not, joined as Foresight
// joins them.
std::vector<std::string> Engine::ForeseenOrder() const {
  const TierId top = store_->top();
  const Line& line = *top_->firm;
  struct Candidate {
    EntryId id;
    Facts facts;
  };
  const auto after = [&](const Candidate& a, const Candidate& b) {
    return line.foresight.Before(b.id, b.facts, a.id, a.facts);
  };
  std::unordered_map<std::uint32_t, std::uint32_t> children;
  std::array<std::vector<Candidate>, 2> heaps;
  const auto consider = [&](std::uint32_t slot, std::uint32_t left) {
    if (left > 0 || store_->Leases(slot) > 0) return;
    const Candidate candidate{store_->IdOf(slot), store_->FactsOf(slot, top)};
    if (line.foresight.Spares(candidate.id, candidate.facts)) return;
    auto& heap = heaps[outlooks_.Find(candidate.id) == nullptr ? 0 : 1];
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
  std::vector<std::string> out;
  while (!heaps[0].empty() || !heaps[1].empty()) {
    std::size_t from = heaps[0].empty() ? 1 : 0;
    if (!heaps[0].empty() && !heaps[1].empty() && after(heaps[0].front(), heaps[1].front())) {
      from = 1;
    }
    auto& heap = heaps[from];
    std::pop_heap(heap.begin(), heap.end(), after);
    const std::uint32_t slot = heap.back().id.slot;
    heap.pop_back();
    out.emplace_back(store_->slots().slot(slot).key());
    const std::uint32_t parent = store_->ParentOf(slot);
    if (parent != kNoSlot && Has(store_->slots().record(parent).copies, top)) {
      consider(parent, --children[parent]);
    }
  }
  return out;
}

}  // namespace spillway
