// SPDX-License-Identifier: Apache-2.0
// What clients write: sets, erases, and batches that also contain gets.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "sim/world_strand.h"

namespace spillway::sim {

namespace {
constexpr Duration kLong = std::chrono::hours(1000);
}  // namespace

std::uint32_t World::AnyKey() {
  const bool hot = rng_.Percent(plan_.hot_percent);
  return static_cast<std::uint32_t>(rng_.Below(hot ? plan_.hot_keys : plan_.keys.size()));
}

// For an expired entry a get runs a tick and waits for it. DoGet alone does that, so
// that it happens between two events.
bool World::Overdue(std::uint32_t key) const {
  return model_.LiveOf(key) != kNobody && model_.VisibleOf(key, now()) == kNobody;
}

std::size_t World::NewFlight(std::size_t items) {
  std::size_t at = 0;
  while (at < flights_.size() && flights_[at].in_use) ++at;
  if (at == flights_.size()) flights_.emplace_back();
  Flight& flight = flights_[at];
  flight.in_use = true;
  flight.begun = 0;
  flight.completions = 0;
  flight.operations.clear();
  flight.operations.resize(items);
  flight.items.clear();
  flight.items.resize(items);
  ++flights_in_use_;
  return at;
}

void World::FillSet(Flight& flight, std::size_t at) {
  Item& item = flight.items[at];
  Operation& operation = flight.operations[at];
  item.key = AnyKey();
  item.posts = true;
  Newcomer& newcomer = item.newcomer;
  newcomer.key = item.key;
  newcomer.set = ++sets_;
  newcomer.size = plan_.equal_sizes ? plan_.value_max : rng_.LogBetween(0, plan_.value_max);
  newcomer.tokens =
      static_cast<Tokens>(rng_.Below(static_cast<std::uint64_t>(plan_.tokens_max) + 1));
  // A key that is set again with only its bytes changed.
  if (const EntryNo live = model_.LiveOf(item.key); plan_.equal_sizes && live != kNobody) {
    if (rng_.Percent(70)) newcomer.tokens = model_.at(live).tokens;
  }
  item.value.emplace(newcomer.set, newcomer.size);

  operation.kind = Operation::Kind::kSet;
  operation.key = model_.key(item.key);
  operation.source = item.value->AsSource();
  operation.set.tokens = newcomer.tokens;
  if (rng_.Percent(plan_.ttl_percent)) {
    newcomer.ttl = rng_.OneIn(20) ? Duration::max()
                                  : Duration(static_cast<std::int64_t>(rng_.Between(
                                        1, static_cast<std::uint64_t>(plan_.ttl_max.count()))));
    newcomer.ttl_from = now();
    operation.set.ttl = newcomer.ttl;
  }
  if (rng_.Percent(plan_.names_percent)) {
    item.agent = fmt::format("agent-{}", rng_.Below(9));
    item.meta.assign(rng_.LogBetween(0, 200), 'm');
    operation.set.agent = item.agent;
    operation.set.meta = item.meta;
  }
  if (plan_.chain > 1 && rng_.Percent(plan_.parent_percent)) {
    const bool first = item.key % plan_.chain == 0;
    // Now and then an odd parent: the key itself, or one that never existed.
    if (rng_.OneIn(50)) {
      operation.set.parent =
          rng_.OneIn(2) ? std::string_view(model_.key(item.key)) : "nobody's key";
      newcomer.parent_declared = true;
    } else if (!first) {
      operation.set.parent = model_.key(item.key - 1);
      newcomer.parent_declared = true;
      newcomer.parent_key = item.key - 1;
    }
  }
  if (plan_.options.policy == "seed") {  // It has no chains.
    newcomer.parent_declared = false;
    newcomer.parent_key = -1;
  }
  newcomer.names = operation.key.size() > kInlineKeyBytes ? operation.key.size() : 0;
  if (!item.agent.empty() || !item.meta.empty() || operation.set.ttl) {
    newcomer.names += sizeof(Extra) + item.agent.size() + item.meta.size();
  }
}

// Invalid sets, each invalid in one way.
void World::FillBadSet(Flight& flight, std::size_t at) {
  static const std::string too_long(kKeyBytesMax + 1, 'k');
  static const std::string long_agent(kAgentBytesMax + 1, 'a');
  static const std::string long_meta(kMetaBytesMax + 1, 'm');
  FillSet(flight, at);
  Operation& operation = flight.operations[at];
  Item& item = flight.items[at];
  item.posts = false;
  item.bad = Code::kInvalidArgument;
  switch (rng_.Below(10)) {
    case 0:
      operation.key = {};
      break;
    case 1:
      operation.key = too_long;
      break;
    case 2:
      operation.set.tokens = -1;
      break;
    case 3:
      operation.set.tokens = kTokensMax + 1;
      break;
    case 4:
      operation.set.agent = long_agent;
      break;
    case 5:
      operation.set.meta = long_meta;
      break;
    case 6:
      operation.set.ttl = Duration(-static_cast<std::int64_t>(rng_.Below(2)));
      break;
    case 7:
      operation.source = Source({Fragment{&item, 1, Place::kDevice}});
      break;
    case 8:
      operation.source = Source({Fragment{nullptr, 1}});
      break;
    default:
      if (plan_.options.unlimited) {
        operation.set.parent = too_long;
        break;
      }
      operation.source = Source({Fragment{&item, tier_->capacity() + 1}});
      item.bad = Code::kTooLarge;
  }
}

void World::Submit(std::size_t at) {
  Flight& flight = flights_[at];
  flight.hurried = rng_.Percent(plan_.hurried_percent);
  Duration within = rng_.OneIn(16) ? Duration::max() : kLong;
  if (flight.hurried) {
    within = plan_.tick * static_cast<std::int64_t>(rng_.LogBetween(0, 60));
    ++flights_hurried_;
  }
  flight.deadline = within > TimePoint::max() - now() ? TimePoint::max() : now() + within;
  submitting_ = at;
  Batch::Submit(core_, flight.operations.data(), flight.operations.size(), within,
                Completion([this, at] {
                  ++flights_[at].completions;
                  if (!dead_) done_flights_.push_back(at);
                }));
  submitting_.reset();
  for (std::size_t i = 0; i < flight.items.size(); ++i) CheckSubmitted(flight, i);
  CheckEnded(at);
}

// What a batch did before Submit returned: gets, touches and refusals.
void World::CheckSubmitted(Flight& flight, std::size_t i) {
  Item& item = flight.items[i];
  Operation& operation = flight.operations[i];
  switch (operation.kind) {
    case Operation::Kind::kSet:
      if (!item.bad) return;
      if (operation.status || operation.status.error().code != *item.bad) {
        verdict_.Fail(kAllOrNothing,
                      fmt::format("a set that is wrong in itself was answered '{}' instead of {}",
                                  operation.status ? "ok" : operation.status.error().message,
                                  Name(*item.bad)));
      }
      break;
    case Operation::Kind::kErase:
      return;
    case Operation::Kind::kTouch:
    case Operation::Kind::kGet: {
      const EntryNo entry = judge_->Found(item.key, operation.found, now(), "get in a batch");
      ++(entry == kNobody ? misses_ : hits_);
      Note(entry == kNobody ? Act::kMiss : Act::kHit);
      if (entry == kNobody) break;
      if (operation.lease) {
        model_.Lease(entry, now());
        Hold(std::move(operation.lease), entry);
      } else {
        model_.Use(entry, now());
        const Entry& e = model_.at(entry);
        if (operation.kind == Operation::Kind::kGet && plan_.real_bytes &&
            (!operation.status || Value(e.set, e.size).FirstWrong(item.sink.data()) != e.size ||
             operation.bytes != e.size)) {
          verdict_.Fail(
              kValues,
              fmt::format("a get into a sink of {} bytes brought other bytes than were set: {}",
                          item.sink.size(),
                          operation.status ? "ok" : operation.status.error().message));
        }
      }
      break;
    }
  }
  item.stage = Item::Stage::kEnded;
}

// The blocking form: the strand runs on the caller's thread.
void World::SetNow() {
  const std::size_t at = NewFlight(1);
  Flight& flight = flights_[at];
  FillSet(flight, 0);
  const Item& item = flight.items[0];
  Operation& operation = flight.operations[0];
  judge_->BeginWholeSet(item.newcomer, now());
  {
    const Waiting waiting(this, Inline::kTold);
    operation.status = core_->Set(operation.key, operation.source, operation.set);
  }
  judge_->EndWholeSet(operation.status);
  Note(operation.status ? Act::kCommit : Act::kRefused);
  done_flights_.push_back(at);
}

void World::EraseNow() {
  const std::uint32_t key = AnyKey();
  judge_->BeginErase(key, now());
  bool found = false;
  {
    const Waiting waiting(this, Inline::kTold);
    found = core_->Erase(model_.key(key));
  }
  judge_->EndErase(found);
  Note(Act::kErase);
}

void World::DoSet(bool bad) {
  if (!bad && rng_.OneIn(8)) return SetNow();
  if (flights_in_use_ >= plan_.clients) return;
  const std::size_t at = NewFlight(1);
  bad ? FillBadSet(flights_[at], 0) : FillSet(flights_[at], 0);
  Submit(at);
}

void World::FillOther(Flight& flight, std::size_t at, Operation::Kind kind) {
  Item& item = flight.items[at];
  Operation& operation = flight.operations[at];
  item.key = AnyKey();
  operation.kind = Overdue(item.key) ? Operation::Kind::kErase : kind;
  operation.key = model_.key(item.key);
  item.posts = operation.kind == Operation::Kind::kErase;
  const bool full = holdings_.size() >= plan_.leases_max;
  if (operation.kind == Operation::Kind::kGet && (full || rng_.OneIn(2))) {
    item.sink.resize(plan_.value_max + rng_.Below(9));
    const Bytes cut = rng_.Below(item.sink.size() + 1);
    operation.get.into = Sink({MutableFragment{item.sink.data(), cut},
                               MutableFragment{item.sink.data() + cut, item.sink.size() - cut}});
  }
}

void World::DoErase() {
  if (rng_.OneIn(4)) return EraseNow();
  if (flights_in_use_ >= plan_.clients) return;
  const std::size_t at = NewFlight(1);
  FillOther(flights_[at], 0, Operation::Kind::kErase);
  Submit(at);
}

void World::DoBatch() {
  if (flights_in_use_ >= plan_.clients) return;
  const std::size_t at = NewFlight(rng_.Between(1, plan_.batch_max));
  Flight& flight = flights_[at];
  for (std::size_t i = 0; i < flight.items.size(); ++i) {
    switch (rng_.Below(8)) {
      case 0:
        FillOther(flight, i, Operation::Kind::kErase);
        break;
      case 1:
        FillOther(flight, i, Operation::Kind::kTouch);
        break;
      case 2:
      case 3:
        FillOther(flight, i, Operation::Kind::kGet);
        break;
      case 4:
        rng_.OneIn(8) ? FillBadSet(flight, i) : FillSet(flight, i);
        break;
      default:
        FillSet(flight, i);
        break;
    }
  }
  Submit(at);
}

}  // namespace spillway::sim
