// One tier as the engine sees it: how full it is by its own source, what its
// governor makes of that, and who would leave it first.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "cache/gauge.h"
#include "cache/grants.h"
#include "cache/store.h"
#include "monitor/governor.h"
#include "policy/foresight.h"
#include "policy/policy.h"

namespace spillway {

// One class of a tier's entries (TierView), in the order in which they leave.
struct Line {
  Line(const Store* store, TierId tier, bool backed, bool leaves_only, std::string_view policy_name,
       const RuleSettings& rules, Outlooks* all_outlooks, Foresight::Running* running,
       EntryScores* scores)
      : view(store, tier, backed, leaves_only),
        idle(KeyByLastUse, &view, MarkOf(tier, backed, 0)),
        policy(std::move(
            *MakePolicy(policy_name, rules,
                        {&view, &idle, MarkOf(tier, backed, 1), scores, NumberOf(tier, backed),
                         tier == store->top(), leaves_only && !backed}))),
        outlooks(all_outlooks),
        foresight(&view, all_outlooks, BitOf(tier, backed), UnknownMarkOf(tier, backed), running,
                  policy.order->appraiser() == nullptr ? nullptr : policy.order.get()) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void Enter(EntryId id) {
    Facts facts;
    if (!view.Read(id, &facts)) return;
    if (!idle.Enter(id, facts)) lacks_somebody = true;
    if (!policy.order->Entered(id, facts)) lacks_somebody = true;
    if (outlooks->armed && !foresight.Entered(id, facts)) lacks_somebody = true;
  }
  void Left(EntryId id) {
    idle.Left(id);
    policy.order->Left(id);
    if (outlooks->armed) foresight.Left(id);
  }

  // Takes out who leaves first, by the order in force.
  std::optional<EntryId> Next(Level level, Foresight::Whom whom = Foresight::Whom::kNotSpared) {
    return outlooks->in_force ? foresight.Next(whom) : policy.order->Next(level);
  }
  std::string_view OrderName(Level level) const {
    return outlooks->in_force ? std::string_view("workflow") : policy.order->name(level);
  }
  // Whether `a` leaves before `b`. Without outlooks, of equals neither does.
  bool Before(Level level, EntryId a, const Facts& of_a, EntryId b, const Facts& of_b) const {
    if (outlooks->in_force) return foresight.Before(a, of_a, b, of_b);
    return policy.order->KeyOf(level, a, of_a) < policy.order->KeyOf(level, b, of_b);
  }

  const TierView view;
  Ranking idle;  // By last use: idle limits, TTL, and every order that wants it.
  Policy policy;
  Outlooks* const outlooks;
  Foresight foresight;  // What ranks instead of the policy's order while outlooks are in force.
  bool lacks_somebody = false;  // There was no memory for an entry's place here.

 private:
  static RankMark MarkOf(TierId tier, bool backed, unsigned which) {
    return static_cast<RankMark>(1U << (4 * IndexOf(tier) + (backed ? 2U : 0U) + which));
  }
  static std::uint8_t NumberOf(TierId tier, bool backed) {
    return static_cast<std::uint8_t>(2 * IndexOf(tier) + (backed ? 1U : 0U));
  }
  static std::uint8_t BitOf(TierId tier, bool backed) {
    return static_cast<std::uint8_t>(1U << NumberOf(tier, backed));
  }
  // Nobody is backed in the last tier: its marks are free for others.
  static RankMark UnknownMarkOf(TierId tier, bool backed) {
    constexpr unsigned kFree[] = {12, 13, 14, 15, 10, 11};
    return static_cast<RankMark>(1U << kFree[2 * IndexOf(tier) + (backed ? 1U : 0U)]);
  }
};

struct TierState {
  TierId id = TierId::kDevice;
  TierState* below = nullptr;  // The next one down; null: this is the last.
  std::optional<Duration> ttl;
  std::uint32_t ttl_hand = 0;  // The slot that is looked at next (ExpireSome).
  Bytes reserve = 0;           // Kept free on a shared card; 0: none.
  Grants grants;               // Kept free besides, for who asked.

  // Entries that are nowhere further down. Where there is a further down they
  // are copied there in any order; off the last tier only leaves may go.
  std::unique_ptr<Line> firm;
  Foresight::Running running;
  // The others: they can go at once, leaves first. Null in the last tier.
  std::unique_ptr<Line> backed;

  std::unique_ptr<Governor> governor;
  Gauge gauge;
  std::atomic<Level> level{Level::kRelaxed};
  TimePoint level_since;
  TimePoint sampled_at;
  Duration sample_period{};
  Bytes unknown_ceiling = 0;  // While UNKNOWN: what we held when it began.
  std::uint64_t samples = 0;
  std::uint64_t samples_failed = 0;
  std::uint64_t level_changes = 0;

  // Firm bytes on their way down: soon backed.
  Bytes going = 0;
  std::size_t background = 0;  // Transfers of write-behind from here.
  // After a failed move into this tier it gets nothing for a while.
  TimePoint shunned_until{};
  // Somebody left it for room that was none: so long nobody else has to.
  TimePoint nobody_leaves_until{};
  // The slot that is looked at next for a trade, and not before when.
  std::uint32_t trade_hand = 0;
  TimePoint no_trade_until{};
  TimePoint no_urgent_trade_until{};
  // The same for ends of chains (BackEnds), and for whole chains (CloseChains).
  std::uint32_t ends_hand = 0;
  TimePoint no_close_until{};
  std::uint64_t failed_moves = 0;

  // Its device is lost: it takes nothing, and what was only here is gone. Set on
  // the strand, read anywhere.
  std::atomic<bool> gone{false};
  bool remains = false;  // Copies that are leased or being moved are still here.

  bool last() const { return below == nullptr; }
  bool blocked() const {
    return level.load(std::memory_order_relaxed) == Level::kEmergency ||
           gone.load(std::memory_order_relaxed);
  }
  Line& LineOf(const Record& record) const { return record.backed_in(id) ? *backed : *firm; }
};

}  // namespace spillway
