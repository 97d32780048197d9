// The learnt score in the engine: it hears who comes, goes and is used, what a
// copy takes, and says who goes below at once. What is learnt is a matter of
// order only: without memory for it, or without it, all else is as it was.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include <fmt/format.h>

#include "base/times.h"
#include "cache/engine.h"
#include "policy/score_order.h"

namespace spillway {

namespace {

// Any live entry, wherever it is.
class AnyView final : public FactReader {
 public:
  explicit AnyView(const Store* store) : store_(store) {}
  bool Read(EntryId id, Facts* facts) const override {
    if (!store_->IsLive(id)) return false;
    *facts = store_->FactsOf(id.slot, store_->top());
    return true;
  }
  RankMarks* Marks(EntryId) const override { return nullptr; }
  void Prefetch(EntryId id) const override {
    if (id.slot >= store_->slots().high_water()) return;
    __builtin_prefetch(&store_->slots().slot(id.slot));
    __builtin_prefetch(&store_->slots().record(id.slot));
  }

 private:
  const Store* const store_;
};

ScoreOrder& ScoredBy(Line& line) { return static_cast<ScoreOrder&>(*line.policy.order); }

// Until it is measured more finely: what a read waits before its first byte.
double LatencyOf(TierId from) { return from == TierId::kDisk ? 1e-3 : 5e-5; }

}  // namespace

Engine::SparedParent::SparedParent(Engine* engine, const NewEntry& entry)
    : scores_(engine->scores_.get()) {
  if (scores_ == nullptr) return;
  scores_->Expect(entry.hash);
  scores_->Spare(engine->ParentNamed(entry));
}

Engine::SparedParent::~SparedParent() {
  if (scores_ != nullptr) scores_->Spare({});
}

bool Engine::RanksByScore() const { return scores_ != nullptr && !scores_->by_recency(); }

bool Engine::ScoresLackSomebody() { return scores_ != nullptr && scores_->TakeLack(); }

void Engine::WentDown(std::uint32_t slot) {
  scores_->WentDown(store_->IdOf(slot), store_->FactsOf(slot, store_->top()));
}

void Engine::OpenScores() {
  if (settings_.options.policy != "score") return;
  any_view_ = std::make_unique<AnyView>(store_.get());
  scores_ = std::make_unique<EntryScores>(any_view_.get(), settings_.options.history_entries,
                                          settings_.options.entries_max);
  missed_ = std::make_unique<MissRing>();
}

EntryId Engine::ParentNamed(const NewEntry& entry) const {
  if (entry.options.parent.empty()) return {};
  const std::string_view name = entry.options.parent;
  const std::uint32_t slot = store_->index().Lookup(store_->index().HashOf(name), name);
  return slot == kNoSlot ? EntryId{} : store_->IdOf(slot);
}

void Engine::HearUses(TimePoint now) {
  scores_->Advance(now, store_->bytes(store_->top()));
  missed_->TakeAll([&](std::uint64_t hash) {
    try {
      scores_->Missed(hash, now);
    } catch (const std::bad_alloc&) {
      // It is noted when it is set.
    }
  });
}

bool Engine::MayBeNoted(std::uint64_t hash) const {
  return EntryScores::InSample(hash) || notes_others_.load(std::memory_order_relaxed);
}

bool Engine::GoesWithoutNote(std::uint32_t slot, const Facts& facts) const {
  const Record& record = store_->slots().record(slot);
  return record.extra == nullptr && !record.parent_declared() &&
         EntryScores::GoesWithout(facts,
                                  store_->slots().slot(slot).hash.load(std::memory_order_relaxed));
}

void Engine::Welcome(std::uint32_t slot, TimePoint now) {
  const Facts facts = store_->FactsOf(slot, store_->top());
  if (GoesWithoutNote(slot, facts)) return scores_->PlainCame(facts.bytes);
  MakeNote(slot, facts, now);
}

void Engine::MakeNote(std::uint32_t slot, const Facts& facts, TimePoint now) {
  const std::uint32_t parent = store_->ParentOf(slot);
  const EntryScores::Newcomer who{
      .id = store_->IdOf(slot),
      .hash = store_->slots().slot(slot).hash.load(std::memory_order_relaxed),
      .parent = parent == kNoSlot ? EntryId{} : store_->IdOf(parent)};
  if (!EntryScores::InSample(who.hash)) notes_others_.store(true, std::memory_order_relaxed);
  try {
    scores_->Welcome(who, facts, store_->bytes(store_->top()), now);
  } catch (const std::bad_alloc&) {
    // It counts as one of whom nothing is known.
  }
}

void Engine::Farewell(std::uint32_t slot, Reason reason, TimePoint now) {
  const bool for_good = reason == Reason::kErased || reason == Reason::kCleared;
  const EntryId id = store_->IdOf(slot);
  const Facts facts = store_->FactsOf(slot, store_->top());
  if (EntryScores::LooksPlain(facts) && scores_->Find(id) == kNoNote) {
    return scores_->PlainGone(facts.bytes);
  }
  scores_->Gone(id, facts, for_good, now);
}

// In place: the old generation has gone, and the new one is there.
void Engine::Renewed(EntryId old, const Facts& facts, std::uint32_t slot, TimePoint now) {
  if (EntryScores::LooksPlain(facts) && scores_->Find(old) == kNoNote) {
    scores_->PlainGone(facts.bytes);
  } else {
    scores_->Gone(old, facts, false, now);
  }
  Welcome(slot, now);
}

// What is said of it has to be kept somewhere.
void Engine::NoteWhatWasPlain(std::uint32_t slot, TimePoint now) {
  const EntryId id = store_->IdOf(slot);
  const Facts facts = store_->FactsOf(slot, store_->top());
  if (scores_->Find(id) != kNoNote || !EntryScores::LooksPlain(facts)) return;
  const Record& record = store_->slots().record(slot);
  scores_->PlainGone(facts.bytes);
  MakeNote(slot, facts, now);
  for (const TierId tier : kTierIds) {
    if (!Has(record.copies, tier)) continue;
    Line& line = state(tier).LineOf(record);
    line.policy.order->Left(id);
    line.Enter(id);
  }
}

void Engine::TellScores(std::string_view key, const Advice& advice, TimePoint now) {
  const std::uint32_t slot = store_->index().Lookup(store_->index().HashOf(key), key);
  if (slot == kNoSlot) return;
  const EntryId id = store_->IdOf(slot);
  // Of RUN/STEP the step: runs come and go, their steps are alike.
  const std::string_view step =
      advice.step.substr(advice.step.rfind('/') + 1).substr(0, kAgentBytesMax);
  try {
    HearUses(now);
    if (!advice.empty()) NoteWhatWasPlain(slot, now);
    scores_->Tell(id, advice.hint, advice.eta, step);
    if (advice.recompute) {
      scores_->Declare(id, InSeconds(*advice.recompute), store_->slots().record(slot).tokens);
    }
  } catch (const std::bad_alloc&) {
    // It was a hint.
  }
}

// What comes up from a tier tells what it will cost to come up again.
void Engine::MeasureCopy(const Move& transfer, TimePoint now) {
  if (transfer.to >= transfer.from || !transfer.status) return;
  const double took = InSeconds(now - transfer.started) - LatencyOf(transfer.from);
  if (took <= 0) return;
  const double rate = static_cast<double>(transfer.bytes) / took;
  double& known = copy_rates_[IndexOf(transfer.from)];
  known = known == 0 ? rate : known + (rate - known) / 8;
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    if (tier->last() || tier->below->id != transfer.from) continue;
    for (Line* line : {tier->firm.get(), tier->backed.get()}) {
      ScoredBy(*line).SetBelow(known, LatencyOf(transfer.from));
    }
  }
}

