// SPDX-License-Identifier: Apache-2.0
// What clients read: on their own thread, between two events of the strand.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "sim/world_strand.h"

namespace spillway::sim {

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

  // The keys that are present without a gap, each after the very entry it continues.
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
    return verdict_.Fail(
        kValues, fmt::format("match of {} keys from '{}' on found {}, it should be {}", keys.size(),
                             Printable(keys.empty() ? "" : keys[0]), run, expected.size()));
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
    order = core_->engine().EvictionOrder();
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
    if (core_->Explain(model_.key(AnyKey())).empty())
      verdict_.Fail(kValues, "explain has no answer");
  }
  if (stats.hits != hits_ || stats.misses != misses_ || stats.leases != holdings_.size() ||
      stats.removed_by_reason != heard_by_reason_ || stats.entries != model_.live().size() ||
      stats.reservations != model_.reserved_sums().entries) {
    verdict_.Fail(kAccounting,
                  fmt::format("stats: {} hits, {} misses, {} leases, {} entries, {} reservations; "
                              "it should be {}, {}, {}, {}, {}",
                              stats.hits, stats.misses, stats.leases, stats.entries,
                              stats.reservations, hits_, misses_, holdings_.size(),
                              model_.live().size(), model_.reserved_sums().entries));
  }
  if (model_.live().size() <= 200) judge_->CheckEvictionOrder(order, now());
}

}  // namespace spillway::sim
