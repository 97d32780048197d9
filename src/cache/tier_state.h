// SPDX-License-Identifier: Apache-2.0
// One tier as the engine sees it: its pressure by its own source, the level that its
// governor derives from that, and its eviction queues.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "cache/peer_reservations.h"
#include "cache/pressure_estimator.h"
#include "cache/store.h"
#include "monitor/governor.h"
#include "policy/policy.h"
#include "policy/workflow_order.h"

namespace spillway {

// The clean or the dirty entries of one tier (TierView), in the order of eviction.
struct EvictionQueue {
  EvictionQueue(const Store* store, TierId tier, bool clean, bool leaves_only,
                std::string_view policy_name, const RuleSettings& rules,
                NextUseTable* next_use_table, WorkflowOrder::Running* running, EntryScores* scores)
      : view(store, tier, clean, leaves_only),
        idle(KeyByLastUse, &view, MarkOf(tier, clean, 0)),
        policy(std::move(
            *MakePolicy(policy_name, rules,
                        {&view, &idle, MarkOf(tier, clean, 1), scores, NumberOf(tier, clean),
                         tier == store->top(), leaves_only && !clean}))),
        next_uses(next_use_table),
        workflow_order(&view, next_use_table, BitOf(tier, clean), UnknownMarkOf(tier, clean),
                       running,
                       policy.order->cost_model() == nullptr ? nullptr : policy.order.get()) {}
  EvictionQueue(const EvictionQueue&) = delete;
  EvictionQueue& operator=(const EvictionQueue&) = delete;

  void Enter(EntryId id) {
    Facts facts;
    if (!view.Read(id, &facts)) return;
    if (!idle.Enter(id, facts)) lacks_entries = true;
    if (!policy.order->OnInsert(id, facts)) lacks_entries = true;
    if (next_uses->armed && !workflow_order.Entered(id, facts)) lacks_entries = true;
  }
  void Left(EntryId id) {
    idle.Left(id);
    policy.order->OnRemove(id);
    if (next_uses->armed) workflow_order.Left(id);
  }

  // Takes out the entry that is evicted next, by the order in force.
  std::optional<EntryId> Next(Level level, WorkflowOrder::CandidateFilter filter =
                                               WorkflowOrder::CandidateFilter::kNotProtected) {
    return next_uses->in_force ? workflow_order.Next(filter) : policy.order->Next(level);
  }
  std::string_view OrderName(Level level) const {
    return next_uses->in_force ? std::string_view("workflow") : policy.order->name(level);
  }
  // Whether `a` is evicted before `b`. Without next uses in force, equals are not
  // before one another.
  bool Before(Level level, EntryId a, const Facts& of_a, EntryId b, const Facts& of_b) const {
    if (next_uses->in_force) return workflow_order.Before(a, of_a, b, of_b);
    return policy.order->KeyOf(level, a, of_a) < policy.order->KeyOf(level, b, of_b);
  }

  const TierView view;
  Ranking idle;  // By last use: idle limits, TTLs, and orders that use it.
  Policy policy;
  NextUseTable* const next_uses;
  WorkflowOrder
      workflow_order;          // Ranks instead of the policy's order while next uses are in force.
  bool lacks_entries = false;  // There was no memory to rank some entry here.

 private:
  static RankMark MarkOf(TierId tier, bool clean, unsigned which) {
    return static_cast<RankMark>(1U << (4 * IndexOf(tier) + (clean ? 2U : 0U) + which));
  }
  static std::uint8_t NumberOf(TierId tier, bool clean) {
    return static_cast<std::uint8_t>(2 * IndexOf(tier) + (clean ? 1U : 0U));
  }
  static std::uint8_t BitOf(TierId tier, bool clean) {
    return static_cast<std::uint8_t>(1U << NumberOf(tier, clean));
  }
  // No entry is clean in the last tier: its marks are free for others.
  static RankMark UnknownMarkOf(TierId tier, bool clean) {
    constexpr unsigned kFree[] = {12, 13, 14, 15, 10, 11};
    return static_cast<RankMark>(1U << kFree[2 * IndexOf(tier) + (clean ? 1U : 0U)]);
  }
};

struct TierState {
  TierId id = TierId::kDevice;
  TierState* below = nullptr;  // The next lower tier; null: this is the last.
  std::optional<Duration> ttl;
  std::uint32_t ttl_hand = 0;     // The slot that ExpireSome looks at next.
  Bytes reserve = 0;              // Kept free on a shared card; 0: none.
  PeerReservations reservations;  // Kept free besides, for neighbours that asked.

  // Dirty entries: those without a copy in a lower tier. Above the last tier they are
  // copied down in any order; from the last tier only leaves may be removed.
  std::unique_ptr<EvictionQueue> dirty;
  WorkflowOrder::Running running;
  // Clean entries: they can be dropped at once, leaves first. Null in the last tier.
  std::unique_ptr<EvictionQueue> clean;

  std::unique_ptr<Governor> governor;
  PressureEstimator estimator;
  std::atomic<Level> level{Level::kRelaxed};
  TimePoint level_since;
  TimePoint sampled_at;
  Duration sample_period{};
  Bytes unknown_ceiling = 0;  // While UNKNOWN: bytes held when it began.
  std::uint64_t samples = 0;
  std::uint64_t samples_failed = 0;
  std::uint64_t level_changes = 0;

  // Dirty bytes on their way down: soon clean.
  Bytes going = 0;
  std::size_t background = 0;  // Write-back transfers from here.
  // After a failed transfer into this tier it receives nothing until then.
  TimePoint write_backoff_until{};
  // Evictions here did not yield the room they were made for: no more until then.
  TimePoint no_eviction_until{};
  // RebalanceBackups: the slot that is looked at next, and when the next search may begin.
  std::uint32_t rebalance_cursor = 0;
  TimePoint no_rebalance_until{};
  TimePoint no_urgent_rebalance_until{};
  // The same for ends of chains (BackupTails), and for whole chains (CompleteChains).
  std::uint32_t ends_hand = 0;
  TimePoint no_close_until{};
  // The last relief found no room below for what it should have made clean: the level
  // stands for that reason.
  bool no_room_below = false;
  std::uint64_t failed_moves = 0;
  Status last_failure;  // Why the last of those failed.

  // Its device is lost: it takes nothing, and entries that were only here are lost. Set
  // on the strand, read on any thread.
  std::atomic<bool> gone{false};
  bool remains = false;  // Copies that are leased or in a transfer are still here.

  bool last() const { return below == nullptr; }
  bool blocked() const {
    return level.load(std::memory_order_relaxed) == Level::kEmergency ||
           gone.load(std::memory_order_relaxed);
  }
  EvictionQueue& QueueOf(const Record& record) const {
    return record.clean_in(id) ? *clean : *dirty;
  }
};

}  // namespace spillway
