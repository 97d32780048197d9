// SPDX-License-Identifier: Apache-2.0
// `WorkflowOrder` ranks one eviction queue by what is known about the next use of its entries
// (`NextUse`), and entries without such knowledge by last use or by the score. Evict-first:
//
//   1. Dead entries: known to the graph, but no live run needs them.
//   2. Wanted entries, most steps away first, then least probable, then latest. And unknown
//      entries, longest idle first. Of the first of each, the one less likely to be used soon is
//      evicted.
//   3. Entries that a step could use now; last, entries that a running step uses.
//
// Entries of running steps are protected, unless the filter allows any entry: for ten minutes after
// the step began or used them, and as long as all of them take at most half of the tier.
//
// An entry that was called dead and is used anyway counts as unknown from then on.
//
// It only ranks. Called on the engine's strand; no call throws.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policy/next_use.h"
#include "policy/order.h"
#include "policy/ranking.h"

namespace spillway {

class WorkflowOrder {
 public:
  // Which entries may be taken.
  enum class CandidateFilter : std::uint8_t {
    kUnwanted,  // Dead or unknown entries: no live run needs them.
    kNotProtected,
    kAny,
  };

  // Bytes that running steps use in a tier, in all its queues together.
  struct Running {
    Bytes bytes = 0;
    Bytes most = 0;  // Protected up to this many.
  };
  // `bit` is this queue's own bit of `NextUse::queued`. `others`, if not null, ranks the entries
  // without a known next use and supplies the worth of all; wanted entries are then compared with
  // unknown ones by the same score. Every entry inserted here is inserted there, too. Not owned.
  WorkflowOrder(const FactReader* reader, NextUseTable* next_uses, std::uint8_t bit, RankMark mark,
                Running* running, Order* others = nullptr)
      : reader_(reader),
        next_uses_(next_uses),
        running_(running),
        bit_(bit),
        others_(others),
        unknown_(KeyByLastUse, reader, mark) {}

  // Adds a leaf. False: no memory.
  bool Entered(EntryId id, const Facts& facts);
  // Removes the entry.
  void Left(EntryId id);

  // Removes and returns the entry to evict first. If the caller does not evict it, it must call
  // Entered again.
  std::optional<EntryId> Next(CandidateFilter filter);
  // Whether the entry is protected and must not be destroyed now.
  bool Protects(EntryId id, const Facts& facts) const;
  // Whether `a` is evicted before `b`.
  bool Before(EntryId a, const Facts& of_a, EntryId b, const Facts& of_b) const;

  std::size_t nodes() const { return nodes_.size(); }

 private:
  // An entry with a known next use, as it was when the node was made.
  struct Node {
    NextUse::Kind kind;
    std::uint32_t steps;
    std::uint64_t version;
    double p;
    double eta_s;
    std::uint64_t place;
    EntryId id;
  };
  static Node NodeOf(const NextUse& next_use, const Facts& facts);
  static bool IsEvictedBefore(const Node& a, const Node& b);
  static bool After(const Node& a, const Node& b) { return IsEvictedBefore(b, a); }
  // The first valid node, if the filter allows it, with its facts. Null: none.
  const Node* Top(CandidateFilter filter, Facts* facts);
  void Pop();
  // Removes the first node and returns its entry.
  EntryId Take();
  // The first entry without a known next use, by `others_` or by last use.
  std::optional<EntryId> NextUnknown(Facts* facts);
  std::optional<EntryId> NextByOthers(Facts* facts);
  bool EnterUnknown(EntryId id, const Facts& facts);
  // The cost model that ranks unknown entries. Null: they are ranked by last use.
  const CostModel* cost_model() const {
    const CostModel* const by = others_ == nullptr ? nullptr : others_->cost_model();
    return by != nullptr && by->speaks() ? by : nullptr;
  }
  // Comparable values: uses per second, or, with a cost model, seconds saved per second and byte.
  double WorthOf(const NextUse& next_use, const Facts& facts) const;
  double WorthOfUnknown(EntryId id, const Facts& facts) const;
  void DropStale();
  void Unqueue(NextUse* next_use);
  bool Protects(const NextUse& next_use, const Facts& facts) const;

  const FactReader* const reader_;
  NextUseTable* const next_uses_;
  Running* const running_;
  const std::uint8_t bit_;
  Order* const others_;
  // A heap. Invalid nodes stay until they reach the top or are half of all.
  std::vector<Node> nodes_;
  std::size_t stale_ = 0;  // About how many are invalid.
  // Entries without a known next use. One whose next use becomes known stays here until it is met.
  Ranking unknown_;
};

}  // namespace spillway
