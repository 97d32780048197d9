// SPDX-License-Identifier: Apache-2.0
// What a set may evict, and when it may be refused.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "sim/judge_first.h"

namespace spillway::sim {

namespace {

template <typename T>
T Over(T have, T most) {
  return have > most ? have - most : 0;
}

}  // namespace

void Judge::BeginWholeSet(const Newcomer& newcomer, TimePoint now) {
  BeginAdmit(newcomer, false, now);
  whole_ = true;
}

void Judge::EndWholeSet(const Status& status) {
  if (doing_ == Doing::kAdmit) {
    const EntryNo reservation = EndAdmit(status);
    if (reservation == kNobody) return;
    BeginCommit(reservation, false, now_);
  }
  EndCommit(status);
}

// For a set in one event: whether this removal belongs to the commit. If there is no
// room, admission removes the old generation early, unless it is leased.
bool Judge::ComesWithCommit(const Event& event) const {
  if (refusal_) return false;
  if (event.reason == Reason::kHeavy || event.reason == Reason::kIdle) return true;
  if (event.reason != Reason::kReplaced || event.key != model_.key(newcomer_.key)) return false;
  const EntryNo old = model_.LiveOf(newcomer_.key);
  return !LackFor(newcomer_).room() || (old != kNobody && model_.at(old).leases > 0);
}

void Judge::BeginAdmit(const Newcomer& newcomer, bool too_late, TimePoint now) {
  Begin(Doing::kAdmit, now);
  whole_ = false;
  newcomer_ = newcomer;
  too_late_ = too_late;
  reserve_lack_.reset();
  refusals_before_ = *setting_.refusals;
  left_for_memory_ = 0;
  refusal_ = WhyRefused();
}

// While pressure is unknown the tier does not grow.
Bytes Judge::GrowthLimit() const {
  if (setting_.capacity == Tier::kUnlimited || !pressure_.unknown()) return setting_.capacity;
  return std::min(setting_.capacity, pressure_.ceiling());
}

Judge::Lack Judge::LackFor(const Newcomer& newcomer) const {
  const EntryNo old = model_.LiveOf(newcomer.key);
  Lack lack;
  lack.bytes = Over(model_.bytes() + newcomer.size, GrowthLimit());
  lack.names = Over(model_.names() + newcomer.names, setting_.options.names_bytes_max);
  lack.slots = Over(model_.slots() + 1, setting_.options.entries_max);
  if (setting_.options.token_budget) {
    const Tokens replaced = old == kNobody ? 0 : model_.at(old).tokens;
    lack.tokens =
        Over(model_.live_sums().tokens + model_.reserved_sums().tokens + newcomer.tokens - replaced,
             *setting_.options.token_budget);
  }
  return lack;
}

// Whether all evictable entries together are enough.
bool Judge::CanBeMet(const Lack& lack, EntryNo old, bool old_goes_first) {
  const Sums held = model_.HeldBack(old_goes_first ? old : kNobody);
  const Sums& live = model_.live_sums();
  // The old generation's tokens are not counted any more: removing it yields none,
  // unless it was one of the entries held back.
  const Tokens counted = old == kNobody || model_.WasHeldBack(old) ? 0 : model_.at(old).tokens;
  return live.bytes - held.bytes >= lack.bytes && live.names - held.names >= lack.names &&
         live.entries - held.entries >= lack.slots &&
         live.tokens - held.tokens - counted >= lack.tokens;
}

std::optional<Code> Judge::WhyRefused() {
  if (too_late_) return Code::kDeadline;
  pressure_.CheckAge(model_.bytes(), now_);
  if (pressure_.level() == Level::kEmergency) return Code::kBlocked;
  const std::optional<Tokens>& budget = setting_.options.token_budget;
  if (budget && newcomer_.tokens > *budget) return Code::kOverBudget;
  const Lack lack = LackFor(newcomer_);
  if (!lack.any()) return std::nullopt;
  const EntryNo old = model_.LiveOf(newcomer_.key);
  const bool old_goes_first = old != kNobody && lack.room() && model_.at(old).leases == 0;
  if (CanBeMet(lack, old, old_goes_first)) return std::nullopt;
  return lack.room() ? Code::kBlocked : Code::kOverBudget;
}

EntryNo Judge::EndAdmit(const Status& status) {
  doing_ = Doing::kNothing;
  const auto set = [&] { return fmt::format("set '{}'", Printable(model_.key(newcomer_.key))); };
  if (refusal_) {
    if (status || status.error().code != *refusal_) {
      Fail(*refusal_ == Code::kDeadline ? kAllOrNothing : kLevelAndRefusal,
           fmt::format("{} should have been refused with {} (level {}), the answer was {}", set(),
                       Name(*refusal_), Name(pressure_.level()),
                       status ? "ok" : status.error().message));
    }
    if (departures_ > 0) Fail(kAllOrNothing, set() + " was refused, and yet somebody left for it");
    return kNobody;
  }
  const std::uint64_t refusals = *setting_.refusals - refusals_before_;
  if (!status) {
    const Code code = status.error().code;
    const bool known = code == Code::kNoMemory || (code == Code::kBusy && *setting_.lock_stuck);
    if (!known || refusals != left_for_memory_ + 1) {
      Fail(kLevelAndRefusal,
           fmt::format("{} was refused without need: {}", set(), status.error().message));
    }
    return kNobody;
  }
  if (refusals > left_for_memory_) {
    Fail(kAccounting, set() + " was admitted, though the tier refused it memory");
  }
  if (LackFor(newcomer_).any()) {
    const bool fits = model_.bytes() + newcomer_.size <= setting_.capacity;
    Fail(pressure_.unknown() && fits ? kLevelAndRefusal : kAccounting,
         set() + " was admitted, but bytes, tokens, names or slots are lacking");
  }
  if (const Bytes lack = ReserveLack(); lack > 0) {
    const Bytes possible = model_.live_sums().bytes - model_.HeldBack(kNobody).bytes;
    if (possible >= lack) {
      Fail(kWhoLeaves, fmt::format("{} grew into the reserve by {} bytes; {} could have left",
                                   set(), lack, possible));
    }
  }
  return model_.Reserve(newcomer_);
}

void Judge::LeavesForSet(const Event& event, EntryNo entry) {
  const Entry& e = model_.at(entry);
  if (refusal_) {
    return Fail(kAllOrNothing, fmt::format("set '{}' is to be refused, and makes {} leave for {}",
                                           Printable(model_.key(newcomer_.key)), Describe(entry),
                                           Name(event.reason)));
  }
  const Lack lack = LackFor(newcomer_);
  switch (event.reason) {
    case Reason::kReplaced:
      if (e.key != newcomer_.key || !lack.room() || departures_ > 0) {
        return Fail(kWhoLeaves, Describe(entry) + " was replaced before its time");
      }
      if (e.leases > 0) Fail(kLeases, Describe(entry) + " was replaced early, though leased");
      return;
    case Reason::kRoom:
    case Reason::kBudget:
      if (lack.any()) return LeavesForRoom(event, entry, lack);
      if (event.reason == Reason::kRoom) return LeavesForMemory(event, entry);
      return Fail(kWhoLeaves, Describe(entry) + " left for the budget, but nothing was lacking");
    case Reason::kReserve:
      if (lack.any())
        return Fail(kWhoLeaves, Describe(entry) + " left for the reserve before there was room");
      return LeavesForReserve(event, entry);
    default:
      return Fail(kAllOrNothing,
                  fmt::format("{} left for {} when '{}' was set", Describe(entry),
                              Name(event.reason), Printable(model_.key(newcomer_.key))));
  }
}

void Judge::LeavesForRoom(const Event& event, EntryNo entry, const Lack& lack) {
  if (event.reason != (lack.room() ? Reason::kRoom : Reason::kBudget)) {
    return Fail(kWhoLeaves,
                Describe(entry) + " left for the wrong reason: " + std::string(Name(event.reason)));
  }
  const EntryNo old = model_.LiveOf(newcomer_.key);
  if (lack.room() && old != kNobody && departures_ == 0 && model_.at(old).leases == 0) {
    return Fail(kWhoLeaves,
                Describe(entry) + " left, though the key's own old generation goes first");
  }
  CheckOrderName(event, NameOf(InForce(pressure_.level())));
  CheckFirst(InForce(pressure_.level()), entry, [&](const Entry& e) {
    const Tokens tokens = e.key == newcomer_.key ? 0 : e.tokens;
    const bool helps = (lack.bytes > 0 && e.size > 0) || (lack.tokens > 0 && tokens > 0) ||
                       (lack.names > 0 && e.names > 0) || lack.slots > 0;
    return helps || model_.ParentOf(e) != kNobody;
  });
}

// The account had room, but the card had not: one entry is evicted after each refusal.
void Judge::LeavesForMemory(const Event& event, EntryNo entry) {
  const std::uint64_t refusals = *setting_.refusals - refusals_before_;
  if (refusals != left_for_memory_ + 1) {
    return Fail(kWhoLeaves, Describe(entry) + " left for room, but nothing was lacking");
  }
  (void)ReserveLack();
  if (left_for_memory_++ == 0) {
    memory_floor_ =
        model_.bytes() - std::min(model_.bytes(), 2 * newcomer_.size + setting_.tier_capacity / 16);
  }
  if (model_.bytes() <= memory_floor_) {
    return Fail(kWhoLeaves, Describe(entry) + " left, though emptying more of ours helps nobody");
  }
  CheckOrderName(event, NameOf(InForce(pressure_.level())));
  CheckFirst(InForce(pressure_.level()), entry, [](const Entry&) { return true; });
}

// How far admitting the new entry would go into the reserve.
Bytes& Judge::ReserveLack() {
  if (!reserve_lack_) {
    reserve_lack_ = 0;
    if (setting_.reserve > 0 && !pressure_.unknown() && pressure_.total() > 0) {
      const Bytes reserve = pressure_.Raised(setting_.reserve);
      reserve_lack_ =
          std::min(newcomer_.size, Over(reserve + newcomer_.size, pressure_.Free(model_.bytes())));
    }
  }
  return *reserve_lack_;
}

void Judge::LeavesForReserve(const Event& event, EntryNo entry) {
  Bytes& lack = ReserveLack();
  if (lack == 0)
    return Fail(kWhoLeaves, Describe(entry) + " left for the reserve, which was whole");
  CheckOrderName(event, NameOf(InForce(pressure_.level())));
  CheckFirst(InForce(pressure_.level()), entry,
             [&](const Entry& e) { return e.size > 0 || model_.ParentOf(e) != kNobody; });
  lack -= std::min(lack, model_.at(entry).size);
}

}  // namespace spillway::sim
