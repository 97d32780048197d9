// SPDX-License-Identifier: Apache-2.0
// What clients do, and whether the answers are right.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "tiersim/world_parts.h"

namespace spillway::tiersim {

// --- operations ---

World::Flight& World::NewFlight(KeyNo key, Operation::Kind kind) {
  auto flight = std::make_unique<Flight>();
  flight->world = this;
  flight->key = key;
  flight->begun = verdict_.event;
  flight->operation.kind = kind;
  flight->operation.key = ledger_.key(key);
  flights_.push_back(std::move(flight));
  return *flights_.back();
}

void World::Submit(Flight& flight) {
  const Duration within = plan_.tick * static_cast<std::int64_t>(rng_.Percent(plan_.hurried_percent)
                                                                     ? rng_.Below(8)
                                                                     : rng_.LogBetween(500, 20000));
  flight.deadline = now() + within;
  Flight* const one = &flight;
  submitting_ = one;
  Batch::Submit(core_, &one->operation, 1, within,
                Completion([one] { one->world->Completed(*one); }));
  submitting_ = nullptr;
}

void World::Completed(Flight& flight) {
  if (flight.done) Fail(sim::kLiveness, "an operation was answered twice");
  flight.done = true;
  if (submitting_ == &flight) submitting_ = nullptr;
  std::erase_if(tasks_, [&](const auto& task) { return task.second == &flight; });
  if (dead_) return;
  const Operation& operation = flight.operation;
  Mark(operation.status ? 1 : 2 + static_cast<std::uint64_t>(operation.status.error().code));
  if (options_.verbose) {
    fmt::print("{} at {} ms:   {} '{}' {}: {}\n", verdict_.event,
               now().time_since_epoch().count() / 1000000,
               operation.kind == Operation::Kind::kSet   ? "set"
               : operation.kind == Operation::Kind::kGet ? "get"
                                                         : "erase",
               Printable(operation.key), flight.set,
               !operation.status ? operation.status.error().message
               : operation.found ? "found"
                                 : "done");
  }
  switch (operation.kind) {
    case Operation::Kind::kSet:
      return SetCompleted(flight);
    case Operation::Kind::kGet:
      if (loading_) SeeAdopted();
      return GetCompleted(flight);
    case Operation::Kind::kErase:
      if (operation.found != (flight.ended != 0)) {
        Fail(sim::kValues,
             fmt::format("erase '{}' found {}, and that is wrong", Printable(operation.key),
                         operation.found ? "something" : "nothing"));
      }
      EndedForGood(flight);
      return;
    case Operation::Kind::kTouch:
      return;
  }
}

// --- sets ---

void World::DoSet() {
  if (flights_.size() >= plan_.clients) return;
  const KeyNo key = KeyToWrite();
  Flight& flight = NewFlight(key, Operation::Kind::kSet);
  SetInfo info;
  info.key = key;
  info.size = plan_.equal_sizes ? plan_.value_max : rng_.LogBetween(0, plan_.value_max);
  info.tokens = static_cast<Tokens>(rng_.Below(static_cast<std::uint64_t>(plan_.tokens_max) + 1));
  SetOptions& options = flight.operation.set;
  if (rng_.Percent(plan_.ttl_percent)) {
    options.ttl = plan_.ttl_max * static_cast<std::int64_t>(rng_.Between(1, 100)) / 100;
  }
  flight.set = ledger_.Begin(info);
  flight.value.emplace(flight.set, info.size);
  flight.meta = std::to_string(flight.set);
  flight.operation.source = flight.value->AsSource();
  options.tokens = info.tokens;
  options.meta = flight.meta;
  if (key % plan_.chain != 0 && rng_.Percent(plan_.parent_percent)) {
    options.parent = ledger_.key(key - 1);
  }
  if (options_.verbose) {
    fmt::print("{}   set '{}' number {} of {} bytes\n", verdict_.event, ledger_.key(key),
               flight.set, info.size);
  }
  Submit(flight);
}

void World::SetCompleted(Flight& flight) {
  ledger_.at(flight.set).answered = true;
  const Operation& operation = flight.operation;
  if (!operation.status) {
    if (flight.committed) Fail(sim::kAllOrNothing, "a set was committed and then refused");
    return CheckRefusal(flight);
  }
  SeeWritten();
  if (!flight.committed) {
    Fail(sim::kValues, fmt::format("'{}' was set and is not there", Printable(operation.key)));
  }
  EndedForGood(flight);
}

void World::EndedForGood(const Flight& flight) {
  if (loading_) return;
  if (flight.ended != 0) ledger_.at(flight.ended).ended_for_good = true;
  const bool some = ledger_.Answered(flight.key, flight.begun) > 0;
  if (some && plan_.kill_percent > 0) kill_next_ = rng_.Percent(plan_.kill_percent);
}

// A key that was just removed is written again at once: its old blob must not come back
// either.
void World::WriteGone() {
  writes_gone_ = true;
  rng_.OneIn(2) ? DoErase() : DoSet();
  writes_gone_ = false;
}

KeyNo World::KeyToWrite() { return writes_gone_ ? ledger_.last_departed() : AnyKey(); }

void World::CheckRefusal(const Flight& flight) {
  const Code code = flight.operation.status.error().code;
  const std::string& why = flight.operation.status.error().message;
  const Bytes size = ledger_.at(flight.set).size;
  switch (code) {
    case Code::kDeadline:
      if (now() < flight.deadline) Fail(sim::kLiveness, "a set ended before its time: " + why);
      return;
    case Code::kOverBudget:
      if (!plan_.options.token_budget) Fail(sim::kLevelAndRefusal, "no budget is set: " + why);
      return;
    case Code::kTooLarge:
      for (const TierId tier : kTierIds) {
        if (plan_.Has(tier) && size <= store().capacity(tier)) {
          Fail(sim::kLevelAndRefusal, "it is not too large: " + why);
        }
      }
      return;
    case Code::kUnavailable:
    case Code::kNoMemory:
    case Code::kCorrupt:
      // Directly to disk, and that failed.
      if (disk_ == nullptr) Fail(sim::kLevelAndRefusal, "refused: " + why);
      return;
    case Code::kBlocked:
      for (const TierId tier : kTierIds) {
        if (plan_.Has(tier) && CouldTake(tier, size, false)) {
          Fail(sim::kLevelAndRefusal, fmt::format("{} bytes were refused, and the {} tier has {} "
                                                  "free: {}",
                                                  size, Name(tier), FreeRoom(tier), why));
        }
      }
      return;
    default:
      Fail(sim::kLevelAndRefusal, fmt::format("refused ({}): {}", Name(code), why));
  }
}

// --- gets ---

void World::LookIfOverdue(KeyNo key) {
  const SetNo set = ledger_.current(key);
  if (set != 0 && ledger_.at(set).deadline <= now()) LookNow();
}

void World::DoGet(bool into) {
  if (flights_.size() >= plan_.clients) return;
  const KeyNo key = AnyKey();
  LookIfOverdue(key);
  Flight& flight = NewFlight(key, Operation::Kind::kGet);
  if (into) {
    flight.sink.assign(std::max<Bytes>(plan_.value_max, 1), std::byte{0xee});
    flight.operation.get.into = Sink(flight.sink.data(), flight.sink.size());
  }
  if (rng_.OneIn(8))
    flight.operation.get.wait = plan_.tick * static_cast<std::int64_t>(rng_.Below(50));
  Submit(flight);
}

void World::GetCompleted(Flight& flight) {
  Operation& operation = flight.operation;
  const std::string key = Printable(operation.key);
  if (!operation.status) {
    const Code code = operation.status.error().code;
    const std::string& why = operation.status.error().message;
    if (code == Code::kDeadline) {
      if (now() < std::min(flight.deadline, now() + operation.get.wait)) return;
    }
    const bool legal = code == Code::kDeadline || code == Code::kUnavailable ||
                       (code == Code::kNotResident && operation.get.wait <= Duration::zero()) ||
                       (code == Code::kBusy && store().staging_bytes() > 0) ||
                       code == Code::kNoMemory;
    if (!legal) Fail(sim::kLevelAndRefusal, fmt::format("get '{}' ({}): {}", key, Name(code), why));
    if (code == Code::kUnavailable && plan_.fail_percent == 0 && !disk_trouble_ && !damaged_) {
      Fail(sim::kValues, fmt::format("get '{}' failed, and nothing was wrong: {}", key, why));
    }
    return;
  }
  const SetNo set = ledger_.current(flight.key);
  if (!operation.found) {
    const bool ended = set == 0 || ledger_.at(set).deadline <= now();
    if (!ended) {
      Fail(sim::kValues,
           fmt::format("get '{}' missed, and nothing told that set {} has gone", key, set));
    }
    return;
  }
  if (flight.sink.empty()) {
    spillway::Lease lease = std::move(operation.lease);
    if (set == 0) {
      Fail(sim::kValues, fmt::format("get '{}' found what has gone", key));
    } else if (CheckLease(lease, set, "get")) {
      ledger_.at(set).last_use = now();
      if (ledger_.at(set).deadline <= now()) Fail(sim::kValues, "what has expired was served");
    }
    return Hold(std::move(lease), set);
  }
  // It was copied some time after it was found: any set that was current meanwhile is
  // right. The time of that, and so of its last use, is not known here.
  for (SetNo one = 1; ledger_.Knows(one); ++one) {
    const SetInfo& info = ledger_.at(one);
    if (info.key != flight.key || info.size != operation.bytes) continue;
    if (!info.live && info.lived_until < flight.begun) continue;
    if (sim::Value(one, info.size).FirstWrong(flight.sink.data()) == info.size) return;
  }
  Fail(sim::kValues, fmt::format("get '{}' copied {} bytes that nobody set", key, operation.bytes));
}

void World::DoGetNow() {
  const KeyNo key = AnyKey();
  spillway::Lease lease;
  Core::Found found{};
  {
    const Waiting waiting(this);
    found = core_->Find(ledger_.key(key), &lease);
  }
  if (loading_) SeeAdopted();
  const SetNo set = ledger_.current(key);
  Mark(static_cast<std::uint64_t>(found));
  if (found == Core::Found::kMiss && set != 0) {
    Fail(sim::kValues, fmt::format("get '{}' missed, and nothing told that set {} has gone",
                                   ledger_.key(key), set));
  }
  if (found == Core::Found::kBelow && set == 0 && !loading_) {
    Fail(sim::kValues, fmt::format("'{}' is said to be below, and has gone", ledger_.key(key)));
  }
  if (found != Core::Found::kHit) return;
  if (set == 0)
    return Fail(sim::kValues, fmt::format("'{}' was served after it had gone", ledger_.key(key)));
  if (!CheckLease(lease, set, "get")) return;
  ledger_.at(set).last_use = now();
  Hold(std::move(lease), set);
}

bool World::CheckLease(const spillway::Lease& lease, SetNo set, std::string_view when) {
  if (dead_ || verdict_.failed()) return true;
  const SetInfo& info = ledger_.at(set);
  const std::string& key = ledger_.key(info.key);
  if (when == "get" && (lease.generation() != info.generation || lease.tokens() != info.tokens)) {
    Fail(sim::kValues, fmt::format("get '{}': generation {} instead of {}", key, lease.generation(),
                                   info.generation));
    return false;
  }
  if (lease.size() != info.size) {
    Fail(sim::kValues,
         fmt::format("'{}' {}: {} bytes instead of {}", key, when, lease.size(), info.size));
    return false;
  }
  const Bytes wrong = sim::Value(set, info.size).FirstWrong(lease.data());
  if (wrong == info.size) return true;
  Fail(when == "get" ? sim::kAllOrNothing : sim::kLeases,
       fmt::format("'{}' {}: byte {} of {} is not that of set {}", key, when, wrong, info.size,
                   set));
  return false;
}

void World::Hold(spillway::Lease lease, SetNo set) {
  if (verdict_.failed()) return;
  if (on_strand_) {
    // Kept until later: nothing is released on the strand.
    holdings_.push_back({std::move(lease), set, life_});
    return;
  }
  holdings_.push_back({std::move(lease), set, life_});
  if (holdings_.size() > plan_.leases_max) ReleaseAt(rng_.Below(holdings_.size()));
}

void World::DoRelease() {
  if (!holdings_.empty()) ReleaseAt(rng_.Below(holdings_.size()));
}

void World::ReleaseAt(std::size_t at) {
  CheckLease(holdings_[at].lease, holdings_[at].set, "at release");
  if (verdict_.failed()) return;
  Holding holding = std::move(holdings_[at]);
  holdings_.erase(holdings_.begin() + static_cast<std::ptrdiff_t>(at));
  holding.lease.Release();
}

// --- others ---

void World::DoErase() {
  const KeyNo key = KeyToWrite();
  Flight& flight = NewFlight(key, Operation::Kind::kErase);
  Submit(flight);
}

void World::DoClear() {
  clearing_ = true;
  {
    const Waiting waiting(this);
    core_->Clear();
  }
  clearing_ = false;
  for (KeyNo key = 0; key < plan_.keys.size(); ++key) {
    touched_.insert(key);
    if (!loading_) ledger_.Answered(key, verdict_.event + 1);
  }
  if (ledger_.live() != 0) {
    Fail(sim::kValues,
         fmt::format("{} entries were cleared, and nothing told of it", ledger_.live()));
  }
}

void World::DoTouch() {
  const KeyNo key = AnyKey();
  bool found = false;
  {
    const Waiting waiting(this);
    found = core_->Touch(ledger_.key(key));
  }
  const SetNo set = ledger_.current(key);
  if (found != (set != 0))
    Fail(sim::kValues, fmt::format("touch '{}' found {}", ledger_.key(key), found));
  if (set != 0) ledger_.at(set).last_use = now();
}

// In place, leased or not and wherever it is. Half of the clients wait until it is
// settled; from then on not even a kill brings an older deadline back.
void World::DoChangeDeadline() {
  const KeyNo key = AnyKey();
  LookIfOverdue(key);
  const SetNo set = ledger_.current(key);
  const TimePoint deadline =
      rng_.OneIn(4) ? TimePoint::max()
                    : now() + plan_.ttl_max * static_cast<std::int64_t>(rng_.Between(1, 100)) / 100;
  const bool settles = rng_.OneIn(2);
  if (set == 0 || loading_ || verdict_.failed()) return;
  SetInfo& info = ledger_.at(set);
  info.deadline = deadline;
  info.deadlines.push_back(deadline);
  {
    const Waiting waiting(this);
    RunOn(core_->strand(), [&] { engine().ChangeDeadline(SlotOf(key), deadline); });
  }
  if (engine().DeadlineOf(info.slot) != deadline) {
    Fail(sim::kValues, fmt::format("'{}' was not given its deadline", ledger_.key(key)));
  }
  const bool settled = disk_ == nullptr || !disk_->has_pending_deletes() ||
                       disk_->FlushDeletes(std::chrono::seconds(1));
  if (settles && settled) info.deadlines = {deadline};
}

void World::DoContains() {
  const KeyNo key = AnyKey();
  const SetNo set = ledger_.current(key);
  const bool there = set != 0 && ledger_.at(set).deadline > now();
  if (core_->Contains(ledger_.key(key)) != there) {
    Fail(sim::kValues, fmt::format("contains '{}' is wrong", ledger_.key(key)));
  }
}

void World::DoMatch() {
  const KeyNo first = static_cast<KeyNo>(AnyKey() / plan_.chain * plan_.chain);
  std::vector<std::string_view> keys;
  for (KeyNo key = first; key < std::min(plan_.keys.size(), first + plan_.chain); ++key) {
    keys.emplace_back(ledger_.key(key));
  }
  const std::size_t run = core_->Match(keys, nullptr);
  Mark(run);
  for (KeyNo key = first; key < first + run; ++key) {
    if (ledger_.current(key) == 0) Fail(sim::kValues, "match counts what has gone");
  }
}

void World::DoPrefetch() {
  const KeyNo key = AnyKey();
  const std::string_view name = ledger_.key(key);
  const Waiting waiting(this);
  const std::size_t coming = core_->Prefetch(&name, 1);
  Mark(coming);
  if (coming > 0 && ledger_.current(key) == 0 && !loading_) {
    Fail(sim::kValues, "what has gone is said to be on its way");
  }
}

}  // namespace spillway::tiersim
