// SPDX-License-Identifier: Apache-2.0
// What each level asks for, written from the mode table, and expiry.
#include <algorithm>

#include <fmt/format.h>

#include "sim/judge_first.h"

namespace spillway::sim {

std::optional<Judge::Ask> Judge::AskedFor() const {
  const Options& options = setting_.options;
  const Level level = pressure_.level();
  const double band = options.exit_band;
  const bool heavy = (options.policy == "documented" && !attached_) || seed_;
  const Reason by_order = heavy ? Reason::kHeavy : Reason::kOrder;

  if (pressure_.unknown() && setting_.capacity != Tier::kUnlimited) {
    const double share =
        static_cast<double>(model_.bytes()) / static_cast<double>(setting_.capacity);
    const double most = options.thresholds.pressure;
    if (seed_ || PressureModel::Grain(share) <= PressureModel::Grain(most)) return std::nullopt;
    return Ask{
        .by = InForce(Level::kPressure), .reason = by_order, .target = most, .own_share = true};
  }
  if (seed_) {
    constexpr Duration kIdleNormal = std::chrono::seconds(120);
    constexpr Duration kIdleCritical = std::chrono::seconds(30);
    switch (level) {
      case Level::kRelaxed:
        return std::nullopt;
      case Level::kNormal:
        return Ask{.idle_over = kIdleNormal};
      case Level::kPressure:
        return Ask{.by = By::kWeight,
                   .reason = Reason::kHeavy,
                   .count = std::max<std::size_t>(1, model_.live().size() / 4)};
      case Level::kCritical:
        return Ask{.idle_over = kIdleCritical, .marks = true};
      case Level::kEmergency:
        return Ask{.idle_over = kIdleCritical};
    }
  }
  switch (level) {
    case Level::kRelaxed:
      return std::nullopt;
    case Level::kNormal:
      // Entries that no live run wants may be evicted at once.
      if (attached_) {
        return Ask{
            .by = InForce(level), .reason = by_order, .target = options.thresholds.normal - band};
      }
      return Ask{.idle_over = options.idle_normal,
                 .by = InForce(level),
                 .target = options.thresholds.normal - band};
    case Level::kPressure:
    case Level::kCritical:  // No lower tier: the PRESSURE rule.
      return Ask{
          .by = InForce(level), .reason = by_order, .target = options.thresholds.pressure - band};
    case Level::kEmergency:
      return Ask{.idle_over = options.idle_critical,
                 .by = attached_ ? InForce(level) : By::kLastUse};
  }
  return std::nullopt;
}

bool Judge::AtTarget(const Ask& ask) const {
  if (!ask.target) return false;
  const double reached =
      ask.own_share ? static_cast<double>(model_.bytes()) / static_cast<double>(setting_.capacity)
                    : pressure_.Corrected(model_.bytes());
  return PressureModel::Grain(reached) < PressureModel::Grain(*ask.target);
}

bool Judge::Qualifies(const Ask& ask, const Entry& entry) const {
  return !ask.idle_over || now_ - entry.last_use > *ask.idle_over;
}

bool Judge::AnyQualifies(const Ask& ask) const {
  return std::ranges::any_of(model_.live(), [&](EntryNo number) {
    const Entry& e = model_.at(number);
    return e.leases == 0 && e.children == 0 && Qualifies(ask, e) && !(ask.marks && e.offloaded);
  });
}

void Judge::BeginRelief(TimePoint now, bool may_be_cut) {
  Begin(Doing::kRelief, now);
  ask_ = AskedFor();
  may_be_cut_ = may_be_cut;
}

void Judge::LeavesInRelief(const Event& event, EntryNo entry) {
  if (!ask_ || ask_->marks) {
    return Fail(kWhoLeaves,
                fmt::format("{} left for {}, but level {} asks nobody to leave", Describe(entry),
                            Name(event.reason), Name(pressure_.level())));
  }
  if (event.reason != ask_->reason) {
    return Fail(kWhoLeaves,
                fmt::format("{} left for {}, level {} lets go for {}", Describe(entry),
                            Name(event.reason), Name(pressure_.level()), Name(ask_->reason)));
  }
  if (AtTarget(*ask_)) {
    return Fail(kWhoLeaves,
                fmt::format("{} left though the target {} was reached: pressure {}",
                            Describe(entry), *ask_->target, pressure_.Corrected(model_.bytes())));
  }
  ++moves_;
  if (ask_->count && moves_ > *ask_->count) {
    return Fail(kWhoLeaves,
                fmt::format("{} left as number {} of {}", Describe(entry), moves_, *ask_->count));
  }
  CheckOrderName(event, NameOf(ask_->by));
  CheckFirst(ask_->by, entry, [&](const Entry& e) { return Qualifies(*ask_, e); });
}

void Judge::Marked(const Event& event, EntryNo number) {
  Entry& entry = model_.at(number);
  const bool asked = (doing_ == Doing::kRelief || doing_ == Doing::kCommit) && ask_ && ask_->marks;
  if (!asked || event.reason != Reason::kIdle || entry.offloaded || !Qualifies(*ask_, entry)) {
    return Fail(kWhoLeaves, Describe(number) + " was marked as offloaded without cause");
  }
  CheckOrderName(event, "lru");
  entry.offloaded = true;
}

void Judge::EndRelief(Engine::Progress progress) {
  if (ask_) {
    CheckReliefEnd(*ask_, progress);
  } else if (progress == Engine::Progress::kMore) {
    Fail(kLiveness, "relief wants to go on though nothing is asked for");
  }
  pressure_.Moved(model_.bytes(), now_);
  doing_ = Doing::kNothing;
}

void Judge::CheckReliefEnd(const Ask& ask, Engine::Progress progress) {
  const bool ended = AtTarget(ask) || (ask.count && moves_ == *ask.count);
  if (progress == Engine::Progress::kMore) {
    const bool cut =
        moves_ == setting_.moves_per_step || (may_be_cut_ && moves_ > 0 && moves_ % 64 == 0);
    if (ended || !cut)
      Fail(kWhoLeaves, fmt::format("relief stopped halfway after {} moves", moves_));
    return;
  }
  if (ended) return;
  if (progress == Engine::Progress::kDone) {
    return Fail(kWhoLeaves, fmt::format("relief ended at {} short of its target",
                                        pressure_.Corrected(model_.bytes())));
  }
  if (LookClosely(4) && AnyQualifies(ask)) {
    Fail(kWhoLeaves, fmt::format("relief at level {} left somebody who should have gone",
                                 Name(pressure_.level())));
  }
}

// --- expiry ---

void Judge::BeginLook(TimePoint now) { Begin(Doing::kLook, now); }

void Judge::LeavesExpired(const Event& event, EntryNo entry) {
  const Entry& e = model_.at(entry);
  if (event.reason != Reason::kExpired) {
    return Fail(kWhoLeaves,
                fmt::format("{} left for {} as time went by", Describe(entry), Name(event.reason)));
  }
  // An entry's own ttl ends it like an erase: leased or not, parent or not.
  if (e.deadline <= now_) return;
  const std::optional<Duration>& ttl = setting_.options.ttl;
  if (!ttl) return Fail(kWhoLeaves, Describe(entry) + " expired, but nothing here does");
  ++moves_;
  CheckOrderName(event, "lru");
  CheckFirst(By::kLastUse, entry, [&](const Entry& other) { return now_ - other.last_use > *ttl; });
}

void Judge::EndLook(bool more) {
  const std::optional<Duration>& ttl = setting_.options.ttl;
  if (more && (!ttl || moves_ < setting_.moves_per_step)) {
    Fail(kLiveness, fmt::format("expiry wants to go on after {} moves", moves_));
  }
  if (!more && LookClosely()) {
    for (const EntryNo number : model_.live()) {
      const Entry& e = model_.at(number);
      const bool overdue = e.deadline <= now_ ||
                           (ttl && e.leases == 0 && e.children == 0 && now_ - e.last_use > *ttl);
      if (overdue) return Fail(kWhoLeaves, Describe(number) + " should have expired");
    }
  }
  pressure_.Look(model_.bytes(), now_);
  doing_ = Doing::kNothing;
}

}  // namespace spillway::sim
