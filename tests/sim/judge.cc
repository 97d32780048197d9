// SPDX-License-Identifier: Apache-2.0
#include "sim/judge.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "sim/value.h"

namespace spillway::sim {

Judge::Judge(const Setting& setting, Model* model, Verdict* verdict)
    : setting_(setting),
      seed_(setting.options.policy == "seed"),
      model_(*model),
      verdict_(verdict),
      pressure_(setting.options, setting.options.policy != "seed") {}

void Judge::Begin(Doing doing, TimePoint now) {
  doing_ = doing;
  now_ = now;
  departures_ = 0;
  moves_ = 0;
}

std::string Judge::Describe(EntryNo entry) const {
  const Entry& e = model_.at(entry);
  return fmt::format(
      "'{}' (set {}, {} bytes, {} tokens, {} accesses, idle {} ns, {} leases, {} children)",
      Printable(model_.key(e.key)), e.set, e.size, e.tokens, e.accesses,
      (now_ - e.last_use).count(), e.leases, e.children);
}

// --- erase, clear ---

void Judge::BeginErase(std::uint32_t key, TimePoint now) {
  Begin(Doing::kErase, now);
  key_ = key;
  erased_ = model_.LiveOf(key);
}

void Judge::EndErase(bool found) {
  const bool was_there = erased_ != kNobody;
  if (found != was_there) {
    Fail(kLevelAndRefusal,
         fmt::format("erase '{}' answered {}, but the key was {}", Printable(model_.key(key_)),
                     found, was_there ? "there" : "not there"));
  }
  if (was_there && model_.LiveOf(key_) != kNobody) {
    Fail(kValues, fmt::format("erase '{}' left no event", Printable(model_.key(key_))));
  }
  if (was_there) pressure_.Moved(model_.bytes(), now_);
  doing_ = Doing::kNothing;
}

void Judge::BeginClear(TimePoint now) { Begin(Doing::kClear, now); }

void Judge::EndClear() {
  if (!model_.live().empty()) {
    Fail(kValues, fmt::format("after clear {} entries are there or left without an event, {} first",
                              model_.live().size(), Describe(model_.live().front())));
  }
  pressure_.Moved(model_.bytes(), now_);
  doing_ = Doing::kNothing;
}

void Judge::Sampled(std::optional<double> pressure, Bytes total, TimePoint now) {
  pressure_.Sample(pressure, total, model_.bytes(), now);
}

// --- commit ---

void Judge::BeginCommit(EntryNo reservation, bool too_late, TimePoint now) {
  Begin(Doing::kCommit, now);
  reservation_ = reservation;
  too_late_ = too_late;
  committed_ = false;
  ask_.reset();
}

void Judge::CommitNow() {
  if (committed_) return;
  committed_ = true;
  const EntryNo old = model_.LiveOf(model_.at(reservation_).key);
  if (old != kNobody) {
    Fail(kValues, fmt::format("a set was committed over {}, and no event said so", Describe(old)));
    model_.Leave(old);
  }
  model_.Commit(reservation_, now_);
  pressure_.Moved(model_.bytes(), now_);
  if (seed_ && pressure_.level() >= Level::kPressure) ask_ = AskedFor();
}

void Judge::EndCommit(const Status& status) {
  const bool late = !status && status.error().code == Code::kDeadline;
  if (late != too_late_ || (!status && !late)) {
    Fail(kAllOrNothing,
         fmt::format("the commit of '{}' answered {}",
                     Printable(model_.key(model_.at(reservation_).key)),
                     status ? "ok, though its time was over" : status.error().message));
  }
  if (too_late_) {
    if (departures_ > 0) Fail(kAllOrNothing, "a cancelled set made somebody leave");
    model_.Abort(reservation_);
  } else {
    CommitNow();
    if (ask_) {
      CheckReliefEnd(*ask_, Engine::Progress::kNothingLeft);
      pressure_.Moved(model_.bytes(), now_);
    }
  }
  doing_ = Doing::kNothing;
}

// --- events ---

void Judge::OnEvent(const Event& event) {
  if (verdict_->failed()) return;
  if (doing_ == Doing::kAdmit && whole_ && ComesWithCommit(event)) {
    const std::uint32_t left = departures_;
    BeginCommit(EndAdmit({}), false, now_);
    departures_ = left;
  }
  // Preset seed runs its policy after a set, and may evict that very entry.
  if (doing_ == Doing::kCommit && event.reason != Reason::kReplaced && !too_late_) CommitNow();
  const std::int64_t key = model_.KeyNumber(event.key);
  const EntryNo entry = key < 0 ? kNobody : model_.LiveOf(static_cast<std::uint32_t>(key));
  const auto what = [&] {
    return fmt::format("{} of '{}' for {}", Name(event.action), Printable(event.key),
                       Name(event.reason));
  };
  if (entry == kNobody) return Fail(kValues, what() + ", which was not there (any more)");
  Entry& e = model_.at(entry);
  if (event.generation == 0 || (e.generation != 0 && e.generation != event.generation)) {
    return Fail(kValues, fmt::format("{} names generation {}, it is {}", what(), event.generation,
                                     e.generation));
  }
  if (event.bytes != e.size || event.tokens != e.tokens || event.tier != "device" ||
      event.policy != setting_.options.policy || event.at != now_) {
    return Fail(kValues, what() + ": size, tokens, tier, policy or time are wrong");
  }
  if (event.level != pressure_.level()) {
    return Fail(kLevelAndRefusal, fmt::format("{} at level {}, which is {}", what(),
                                              Name(event.level), Name(pressure_.level())));
  }
  if (event.action == Action::kDemote) return Marked(event, entry);
  const Action right = event.reason == Reason::kExpired ? Action::kExpire : Action::kDestroy;
  if (event.action != right) return Fail(kWhoLeaves, what() + ": no such action for that reason");

  const bool unranked = event.reason == Reason::kErased || event.reason == Reason::kReplaced ||
                        event.reason == Reason::kCleared;
  if (unranked && !event.order.empty()) return Fail(kWhoLeaves, what() + " names an order");

  switch (doing_) {
    case Doing::kNothing:
      return Fail(kWhoLeaves, what() + " though nothing was done that could make it leave");
    case Doing::kErase:
      if (event.reason != Reason::kErased || e.key != key_) {
        return Fail(kWhoLeaves,
                    fmt::format("{} during erase '{}'", what(), Printable(model_.key(key_))));
      }
      break;
    case Doing::kClear:
      if (event.reason != Reason::kCleared) return Fail(kWhoLeaves, what() + " during clear");
      break;
    case Doing::kAdmit:
      LeavesForSet(event, entry);
      break;
    case Doing::kCommit:
      if (event.reason == Reason::kReplaced && !committed_ && !too_late_) {
        if (e.key != model_.at(reservation_).key) {
          return Fail(kWhoLeaves, what() + " by the set of another key");
        }
        model_.at(reservation_).place = e.place;
      } else {
        LeavesInRelief(event, entry);
      }
      break;
    case Doing::kLook:
      LeavesExpired(event, entry);
      break;
    case Doing::kRelief:
      LeavesInRelief(event, entry);
      break;
  }
  ++departures_;
  model_.Leave(entry);
}

// --- the order in force ---

Judge::By Judge::InForce(Level level) const {
  const bool learns = setting_.options.policy == "score";
  if (attached_) return learns ? By::kWorkflowByScore : By::kWorkflow;
  if (learns) return By::kScore;
  if (setting_.options.policy == "lru") return By::kLastUse;
  if (setting_.options.policy == "hybrid") return By::kHybrid;
  return level >= Level::kPressure ? By::kWeight : By::kLastUse;
}

std::string_view Judge::NameOf(By by) {
  switch (by) {
    case By::kLastUse:
      return "lru";
    case By::kWeight:
      return "heavy";
    case By::kHybrid:
      return "hybrid";
    case By::kWorkflow:
    case By::kWorkflowByScore:
      return "workflow";
    case By::kScore:
      return "score";
  }
  return "";
}

bool Judge::Before(By by, const Entry& a, const Entry& b) const {
  switch (by) {
    case By::kLastUse:
    case By::kWorkflow:
    case By::kScore:
    case By::kWorkflowByScore:
      if (a.last_use != b.last_use) return a.last_use < b.last_use;
      break;
    case By::kWeight: {
      const double wa = static_cast<double>(a.tokens) / static_cast<double>(a.accesses);
      const double wb = static_cast<double>(b.tokens) / static_cast<double>(b.accesses);
      if (wa != wb) return wa > wb;
      break;
    }
    case By::kHybrid: {
      constexpr Duration kPerAccess = std::chrono::seconds(10);
      const TimePoint ha = a.last_use + kPerAccess * static_cast<std::int64_t>(a.accesses);
      const TimePoint hb = b.last_use + kPerAccess * static_cast<std::int64_t>(b.accesses);
      if (ha != hb) return ha < hb;
      break;
    }
  }
  return a.place < b.place;
}

// A check of all entries costs as much as there are: in large worlds it runs only now
// and then, so that each eviction costs about the same.
bool Judge::LookClosely(std::size_t times) {
  constexpr std::size_t kEntriesPerLook = 500;
  const std::size_t every = 1 + times * model_.live().size() / kEntriesPerLook;
  return ++looks_ % every == 0;
}

void Judge::CheckOrderName(const Event& event, std::string_view expected) {
  // The score ranks by last use until it has learned enough, and while that does
  // better.
  const bool steps_back = expected == "score" && event.order == "lru";
  if (event.order != expected && !steps_back) {
    Fail(kWhoLeaves, fmt::format("'{}' left by order '{}', in force was '{}'", Printable(event.key),
                                 event.order, expected));
  }
}

}  // namespace spillway::sim
