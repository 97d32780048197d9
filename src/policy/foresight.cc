#include "policy/foresight.h"

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

double RateOf(const Outlook& outlook, double otherwise, TimePoint now) {
  if (!outlook.wanted()) return 0;
  const double eta = std::max(outlook.eta_s - InSeconds(now - outlook.as_of), 0.0);
  return outlook.conf * outlook.p / (eta + 1) + (1 - outlook.conf) * otherwise;
}

double RateOf(const Outlook& outlook, const Facts& facts, TimePoint now) {
  return RateOf(outlook, RateByIdleness(facts, now), now);
}

Foresight::Node Foresight::NodeOf(const Outlook& outlook, const Facts& facts) {
  return {outlook.kind,  outlook.steps, outlook.version, outlook.p,
          outlook.eta_s, facts.place,   outlook.id};
}

bool Foresight::LeavesBefore(const Node& a, const Node& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  if (a.kind == Outlook::Kind::kDead) return a.place < b.place;
  if (a.steps != b.steps) {
    return MutantOn(Mutant::kSoonestLeavesFirst) ? a.steps < b.steps : a.steps > b.steps;
  }
  if (a.p != b.p) return a.p < b.p;
  if (a.eta_s != b.eta_s) return a.eta_s > b.eta_s;
  return a.place < b.place;
}

bool Foresight::Entered(EntryId id, const Facts& facts) {
  Outlook* const outlook = outlooks_->Find(id);
  if (outlook == nullptr) return EnterUnknown(id, facts);
  if ((outlook->queued & bit_) != 0) return true;
  try {
    nodes_.push_back(NodeOf(*outlook, facts));
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::push_heap(nodes_.begin(), nodes_.end(), &After);
  outlook->queued = static_cast<std::uint8_t>(outlook->queued | bit_);
  if (outlook->kind == Outlook::Kind::kRunning) running_->bytes += outlook->bytes;
  return true;
}

void Foresight::Unqueue(Outlook* outlook) {
  outlook->queued = static_cast<std::uint8_t>(outlook->queued & ~bit_);
  if (outlook->kind == Outlook::Kind::kRunning) running_->bytes -= outlook->bytes;
}

bool Foresight::Spares(const Outlook& outlook, const Facts& facts) const {
  if (outlook.kind != Outlook::Kind::kRunning || MutantOn(Mutant::kRunningDestroyed)) return false;
  const TimePoint since = std::max(outlook.running_since, facts.last_use);
  return outlooks_->now - since < kSparedFor && running_->bytes <= running_->most;
}

bool Foresight::Spares(EntryId id, const Facts& facts) const {
  const Outlook* const outlook = outlooks_->in_force ? outlooks_->Find(id) : nullptr;
  return outlook != nullptr && Spares(*outlook, facts);
}

void Foresight::Left(EntryId id) {
  unknown_.Left(id);
  Outlook* const outlook = outlooks_->Find(id);
  if (outlook == nullptr || (outlook->queued & bit_) == 0) return;
  Unqueue(outlook);
  if (++stale_ > nodes_.size() / 2 + 64) DropStale();
}

// Each entry keeps one place at most.
void Foresight::DropStale() {
  std::size_t kept = 0;
  for (const Node& node : nodes_) {
    Outlook* const outlook = outlooks_->Find(node.id);
    if (outlook == nullptr || outlook->version != node.version || (outlook->queued & bit_) == 0) {
      continue;
    }
    outlook->queued = static_cast<std::uint8_t>(outlook->queued & ~bit_);
    nodes_[kept++] = node;
  }
  nodes_.resize(kept);
  for (const Node& node : nodes_) {
    Outlook* const outlook = outlooks_->Find(node.id);
    outlook->queued = static_cast<std::uint8_t>(outlook->queued | bit_);
  }
  std::make_heap(nodes_.begin(), nodes_.end(), &After);
  stale_ = 0;
}

void Foresight::Pop() {
  std::pop_heap(nodes_.begin(), nodes_.end(), &After);
  nodes_.pop_back();
}

EntryId Foresight::Take() {
  const EntryId id = nodes_.front().id;
  Unqueue(outlooks_->Find(id));
  Pop();
  return id;
}

const Foresight::Node* Foresight::Top(Whom whom, Facts* facts) {
  while (!nodes_.empty()) {
    const Node& top = nodes_.front();
    Outlook* const outlook = outlooks_->Find(top.id);
    if (outlook == nullptr || outlook->version != top.version || (outlook->queued & bit_) == 0) {
      Pop();
      if (stale_ > 0) --stale_;
      continue;
    }
    if (whom == Whom::kUnwanted && top.kind != Outlook::Kind::kDead) return nullptr;
    if (!reader_->Read(top.id, facts) || facts->children > 0) {
      Take();  // Gone, or not a leaf now; it enters again when it is.
      continue;
    }
    // Of those who run the first is spared only if all are, or else for its time:
    // then those behind it wait for the next look.
    if (whom == Whom::kNotSpared && Spares(*outlook, *facts)) return nullptr;
    if (top.kind == Outlook::Kind::kDead && facts->last_use > outlook->as_of) {
      // Used all the same: what was said of it was wrong.
      const EntryId id = Take();
      outlooks_->Erase(id);
      if (!EnterUnknown(id, *facts)) return nullptr;
      continue;
    }
    return &top;
  }
  return nullptr;
}

bool Foresight::EnterUnknown(EntryId id, const Facts& facts) {
  const bool noted = unknown_.Enter(id, facts);
  return (others_ == nullptr || others_->Entered(id, facts)) && noted;
}

double Foresight::WorthOf(const Outlook& outlook, const Facts& facts) const {
  const Appraiser* const by = appraiser();
  if (by == nullptr) return RateOf(outlook, facts, outlooks_->now);
  const double learnt = by->Rate(outlook.id, facts);
  return RateOf(outlook, learnt, outlooks_->now) * by->MissCost(outlook.id, facts);
}

double Foresight::WorthOfUnknown(EntryId id, const Facts& facts) const {
  const Appraiser* const by = appraiser();
  if (by == nullptr) return RateByIdleness(facts, outlooks_->now);
  return by->Rate(id, facts) * by->MissCost(id, facts);
}

// Who has an outlook by now stands among the others.
std::optional<EntryId> Foresight::NextUnknown(Facts* facts) {
  if (appraiser() != nullptr) {
    if (const std::optional<EntryId> next = NextByOthers(facts)) return next;
  }
  while (const std::optional<EntryId> next = unknown_.Next()) {
    if (others_ != nullptr) others_->Left(*next);
    if (!reader_->Read(*next, facts)) continue;
    if (outlooks_->Find(*next) == nullptr || !Entered(*next, *facts)) return next;
  }
  return std::nullopt;
}

// An order that knows more than last use ranks those with an outlook as well:
// they are passed by, and so is who was taken already. Both stay in that order.
// Nobody: they are too many, and last use has to do.
std::optional<EntryId> Foresight::NextByOthers(Facts* facts) {
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
    if (outlooks_->Find(*next) == nullptr || !Entered(*next, *facts)) found = next;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Facts theirs;
    if (reader_->Read(passed[i], &theirs)) static_cast<void>(others_->Entered(passed[i], theirs));
  }
  return found;
}

