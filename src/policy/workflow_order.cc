// SPDX-License-Identifier: Apache-2.0
#include "policy/workflow_order.h"

#include <algorithm>
#include <array>
#include <new>
#include <tuple>
#include <utility>

#include "base/mutant.h"
#include "base/times.h"

namespace spillway {

double RateByIdleness(const Facts& facts, TimePoint now) {
  return 1 / (std::max(InSeconds(now - facts.last_use), 0.0) + 1);
}

double RateOf(const NextUse& next_use, double otherwise, TimePoint now) {
  if (!next_use.wanted()) return 0;
  const double eta = std::max(next_use.eta_s - InSeconds(now - next_use.as_of), 0.0);
  return next_use.conf * next_use.p / (eta + 1) + (1 - next_use.conf) * otherwise;
}

double RateOf(const NextUse& next_use, const Facts& facts, TimePoint now) {
  return RateOf(next_use, RateByIdleness(facts, now), now);
}

WorkflowOrder::Node WorkflowOrder::NodeOf(const NextUse& next_use, const Facts& facts) {
  return {next_use.kind,  next_use.steps, next_use.version, next_use.p,
          next_use.eta_s, facts.place,    next_use.id};
}

bool WorkflowOrder::IsEvictedBefore(const Node& a, const Node& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  if (a.kind == NextUse::Kind::kDead) return a.place < b.place;
  if (a.steps != b.steps) {
    return MutantOn(Mutant::kSoonestLeavesFirst) ? a.steps < b.steps : a.steps > b.steps;
  }
  if (a.p != b.p) return a.p < b.p;
  if (a.eta_s != b.eta_s) return a.eta_s > b.eta_s;
  return a.place < b.place;
}

bool WorkflowOrder::Entered(EntryId id, const Facts& facts) {
  NextUse* const next_use = next_uses_->Find(id);
  if (next_use == nullptr) return EnterUnknown(id, facts);
  if ((next_use->queued & bit_) != 0) return true;
  try {
    nodes_.push_back(NodeOf(*next_use, facts));
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::push_heap(nodes_.begin(), nodes_.end(), &After);
  next_use->queued = static_cast<std::uint8_t>(next_use->queued | bit_);
  if (next_use->kind == NextUse::Kind::kRunning) running_->bytes += next_use->bytes;
  return true;
}

void WorkflowOrder::Unqueue(NextUse* next_use) {
  next_use->queued = static_cast<std::uint8_t>(next_use->queued & ~bit_);
  if (next_use->kind == NextUse::Kind::kRunning) running_->bytes -= next_use->bytes;
}

bool WorkflowOrder::Protects(const NextUse& next_use, const Facts& facts) const {
  if (next_use.kind != NextUse::Kind::kRunning || MutantOn(Mutant::kRunningDestroyed)) return false;
  const TimePoint since = std::max(next_use.running_since, facts.last_use);
  return next_uses_->now - since < kProtectedFor && running_->bytes <= running_->most;
}

bool WorkflowOrder::Protects(EntryId id, const Facts& facts) const {
  const NextUse* const next_use = next_uses_->in_force ? next_uses_->Find(id) : nullptr;
  return next_use != nullptr && Protects(*next_use, facts);
}

void WorkflowOrder::Left(EntryId id) {
  unknown_.Left(id);
  NextUse* const next_use = next_uses_->FindAny(id);
  if (next_use == nullptr || (next_use->queued & bit_) == 0) return;
  Unqueue(next_use);
  if (++stale_ > nodes_.size() / 2 + 64) DropStale();
}

// Removes invalid nodes. Each entry keeps at most one node.
void WorkflowOrder::DropStale() {
  std::size_t kept = 0;
  for (const Node& node : nodes_) {
    NextUse* const next_use = next_uses_->FindAny(node.id);
    if (next_use == nullptr || next_use->version != node.version ||
        (next_use->queued & bit_) == 0) {
      continue;
    }
    next_use->queued = static_cast<std::uint8_t>(next_use->queued & ~bit_);
    nodes_[kept++] = node;
  }
  nodes_.resize(kept);
  for (const Node& node : nodes_) {
    NextUse* const next_use = next_uses_->FindAny(node.id);
    next_use->queued = static_cast<std::uint8_t>(next_use->queued | bit_);
  }
  std::make_heap(nodes_.begin(), nodes_.end(), &After);
  stale_ = 0;
}

void WorkflowOrder::Pop() {
  std::pop_heap(nodes_.begin(), nodes_.end(), &After);
  nodes_.pop_back();
}

EntryId WorkflowOrder::Take() {
  const EntryId id = nodes_.front().id;
  Unqueue(next_uses_->FindAny(id));
  Pop();
  return id;
}

const WorkflowOrder::Node* WorkflowOrder::Top(CandidateFilter filter, Facts* facts) {
  while (!nodes_.empty()) {
    const Node& top = nodes_.front();
    NextUse* const next_use = next_uses_->FindAny(top.id);
    if (next_use == nullptr || next_use->version != top.version || (next_use->queued & bit_) == 0) {
      Pop();
      if (stale_ > 0) --stale_;
      continue;
    }
    if (filter == CandidateFilter::kUnwanted && top.kind != NextUse::Kind::kDead) return nullptr;
    if (!reader_->Read(top.id, facts) || facts->children > 0) {
      Take();  // Removed, or not a leaf now; it is added again when it becomes one.
      continue;
    }
    // Among running entries, the first is unprotected only if the tier's limit is exceeded or its
    // time is over. In the second case those after it follow with the next call.
    if (filter == CandidateFilter::kNotProtected && Protects(*next_use, *facts)) return nullptr;
    if (top.kind == NextUse::Kind::kDead &&
        (next_use->doubted || facts->last_use > next_use->as_of)) {
      // The entry was used anyway: the prediction was wrong.
      const EntryId id = Take();
      next_uses_->Doubt(id);
      if (!EnterUnknown(id, *facts)) return nullptr;
      continue;
    }
    return &top;
  }
  return nullptr;
}

bool WorkflowOrder::EnterUnknown(EntryId id, const Facts& facts) {
  const bool noted = unknown_.Enter(id, facts);
  return (others_ == nullptr || others_->OnInsert(id, facts)) && noted;
}

double WorkflowOrder::WorthOf(const NextUse& next_use, const Facts& facts) const {
  const CostModel* const by = cost_model();
  if (by == nullptr) return RateOf(next_use, facts, next_uses_->now);
  const double learnt = by->Rate(next_use.id, facts);
  return RateOf(next_use, learnt, next_uses_->now) * by->MissCost(next_use.id, facts);
}

double WorkflowOrder::WorthOfUnknown(EntryId id, const Facts& facts) const {
  const CostModel* const by = cost_model();
  if (by == nullptr) return RateByIdleness(facts, next_uses_->now);
  return by->Rate(id, facts) * by->MissCost(id, facts);
}

// Entries whose next use has become known are moved to the nodes.
std::optional<EntryId> WorkflowOrder::NextUnknown(Facts* facts) {
  if (cost_model() != nullptr) {
    if (const std::optional<EntryId> next = NextByOthers(facts)) return next;
  }
  while (const std::optional<EntryId> next = unknown_.Next()) {
    if (others_ != nullptr) others_->OnRemove(*next);
    if (!reader_->Read(*next, facts)) continue;
    if (next_uses_->Find(*next) == nullptr || !Entered(*next, *facts)) return next;
  }
  return std::nullopt;
}

// If `others_` knows more than last use, it also ranks entries whose next use is known, and entries
// that were already taken. Both are skipped here and stay in that order. Empty: too many were
// skipped; the caller uses last use.
std::optional<EntryId> WorkflowOrder::NextByOthers(Facts* facts) {
  constexpr std::size_t kPassedMost = 64;
  std::array<EntryId, kPassedMost> passed;
  std::size_t count = 0;
  std::optional<EntryId> found;
  while (!found && count < kPassedMost) {
    const std::optional<EntryId> next = others_->NextByWorth();
    if (!next) break;
    if (!reader_->Read(*next, facts)) continue;
    if (!unknown_.Holds(*next)) {
      passed[count++] = *next;
      continue;
    }
    unknown_.Left(*next);
    if (next_uses_->Find(*next) == nullptr || !Entered(*next, *facts)) found = next;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Facts theirs;
    if (reader_->Read(passed[i], &theirs)) static_cast<void>(others_->OnInsert(passed[i], theirs));
  }
  return found;
}

std::optional<EntryId> WorkflowOrder::Next(CandidateFilter filter) {
  Facts known_facts;
  const Node* known = Top(filter, &known_facts);
  if (known != nullptr && known->kind == NextUse::Kind::kDead) return Take();
  Facts unknown_facts;
  const std::optional<EntryId> unknown = NextUnknown(&unknown_facts);
  known = Top(filter, &known_facts);  // It may have changed.
  if (known == nullptr) return unknown;
  if (!unknown) return Take();
  if (known->kind >= NextUse::Kind::kNext) return unknown;
  if (known->kind == NextUse::Kind::kWanted) {
    const double worth = WorthOf(*next_uses_->Find(known->id), known_facts);
    if (WorthOfUnknown(*unknown, unknown_facts) <= worth) return unknown;
  }
  if (!EnterUnknown(*unknown, unknown_facts)) return unknown;
  return Take();
}

bool WorkflowOrder::Before(EntryId a, const Facts& of_a, EntryId b, const Facts& of_b) const {
  const NextUse* const known_a = next_uses_->Find(a);
  const NextUse* const known_b = next_uses_->Find(b);
  if (known_a == nullptr && known_b == nullptr) {
    const auto key = [&](EntryId id, const Facts& of) {
      return cost_model() != nullptr ? others_->KeyOf(Level::kPressure, id, of)
                                     : unknown_.KeyFor(of);
    };
    const std::int64_t key_a = key(a, of_a);
    const std::int64_t key_b = key(b, of_b);
    return key_a != key_b ? key_a < key_b : of_a.place < of_b.place;
  }
  if (known_a != nullptr && known_b != nullptr) {
    return IsEvictedBefore(NodeOf(*known_a, of_a), NodeOf(*known_b, of_b));
  }
  const NextUse& known = known_a != nullptr ? *known_a : *known_b;
  bool known_leaves = known.kind == NextUse::Kind::kDead;
  if (known.kind == NextUse::Kind::kWanted) {
    known_leaves = WorthOf(known, known_a != nullptr ? of_a : of_b) <
                   WorthOfUnknown(known_a != nullptr ? b : a, known_a != nullptr ? of_b : of_a);
  }
  return known_leaves == (known_a != nullptr);
}

}  // namespace spillway
