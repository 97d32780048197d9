// SPDX-License-Identifier: Apache-2.0
// An Order ranks the entries of one eviction queue: evict-first at the front. It only ranks: rules
// say which entries may be evicted and how much to free, and the engine carries that out. An Order
// may keep history; it has no access to devices, tiers or clocks. Called only on the engine's
// strand.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "policy/facts.h"
#include "policy/ranking.h"
#include "spillway/mode.h"

namespace spillway {

// The cost model: what it is worth to keep an entry.
class CostModel {
 public:
  virtual ~CostModel() = default;
  // False: too little is known now, and ranking by last use is as good.
  virtual bool speaks() const = 0;
  // Expected uses per second, learned from similar entries.
  virtual double Rate(EntryId id, const Facts& facts) const = 0;
  // Seconds per byte that a miss costs, once the entry is no longer in this tier.
  virtual double MissCost(EntryId id, const Facts& facts) const = 0;
};

// One ranking of one queue. The caller announces which entries are candidates (OnInsert, OnRemove)
// and takes them out (Next).
class Order {
 public:
  virtual ~Order() = default;

  // What it ranks by at this level, as shown in events ("lru", "heavy").
  virtual std::string_view name(Level level) const = 0;

  // Adds a leaf that may be evicted: a new entry, one returned to the queue, or a parent whose last
  // child was removed. Does nothing if the leaf is known already. False: no memory; the entry may
  // be missing from the ranking.
  virtual bool OnInsert(EntryId id, const Facts& facts) = 0;
  // Removes an entry: it is being evicted or removed, or is no longer a leaf.
  virtual void OnRemove(EntryId id) = 0;

  // Removes and returns the leaf to evict first at this level. The cost grows with the entries used
  // since, not with the number of entries. If the caller does not evict it, it must call OnInsert
  // again.
  virtual std::optional<EntryId> Next(Level level) = 0;

  // The same, by worth alone (see `cost_model`). The entry stays in `idle`. Empty also where the
  // order ranks by last use at the moment.
  virtual std::optional<EntryId> NextByWorth() { return std::nullopt; }

  // The key by which entries are compared at this level: the least is evicted first.
  virtual std::int64_t KeyFor(Level level, const Facts& facts) const = 0;
  // The same for orders whose key depends on the entry and not only on its facts.
  virtual std::int64_t KeyOf(Level level, EntryId id, const Facts& facts) const {
    static_cast<void>(id);
    return KeyFor(level, facts);
  }
  // Null: this order has no cost model.
  virtual const CostModel* cost_model() const { return nullptr; }
};

class EntryScores;

// What an order ranks, and what it may share with its caller. `reader` gives the entries' facts.
// `idle` ranks them by last use; the caller keeps it for its own purposes (idle limits, TTL), and
// orders that rank by last use share it. `mark` is this order's own bit.
struct Ranked {
  const FactReader* reader = nullptr;
  Ranking* idle = nullptr;
  RankMark mark = 0;
  // For the score: the history of all entries, and the number of this queue.
  EntryScores* scores = nullptr;
  std::uint8_t queue = 0;
  bool top = true;   // This queue is the device tier's.
  bool last = true;  // There is no lower tier: evicted entries are destroyed.
};
std::unique_ptr<Order> MakeDocumentedOrder(const Ranked& ranked);
std::unique_ptr<Order> MakeLruOrder(const Ranked& ranked);
std::unique_ptr<Order> MakeHybridOrder(const Ranked& ranked);
// Requires `ranked.scores`.
std::unique_ptr<Order> MakeScoreOrder(const Ranked& ranked);

}  // namespace spillway