std::optional<EntryId> Foresight::Next(Whom whom) {
  Facts known_facts;
  const Node* known = Top(whom, &known_facts);
  if (known != nullptr && known->kind == Outlook::Kind::kDead) return Take();
  Facts unknown_facts;
  const std::optional<EntryId> unknown = NextUnknown(&unknown_facts);
  known = Top(whom, &known_facts);  // It may be another now.
  if (known == nullptr) return unknown;
  if (!unknown) return Take();
  if (known->kind >= Outlook::Kind::kNext) return unknown;
  if (known->kind == Outlook::Kind::kWanted) {
    const double worth = WorthOf(*outlooks_->Find(known->id), known_facts);
    if (WorthOfUnknown(*unknown, unknown_facts) <= worth) return unknown;
  }
  if (!EnterUnknown(*unknown, unknown_facts)) return unknown;
  return Take();
}

bool Foresight::Before(EntryId a, const Facts& of_a, EntryId b, const Facts& of_b) const {
  const Outlook* const known_a = outlooks_->Find(a);
  const Outlook* const known_b = outlooks_->Find(b);
  if (known_a == nullptr && known_b == nullptr) {
    const auto key = [&](EntryId id, const Facts& of) {
      return appraiser() != nullptr ? others_->KeyOf(Level::kPressure, id, of)
                                    : unknown_.KeyFor(of);
    };
    const std::int64_t key_a = key(a, of_a);
    const std::int64_t key_b = key(b, of_b);
    return key_a != key_b ? key_a < key_b : of_a.place < of_b.place;
  }
  if (known_a != nullptr && known_b != nullptr) {
    return LeavesBefore(NodeOf(*known_a, of_a), NodeOf(*known_b, of_b));
  }
  const Outlook& known = known_a != nullptr ? *known_a : *known_b;
  bool known_leaves = known.kind == Outlook::Kind::kDead;
  if (known.kind == Outlook::Kind::kWanted) {
    known_leaves = WorthOf(known, known_a != nullptr ? of_a : of_b) <
                   WorthOfUnknown(known_a != nullptr ? b : a, known_a != nullptr ? of_b : of_a);
  }
  return known_leaves == (known_a != nullptr);
}

}  // namespace spillway
