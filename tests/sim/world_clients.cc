// What clients do.
#include <fmt/format.h>

#include <algorithm>

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

// An entry whose own time is over makes a get look at the time, and wait. That
// happens in DoGet alone, so that it happens between two events.
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
  newcomer.tokens = static_cast<Tokens>(rng_.Below(static_cast<std::uint64_t>(plan_.tokens_max) + 1));
  item.value.emplace(newcomer.set, newcomer.size);

  operation.kind = Operation::Kind::kSet;
  operation.key = model_.key(item.key);
  operation.source = item.value->AsSource();
  operation.set.tokens = newcomer.tokens;
  if (rng_.Percent(plan_.ttl_percent)) {
    newcomer.ttl = rng_.OneIn(20) ? Duration::max()
                                  : Duration(static_cast<std::int64_t>(rng_.Between(
                                        1, static_cast<std::uint64_t>(plan_.ttl_max.count()))));
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
    // Now and then a strange parent: the key itself, or one that never was.
    if (rng_.OneIn(50)) {
      operation.set.parent = rng_.OneIn(2) ? std::string_view(model_.key(item.key)) : "nobody's key";
      newcomer.parent_declared = true;
    } else if (!first) {
      operation.set.parent = model_.key(item.key - 1);
      newcomer.parent_declared = true;
      newcomer.parent_key = item.key - 1;
    }
  }
  if (plan_.options.policy == "seed") {  // Knows no chains.
    newcomer.parent_declared = false;
    newcomer.parent_key = -1;
  }
  newcomer.names = operation.key.size() > kInlineKeyBytes ? operation.key.size() : 0;
  if (!item.agent.empty() || !item.meta.empty() || operation.set.ttl) {
    newcomer.names += sizeof(Extra) + item.agent.size() + item.meta.size();
  }
}

// Sets that are wrong in themselves, one way each.
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
    case 0: operation.key = {}; break;
    case 1: operation.key = too_long; break;
    case 2: operation.set.tokens = -1; break;
    case 3: operation.set.tokens = kTokensMax + 1; break;
    case 4: operation.set.agent = long_agent; break;
    case 5: operation.set.meta = long_meta; break;
    case 6: operation.set.ttl = Duration(-static_cast<std::int64_t>(rng_.Below(2))); break;
    case 7: operation.source = Source({Fragment{&item, 1, Place::kDevice}}); break;
    case 8: operation.source = Source({Fragment{nullptr, 1}}); break;
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
            (!operation.status ||
             Value(e.set, e.size).FirstWrong(item.sink.data()) != e.size || operation.bytes != e.size)) {
          verdict_.Fail(kValues, fmt::format("a get into a sink of {} bytes brought other bytes than were set: {}",
                                             item.sink.size(),
                                             operation.status ? "ok" : operation.status.error().message));
        }
      }
      break;
    }
  }
  item.stage = Item::Stage::kEnded;
}

// The blocking form: whoever calls it is the one the strand runs on.
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
      case 0: FillOther(flight, i, Operation::Kind::kErase); break;
      case 1: FillOther(flight, i, Operation::Kind::kTouch); break;
      case 2:
      case 3: FillOther(flight, i, Operation::Kind::kGet); break;
      case 4: rng_.OneIn(8) ? FillBadSet(flight, i) : FillSet(flight, i); break;
      default: FillSet(flight, i); break;
    }
  }
  Submit(at);
}

// --- reads: on the caller's thread, between any two events of the strand ---

EntryNo World::CheckGot(std::uint32_t key, const spillway::Lease& lease) {
  const EntryNo entry = judge_->Found(key, static_cast<bool>(lease), now(), "get");
  Note(entry == kNobody ? Act::kMiss : Act::kHit);
  ++(entry == kNobody ? misses_ : hits_);
  Mark(lease ? lease.generation() : 0);
  if (entry == kNobody) return kNobody;
  model_.Lease(entry, now());
  judge_->CheckLease(entry, lease, "get");
  return entry;
}

void World::Hold(spillway::Lease lease, EntryNo entry) {
  if (verdict_.failed()) return;
  holdings_.push_back({std::move(lease), entry});
}

void World::DoGet(bool hold) {
  const std::uint32_t key = AnyKey();
  spillway::Lease lease;
  {
    const Waiting waiting(this, Inline::kLook);
    core_->Get(model_.key(key), &lease);
  }
  const EntryNo entry = CheckGot(key, lease);
  if (entry == kNobody) return;
  Hold(std::move(lease), entry);
  if (!hold || holdings_.size() > plan_.leases_max) ReleaseAt(holdings_.size() - 1);
}

void World::DoGetMany() {
  std::array<std::string_view, 40> keys;
  std::array<std::uint32_t, 40> numbers{};
  std::array<spillway::Lease, 40> leases;
  const std::size_t count = rng_.Between(1, keys.size());
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = AnyKey();
    if (Overdue(numbers[i])) return;
    keys[i] = model_.key(numbers[i]);
  }
  std::size_t hits = core_->GetMany(keys.data(), count, leases.data());
  for (std::size_t i = 0; i < count; ++i) {
    const EntryNo entry = CheckGot(numbers[i], leases[i]);
    if (entry == kNobody) continue;
    --hits;
    Hold(std::move(leases[i]), entry);
  }
  if (hits != 0) verdict_.Fail(kValues, "GetMany counted wrong");
  while (holdings_.size() > plan_.leases_max && !verdict_.failed()) ReleaseAt(holdings_.size() - 1);
}

