// SPDX-License-Identifier: Apache-2.0
// The learned score in the engine: it is told which entries are inserted, removed and
// used, and how long copies take, and it says which new entries go to a lower tier at
// once. What is learned only changes the order: without memory for it, everything else
// works the same.
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

// Any live entry, in any tier.
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

ScoreOrder& ScoredBy(EvictionQueue& queue) { return static_cast<ScoreOrder&>(*queue.policy.order); }

// The time before the first byte of a read, assumed until it is measured.
double LatencyOf(TierId from) { return from == TierId::kDisk ? 1e-3 : 5e-5; }

}  // namespace

Engine::ProtectedParent::ProtectedParent(Engine* engine, const NewEntry& entry)
    : scores_(engine->scores_.get()) {
  if (scores_ == nullptr) return;
  scores_->Expect(entry.hash);
  scores_->Protect(engine->ParentNamed(entry));
}

Engine::ProtectedParent::~ProtectedParent() {
  if (scores_ != nullptr) scores_->Protect({});
}

bool Engine::RanksByScore() const { return scores_ != nullptr && !scores_->by_recency(); }

bool Engine::ScoresAreIncomplete() { return scores_ != nullptr && scores_->TakeLack(); }

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

void Engine::TakeReportedUses(TimePoint now) {
  scores_->Advance(now, store_->bytes(store_->top()));
  missed_->TakeAll([&](std::uint64_t hash) {
    try {
      scores_->Missed(hash, now);
    } catch (const std::bad_alloc&) {
      // It is recorded when it is set.
    }
  });
}

void Engine::OnInsert(std::uint32_t slot, TimePoint now) {
  const std::uint32_t parent = store_->ParentOf(slot);
  const EntryScores::NewEntry who{
      .id = store_->IdOf(slot),
      .hash = store_->slots().slot(slot).hash.load(std::memory_order_relaxed),
      .parent = parent == kNoSlot ? EntryId{} : store_->IdOf(parent)};
  try {
    scores_->OnInsert(who, store_->FactsOf(slot, store_->top()), store_->bytes(store_->top()), now);
  } catch (const std::bad_alloc&) {
    // It counts as an entry of which nothing is known.
  }
}

// Erased keys are forgotten; evicted ones are remembered.
void Engine::OnRemove(std::uint32_t slot, Reason reason, TimePoint now) {
  const bool for_good = reason == Reason::kErased || reason == Reason::kCleared;
  scores_->Gone(store_->IdOf(slot), store_->FactsOf(slot, store_->top()), for_good, now);
}

void Engine::TellScores(std::string_view key, const Advice& advice, TimePoint now) {
  const std::uint32_t slot = store_->index().Lookup(store_->index().HashOf(key), key);
  if (slot == kNoSlot) return;
  const EntryId id = store_->IdOf(slot);
  // Of RUN/STEP only the step: runs end, but their steps are alike.
  const std::string_view step =
      advice.step.substr(advice.step.rfind('/') + 1).substr(0, kAgentBytesMax);
  try {
    TakeReportedUses(now);
    scores_->Tell(id, advice.hint, advice.eta, step);
    if (advice.recompute) {
      scores_->Declare(id, InSeconds(*advice.recompute), store_->slots().record(slot).tokens);
    }
  } catch (const std::bad_alloc&) {
    // It was only a hint.
  }
}

// A transfer up from a tier shows what the next one will cost.
void Engine::MeasureCopy(const Transfer& transfer, TimePoint now) {
  if (transfer.to >= transfer.from || !transfer.status) return;
  // What a small copy takes is chance and latency: it says nothing of bytes a second, and a rate
  // that swings gives all entries new places with each copy.
  constexpr Bytes kTellingBytes = 64 * kKiB;
  constexpr Duration kPlaceEvery = std::chrono::seconds(1);
  if (transfer.bytes < kTellingBytes) return;
  const double took = InSeconds(now - transfer.started) - LatencyOf(transfer.from);
  if (took <= 0) return;
  const double rate = static_cast<double>(transfer.bytes) / took;
  double& known = copy_rates_[IndexOf(transfer.from)];
  known = known == 0 ? rate : known + (rate - known) / 8;
  if (now - placed_below_ < kPlaceEvery) return;
  placed_below_ = now;
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    if (tier->last() || tier->below->id != transfer.from) continue;
    for (EvictionQueue* queue : {tier->dirty.get(), tier->clean.get()}) {
      ScoredBy(*queue).SetBelow(known, LatencyOf(transfer.from));
    }
  }
}

