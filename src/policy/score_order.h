// SPDX-License-Identifier: Apache-2.0
// One eviction queue by the learned score: rate x seconds that a miss would cost / bytes. The least
// is evicted first; among equals, the longest waiting. EntryScores knows the rates. ScoreOrder
// knows which entries are in the queue and what a miss costs from this tier: a copy from the lower
// tier, at the measured speed, or computing the entry again.
//
// Entries of one class, age step and cost level are in one bucket, longest waiting first. So the
// entry to evict is the first of some bucket. The buckets are compared from time to time, and the
// least of them (the plan) serve until then. Invalid nodes stay until they are met, or until most
// are invalid.
//
// It ranks by last use while EntryScores says so, and for a while when most entries have been used
// since they were last inspected. No call throws except Place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policy/entry_scores.h"
#include "policy/order.h"

namespace spillway {

class ScoreOrder final : public Order, public CostModel, public ScoredQueue {
 public:
  explicit ScoreOrder(const Ranked& ranked);

  std::string_view name(Level level) const override;
  bool OnInsert(EntryId id, const Facts& facts) override;
  void OnRemove(EntryId id) override;
  std::optional<EntryId> Next(Level level) override;
  std::optional<EntryId> NextByWorth() override;
  std::int64_t KeyFor(Level level, const Facts& facts) const override;
  std::int64_t KeyOf(Level level, EntryId id, const Facts& facts) const override;
  const CostModel* cost_model() const override { return this; }

  bool speaks() const override { return !scores_->by_recency(); }
  double Rate(EntryId id, const Facts& facts) const override;
  double MissCost(EntryId id, const Facts& facts) const override;

  void Place(HistoryRecordId record) override;

  // Sets the measured speed of the lower tier: bytes per second, and seconds until the first byte.
  void SetBelow(double bytes_per_s, double latency_s);
  // The worth of the entry to evict first: uses x seconds / bytes. Empty: there is none, or the
  // order ranks by last use.
  std::optional<double> LeastWorth();
  // Seconds per byte to get an entry again.
  double CostOf(double recompute_s, Tokens tokens, Bytes bytes) const;

  std::size_t nodes() const { return nodes_; }

 private:
  static constexpr std::size_t kPlanMost = 64;
  struct Node {
    HistoryRecordId record;
    std::uint32_t tag;
    double since;
  };
  // Entries of one class, age step and cost level, longest waiting first.
  struct Bucket {
    ReturnClass c = 0;
    std::uint8_t step = 0;
    std::int8_t cost = 0;
    bool listed = false;  // In used_.
    std::size_t head = 0;
    std::vector<Node> nodes{};
    bool empty() const { return head == nodes.size(); }
  };
  // A bucket with the worth of its first entry.
  struct Planned {
    std::size_t bucket;
    bool fresh;
    double worth;  // Worth of the first entry; if it is fresh, the time since when it waits.
    double since;
    std::uint64_t place;
  };
  static bool IsEvictedBefore(const Planned& a, const Planned& b);

  // Finds or adds the bucket for a record and a cost level.
  std::size_t BucketOf(const HistoryRecord& record, std::int8_t cost);
  // Whether the node is valid: its entry is in this queue and still belongs into this bucket.
  bool Counts(const Node& node, const Bucket& bucket) const;
  void PopFront(Bucket* bucket);
  // The bucket's first valid node. Null: the bucket is empty now.
  const Node* Front(Bucket* bucket);
  // The worth of a bucket's first entry. Empty: the bucket is empty.
  std::optional<Planned> SetCostModel(std::size_t bucket);
  // Compares all buckets and keeps the least ones, sorted.
  void MakePlan();
  // The bucket whose first entry is evicted first. Empty: there is no entry.
  std::optional<std::size_t> Least();
  // The entry to evict first, after inspecting it. Empty: there is none, or LRU ranks for now.
  std::optional<EntryId> FindNext();
  // The entry to evict first by last use.
  std::optional<EntryId> NextIdle();
  // Whether the entry is in this queue.
  bool Stands(EntryId id) const;
  // Removes all invalid nodes.
  void DropOld();
  // The score: rate x cost, corrected for fresh entries and those that are over.
  double ValueOf(const HistoryRecord& record, std::int8_t cost, double age_s) const;
  // The cost of an entry as a level, half an octave each.
  std::int8_t CostLevel(HistoryRecordId record) const;

  const FactReader* const reader_;
  Ranking* const idle_;
  EntryScores* const scores_;
  const std::uint8_t queue_;
  const bool top_;
  const bool last_;
  double below_rate_;
  double below_latency_s_;
  mutable double per_byte_ = 0;  // Mean over entries whose cost is known.

  std::vector<Bucket> buckets_;
  std::unordered_map<std::uint64_t, std::size_t> by_key_;
  struct Known {
    std::uint64_t key = ~std::uint64_t{0};
    std::size_t bucket = 0;
  };
  std::array<Known, 256> known_;  // A cache of bucket lookups.
  std::vector<std::size_t> used_;
  std::size_t nodes_ = 0;
  std::size_t members_ = 0;  // About how many nodes are valid.
  std::vector<Planned> plan_;
  std::size_t plan_at_ = 0;
  std::size_t plan_left_ = 0;  // Evictions until the buckets are compared again.
  double planned_at_ = -1;
  std::vector<EntryId> aside_;
  std::size_t outdated_for_ = 0;  // Evictions still to be ranked by last use.
};

}  // namespace spillway