void World::DoTouch() {
  const std::uint32_t key = AnyKey();
  bool found = false;
  {
    const Waiting waiting(this, Inline::kLook);
    found = core_->Touch(model_.key(key));
  }
  const EntryNo entry = judge_->Found(key, found, now(), "touch");
  ++(entry == kNobody ? misses_ : hits_);
  if (entry != kNobody) model_.Use(entry, now());
}

void World::DoContains() {
  const std::uint32_t key = AnyKey();
  const Waiting waiting(this, Inline::kLook);
  judge_->Found(key, core_->Contains(model_.key(key)), now(), "contains");
}

std::vector<std::uint32_t> World::AnyChain() {
  std::vector<std::uint32_t> chain;
  const auto first = static_cast<std::uint32_t>(AnyKey() / plan_.chain * plan_.chain);
  const std::size_t end = std::min(plan_.keys.size(), first + plan_.chain);
  for (std::uint32_t key = first; key < end; ++key) chain.push_back(key);
  if (rng_.OneIn(4)) chain.erase(chain.begin());
  return chain;
}

void World::DoMatch(bool lease) {
  const std::vector<std::uint32_t> chain = AnyChain();
  std::vector<std::string_view> keys;
  for (const std::uint32_t key : chain) keys.emplace_back(model_.key(key));
  std::vector<spillway::Lease> leases;
  const std::size_t run = core_->Match(keys, lease ? &leases : nullptr);

  // What is present without a gap, each behind the very entry it continues.
  std::vector<EntryNo> expected;
  for (const std::uint32_t key : chain) {
    const EntryNo entry = model_.VisibleOf(key, now());
    if (entry == kNobody) break;
    const Entry& e = model_.at(entry);
    const std::uint64_t before = expected.empty() ? 0 : model_.at(expected.back()).set;
    if (e.parent_declared && (expected.empty() ? e.parent_set == 0 : e.parent_set != before)) break;
    expected.push_back(entry);
  }
  Note(Act::kMatch);
  Mark(run);
  if (run != expected.size() || (lease && leases.size() != run)) {
    return verdict_.Fail(kValues, fmt::format("match of {} keys from '{}' on found {}, it should be {}",
                                              keys.size(), Printable(keys.empty() ? "" : keys[0]), run,
                                              expected.size()));
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {
    ++hits_;
    model_.Lease(expected[i], now());
    judge_->CheckLease(expected[i], leases[i], "get");
    Hold(std::move(leases[i]), expected[i]);
  }
  while (holdings_.size() > plan_.leases_max && !verdict_.failed()) ReleaseAt(holdings_.size() - 1);
}

void World::DoRelease() {
  if (!holdings_.empty()) ReleaseAt(rng_.Below(holdings_.size()));
}

void World::ReleaseAt(std::size_t at) {
  Note(Act::kRelease);
  Holding holding = std::move(holdings_[at]);
  if (at + 1 < holdings_.size()) holdings_[at] = std::move(holdings_.back());
  holdings_.pop_back();
  judge_->CheckLease(holding.entry, holding.lease, "at release");
  if (verdict_.failed()) return;
  const std::size_t before = pending_.size();
  const bool reaps = model_.Release(holding.entry);
  holding.lease.Release();
  if (reaps && model_.waiting_to_be_reaped() == 1 && pending_.size() != before + 1) {
    verdict_.Fail(kLeases, "the last lease on a dead generation was released, and nobody was told");
  }
}

void World::DoStats() {
  Stats stats;
  std::vector<std::string> order;
  {
    const Waiting waiting(this, Inline::kQuiet);
    stats = core_->stats();
    order = core_->engine().LeavingOrder();
    if (core_->Reclaim(1, Duration::zero()).freed != 0) {
      verdict_.Fail(kWhoLeaves, "reclaim destroyed what has no other copy");
    }
    Sums seen;
    core_->ForEach([&](const Cache::EntryInfo& info) {
      const std::int64_t key = model_.KeyNumber(info.key);
      const EntryNo entry = key < 0 ? kNobody : model_.LiveOf(static_cast<std::uint32_t>(key));
      if (entry == kNobody) return verdict_.Fail(kValues, "ForEach shows what is not there");
      const Entry& e = model_.at(entry);
      seen.Add(e);
      if (info.bytes != e.size || info.tokens != e.tokens || info.leases != e.leases ||
          info.access_count != e.accesses || info.idle != now() - e.last_use) {
        verdict_.Fail(kValues, "ForEach shows an entry as it is not");
      }
    });
    if (seen.entries != model_.live_sums().entries || seen.bytes != model_.live_sums().bytes) {
      verdict_.Fail(kValues, "ForEach does not show all entries");
    }
    if (core_->Explain(model_.key(AnyKey())).empty()) verdict_.Fail(kValues, "explain has no answer");
  }
  if (stats.hits != hits_ || stats.misses != misses_ || stats.leases != holdings_.size() ||
      stats.left_by_reason != heard_by_reason_ || stats.entries != model_.live().size() || stats.reservations != model_.reserved_sums().entries) {
    verdict_.Fail(kAccounting, fmt::format("stats: {} hits, {} misses, {} leases, {} entries, {} reservations; "
                                           "it should be {}, {}, {}, {}, {}",
                                           stats.hits, stats.misses, stats.leases, stats.entries,
                                           stats.reservations, hits_, misses_, holdings_.size(),
                                           model_.live().size(), model_.reserved_sums().entries));
  }
  if (model_.live().size() <= 200) judge_->CheckLeavingOrder(order, now());
}

}  // namespace spillway::sim