// Whether a newcomer had better go to the tier below: it is worth less than who
// would have to leave for it, and there is somewhere to go.
bool Engine::BetterBelow(TierState& tier, const NewEntry& entry, TimePoint now) {
  if (tier.last() || tier.below->blocked() || tier.below->id == TierId::kDisk) return false;
  if (entry.bytes > GrowthLimit(*tier.below) || Lacking(*tier.below, entry.bytes) > 0) return false;
  const std::optional<double> least = ScoredBy(*tier.backed).LeastWorth();
  if (!least) return false;
  try {
    const EntryScores::Newcomer who{.id = {}, .hash = entry.hash, .parent = ParentNamed(entry)};
    const double declared = entry.options.recompute ? InSeconds(*entry.options.recompute) : 0.0;
    const double cost = ScoredBy(*tier.backed).CostOf(declared, entry.options.tokens, entry.bytes);
    if (scores_->RateOfNewcomer(who, now) * cost >= *least) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  ++sent_below_;
  return true;
}

void Engine::CountScores(ScoreStats* stats) const {
  if (scores_ == nullptr) return;
  stats->in_use = true;
  stats->leads = !scores_->by_recency();
  stats->returns = static_cast<std::uint64_t>(scores_->returns());
  stats->remembered = scores_->remembered();
  stats->fallbacks = scores_->guard().fallbacks();
  stats->ghost_hits = scores_->ghost_hits();
  stats->sent_below = sent_below_;
  stats->prefill_s = scores_->prefill_s();
}

// What graph, hints and score know of its next use, and who of them counts.
std::string Engine::ExplainWorth(std::uint32_t slot, TierId tier, TimePoint now) const {
  const EntryId id = store_->IdOf(slot);
  const Facts facts = store_->FactsOf(slot, tier);
  const Outlook* const outlook = outlooks_.Find(id);
  const Line& line = state(tier).LineOf(store_->slots().record(slot));
  const Appraiser* const learnt = line.policy.order->appraiser();
  std::string out;
  if (outlook != nullptr) {
    if (!outlook->wanted()) {
      out += "\nThe graph: nobody wants it any more.";
    } else if (outlook->kind == Outlook::Kind::kRunning) {
      out += "\nThe graph: a running step uses it.";
    } else if (const double eta = EtaOf(*outlook, now); !std::isfinite(eta)) {
      out += "\nThe graph: no live run is known to come to it.";
    } else {
      out += fmt::format(
          "\n{}: {} steps until its use, in {:.1f} s, likely to {:.2f}, trusted {:.2f}.",
          outlook->advised ? "A client's word" : "The graph", outlook->steps, eta, outlook->p,
          outlook->conf);
    }
  }
  if (learnt == nullptr && outlook == nullptr) return out;
  const bool known = outlook != nullptr && outlooks_.in_force;
  const double otherwise =
      learnt != nullptr && learnt->speaks() ? learnt->Rate(id, facts) : RateByIdleness(facts, now);
  const double rate = known ? RateOf(*outlook, otherwise, now) : otherwise;
  const std::string_view by = known ? (outlook->advised ? "a client's word" : "the graph")
                              : learnt != nullptr && learnt->speaks() ? "what such ones did before"
                                                                      : "how long it is idle";
  out += fmt::format("\n{:.5f} uses a second are expected, by {}.", rate, by);
  if (learnt == nullptr) return out;
  const double miss_s = learnt->MissCost(id, facts) * static_cast<double>(facts.bytes);
  const NoteId note = scores_->Find(id);
  if (note != kNoNote) {
    const Note& of = scores_->note(note);
    const std::string_view waits_for = scores_->StateName(of);
    out += fmt::format(" Used {} times in all, turn {}{}{}{}.", of.uses, of.turn,
                       waits_for.empty() ? "" : ", waits for ", waits_for,
                       of.hint == kSaidDone    ? ", said to be done"
                       : of.hint >= kSaidAgain ? ", said to be used again"
                                               : "");
  }
  out += fmt::format(" A miss would cost {:.3g} s.", miss_s);
  if (scores_->guard().leader() != Leader::kScore) {
    out += " Of late last use has done better than the score, and ranks instead of it.";
  } else if (!scores_->knows()) {
    out += " Too little has been learnt yet: last use ranks.";
  }
  return out;
}

}  // namespace spillway