// Whether a new entry should go to the tier below: it is worth less than the entries
// that would be evicted for it, and there is room below.
bool Engine::BelongsBelow(TierState& tier, const NewEntry& entry, TimePoint now) {
  if (tier.last() || tier.below->blocked() || tier.below->id == TierId::kDisk) return false;
  if (entry.bytes > GrowthLimit(*tier.below) || Lacking(*tier.below, entry.bytes) > 0) return false;
  const std::optional<double> least = ScoredBy(*tier.clean).LeastWorth();
  if (!least) return false;
  try {
    const EntryScores::NewEntry who{.id = {}, .hash = entry.hash, .parent = ParentNamed(entry)};
    const double declared = entry.options.recompute ? InSeconds(*entry.options.recompute) : 0.0;
    const double cost = ScoredBy(*tier.clean).CostOf(declared, entry.options.tokens, entry.bytes);
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
  stats->active = !scores_->by_recency();
  stats->returns = static_cast<std::uint64_t>(scores_->returns());
  stats->remembered = scores_->remembered();
  stats->fallbacks = scores_->lru_fallback().fallbacks();
  stats->ghost_hits = scores_->ghost_hits();
  stats->sent_below = sent_below_;
  stats->prefill_s = scores_->prefill_s();
}

// What the graph, hints and the score predict of its next use, and which of them is in
// force.
std::string Engine::ExplainWorth(std::uint32_t slot, TierId tier, TimePoint now) const {
  const EntryId id = store_->IdOf(slot);
  const Facts facts = store_->FactsOf(slot, tier);
  const NextUse* const next_use = next_uses_.Find(id);
  const EvictionQueue& queue = state(tier).QueueOf(store_->slots().record(slot));
  const CostModel* const learnt = queue.policy.order->cost_model();
  std::string out;
  if (next_use != nullptr) {
    if (!next_use->wanted()) {
      out += "\nThe step graph: no step will use it again.";
    } else if (next_use->kind == NextUse::Kind::kRunning) {
      out += "\nThe step graph: a running step uses it.";
    } else if (const double eta = EtaOf(*next_use, now); !std::isfinite(eta)) {
      out += "\nThe step graph: no live run is known to reach it.";
    } else {
      out += fmt::format(
          "\n{}: {} steps until its use, in {:.1f} s, probability {:.2f}, confidence {:.2f}.",
          next_use->advised ? "A client's hint" : "The step graph", next_use->steps, eta,
          next_use->p, next_use->conf);
    }
  }
  if (learnt == nullptr && next_use == nullptr) return out;
  const bool known = next_use != nullptr && next_uses_.in_force;
  const double otherwise =
      learnt != nullptr && learnt->speaks() ? learnt->Rate(id, facts) : RateByIdleness(facts, now);
  const double rate = known ? RateOf(*next_use, otherwise, now) : otherwise;
  const std::string_view by =
      known ? (next_use->advised ? "from a client's hint" : "by the step graph")
      : learnt != nullptr && learnt->speaks() ? "learned from similar entries"
                                              : "from its idle time";
  out += fmt::format("\nPredicted {:.5f} accesses/s, {}.", rate, by);
  if (learnt == nullptr) return out;
  const double miss_s = learnt->MissCost(id, facts) * static_cast<double>(facts.bytes);
  const HistoryRecordId history = scores_->Find(id);
  if (history != kNoRecord) {
    const HistoryRecord& of = scores_->record(history);
    const std::string_view waits_for = scores_->StateName(of);
    out += fmt::format(" Used {} times in all, turn {}{}{}{}.", of.uses, of.turn,
                       waits_for.empty() ? "" : ", waits for ", waits_for,
                       of.hint == kSaidDone    ? ", said to be done"
                       : of.hint >= kSaidAgain ? ", said to be used again"
                                               : "");
  }
  out += fmt::format(" A miss would cost {:.3g} s.", miss_s);
  if (scores_->lru_fallback().steps_back()) {
    out += " LRU has recently done better than the score, and ranks instead of it.";
  } else if (!scores_->knows()) {
    out += " Too little has been learned yet: LRU ranks.";
  }
  return out;
}

}  // namespace spillway
