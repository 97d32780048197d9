// SPDX-License-Identifier: Apache-2.0
// The cache's events: may this very entry be evicted, at this moment, for this reason?
// And was it evicted?
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "tiersim/world_parts.h"

namespace spillway::tiersim {

namespace {

// As the Engine's: after a failed transfer a tier receives nothing for this long.
constexpr Duration kWriteBackoff = std::chrono::milliseconds(250);

bool IsRelief(Reason reason) {
  return reason == Reason::kIdle || reason == Reason::kHeavy || reason == Reason::kOrder;
}

std::optional<TierId> TierCalled(std::string_view name) {
  for (const TierId tier : kTierIds) {
    if (Name(tier) == name) return tier;
  }
  return std::nullopt;
}

}  // namespace

void World::OnCacheEvent(const Event& event) {
  if (dead_ || verdict_.failed()) return;
  if (options_.verbose) {
    fmt::print("    {} '{}' from {} ({}, {}), {} bytes, level {}\n", Name(event.action),
               Printable(event.key), event.tier, Name(event.reason), event.order, event.bytes,
               Name(event.level));
  }
  if (loading_) {
    SeeAdoptedAndGone(event);
    SeeAdopted();
  }
  Mark(event.generation ^ (static_cast<std::uint64_t>(event.action) << 60 |
                           static_cast<std::uint64_t>(event.reason) << 56));
  Mark(static_cast<std::uint64_t>(event.at.time_since_epoch().count()) ^ event.bytes);
  const KeyNo key = ledger_.NumberOf(event.key);
  const SetNo set = key == kNoKey ? 0 : ledger_.current(key);
  const std::optional<TierId> tier = TierCalled(event.tier);
  const auto told = [&] {
    return fmt::format("{} '{}' from {} ({})", Name(event.action), Printable(event.key), event.tier,
                       Name(event.reason));
  };
  if (set == 0 || ledger_.at(set).generation != event.generation) {
    return Fail(sim::kValues, told() + ": that generation had gone before");
  }
  if (!tier || !plan_.Has(*tier)) return Fail(sim::kValues, told() + ": there is no such tier");
  const SetInfo& info = ledger_.at(set);
  if (event.bytes != info.size || event.tokens != info.tokens) {
    return Fail(sim::kValues, told() + ": its size or its tokens are wrong");
  }
  const std::uint32_t slot = SlotOf(key);
  const bool findable =
      slot != kNoSlot && store().slots().record(slot).generation == event.generation;
  const bool gone =
      event.action == Action::kDestroy || (event.action == Action::kExpire && !findable);
  if (gone == findable) {
    return Fail(sim::kValues,
                told() + (findable ? ": it can still be read" : ": it can't be read any more"));
  }
  if (!gone) {
    if (event.action != Action::kBack) JudgeLeft(event, *tier, set);
    if (event.action == Action::kDrop) JudgeWorkflow(event, *tier, set);
    return;
  }
  JudgeDestroyed(event, *tier, set);
  JudgeWorkflow(event, *tier, set);
  if (running_ != nullptr && running_->key == key &&
      (event.reason == Reason::kErased || event.reason == Reason::kReplaced)) {
    running_->ended = set;
  }
  ledger_.End(set, verdict_.event);
}

// One copy was dropped; the entry stays.
void World::JudgeLeft(const Event& event, TierId tier, SetNo set) {
  const SetInfo& info = ledger_.at(set);
  const Record& record = store().slots().record(info.slot);
  const std::string& key = ledger_.key(info.key);
  if (Has(record.copies, tier) || record.copies == 0) {
    return Fail(sim::kValues,
                fmt::format("'{}' is said to have left the {} tier, and did not", key, Name(tier)));
  }
  if (event.reason != Reason::kCorrupt && record.children[IndexOf(tier)] > 0) {
    return Fail(sim::kWhoLeaves,
                fmt::format("'{}' left the {} tier ({} {}) before the {} that continue it there",
                            key, Name(tier), Name(event.action), Name(event.reason),
                            record.children[IndexOf(tier)]));
  }
  for (const Holding& holding : holdings_) {
    if (holding.set == set && holding.life == life_ && tier != TierId::kDisk &&
        memory_[IndexOf(tier)] != nullptr &&
        store().slots().slot(info.slot).data.load() != holding.lease.data() && info.size > 0) {
      Fail(sim::kLeases, fmt::format("'{}' is leased, and left the {} tier", key, Name(tier)));
    }
  }
}

void World::JudgeDestroyed(const Event& event, TierId tier, SetNo set) {
  const SetInfo& info = ledger_.at(set);
  const Record& record = store().slots().record(info.slot);
  const auto wrong = [&](int invariant, std::string_view why) {
    Fail(invariant, fmt::format("{} '{}' from {} ({}, level {}): {}", Name(event.action),
                                ledger_.key(info.key), Name(tier), Name(event.reason),
                                Name(event.level), why));
  };
  switch (event.reason) {
    case Reason::kErased:
    case Reason::kReplaced:
      return;
    case Reason::kCleared:
      if (!clearing_) wrong(sim::kValues, "nobody cleared");
      return;
    case Reason::kCorrupt:
    case Reason::kLost:
      if (!damaged_) wrong(sim::kValues, "nothing was damaged");
      return;
    case Reason::kExpired:
      if (info.deadline <= now()) return;
      break;
    default:
      break;
  }
  if (record.has_children()) return wrong(sim::kWhoLeaves, "others continue it");
  for (const Holding& holding : holdings_) {
    if (holding.set == set && holding.life == life_) return wrong(sim::kLeases, "it is leased");
  }
  if (event.reason == Reason::kExpired) {
    const std::optional<Duration>& ttl = tier == TierId::kDevice ? plan_.options.ttl
                                         : tier == TierId::kHost ? plan_.options.host_ttl
                                                                 : plan_.options.disk_ttl;
    if (!ttl || now() - info.last_use <= *ttl) wrong(sim::kWhoLeaves, "its time was not over");
    if (LowerCopiesMask(tier) & store().tiers()) wrong(sim::kWhoLeaves, "there is a tier below");
    return;
  }
  if (giving_back_) return wrong(sim::kWhoLeaves, "giving back never destroys");
  if (event.reason == Reason::kBudget) {
    if (!plan_.options.token_budget) wrong(sim::kWhoLeaves, "there is no budget");
    return;
  }
  const bool known = engine().pressure(tier).has_value();
  const Duration idle = now() - info.last_use;
  const bool has_lower = (LowerCopiesMask(tier) & store().tiers()) != 0;
  if (IsRelief(event.reason) && has_lower && (!known || event.level < Level::kEmergency)) {
    return wrong(sim::kWhoLeaves, "relief destroyed a last copy, and there is a tier below");
  }
  if (event.reason == Reason::kRoom && no_set_ && !engine().has_pending_sets() &&
      !IsEmergencyAbove(tier)) {
    return wrong(sim::kWhoLeaves, "no set needs its room");
  }
  if (IsRelief(event.reason) && known) {
    if (event.level == Level::kRelaxed) return wrong(sim::kWhoLeaves, "RELAXED evicts nobody");
    const bool at_once = event.order == "workflow" && !IsWanted(set);
    if (event.level == Level::kNormal && idle <= plan_.options.idle_normal && !at_once) {
      return wrong(sim::kWhoLeaves, "it was not idle for long enough");
    }
    if (event.level == Level::kEmergency && idle <= plan_.options.idle_critical) {
      return wrong(sim::kWhoLeaves, "EMERGENCY destroys only what is idle");
    }
  }
  // An entry that a lower tier can take is not destroyed, except late in EMERGENCY.
  const bool late = event.level == Level::kEmergency &&
                    now() - level_since_[IndexOf(tier)] > plan_.options.emergency_time;
  bool last = true;
  for (const TierId below : kTierIds) {
    if (below <= tier || !plan_.Has(below)) continue;
    last = false;
    if (!late && CouldTake(below, info.size, IsRelief(event.reason))) {
      return wrong(sim::kWhoLeaves,
                   fmt::format("the {} tier has {} bytes free", Name(below), FreeRoom(below)));
    }
  }
  // For room only if there is none.
  if (event.reason == Reason::kRoom && last && known && Refusals() == refusals_before_ &&
      FreeRoom(tier) >= plan_.value_max) {
    wrong(sim::kWhoLeaves, fmt::format("{} bytes are free", FreeRoom(tier)));
  }
}

bool World::IsEmergencyAbove(TierId tier) {
  return std::ranges::any_of(kTierIds, [&](TierId above) {
    return above < tier && plan_.Has(above) && engine().level(above) == Level::kEmergency;
  });
}

Bytes World::FreeRoom(TierId tier) {
  const Bytes capacity = store().capacity(tier);
  return capacity - std::min(capacity, store().bytes(tier));
}

std::uint64_t World::Refusals() const {
  std::uint64_t refusals = disk_ == nullptr ? 0 : disk_->refusals();
  for (const WatchedTier* tier : memory_) refusals += tier == nullptr ? 0 : tier->refusals();
  return refusals;
}

bool World::CouldTake(TierId tier, Bytes size, bool after_rest) {
  if (engine().level(tier) == Level::kEmergency || !engine().pressure(tier)) return false;
  if (FreeRoom(tier) < size) return false;
  if (!after_rest && now() < failed_at_[IndexOf(tier)] + kWriteBackoff) return false;
  if (Refusals() != refusals_before_) return false;
  if (tier == TierId::kDisk) {
    if (disk_->health() != BlobStore::Health::kGood) return false;
    BlobFacts facts;
    facts.key = plan_.keys.back();
    facts.meta = "12345678";
    facts.size = size;
    const Result<BlobId> probe = disk_->inner().Allocate(facts);
    if (probe) disk_->inner().Free(*probe);
    return probe.has_value();
  }
  // Only free memory beyond the reserve counts.
  if (tier == TierId::kDevice ? plan_.reserve > 0 : plan_.options.reserve > 0) return false;
  Tier& memory = memory_[IndexOf(tier)]->seen();
  const Result<std::byte*> probe = memory.Allocate(size);
  if (probe) memory.Free(*probe, size);
  return probe.has_value();
}

}  // namespace spillway::tiersim
