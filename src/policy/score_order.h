// One line of entries by the learnt score: rate x seconds a miss would cost /
// bytes, least first; among equals who waits longest. EntryScores knows the
// rates; this one knows who stands in the line and what a miss costs from here:
// a copy from the tier below, at the speed measured, or computing it anew.
//
// Entries of one class, step of age and level of cost lie in one bucket, longest
// waiting first; so who leaves is the first of one of the buckets. They are
// compared now and then, and the least of them serve until then. Old places stay
// until they are met, or most are old.
//
// Ranks by last use while EntryScores says so, and for a while where most have been
// used since they were looked at. No call throws but Place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policy/entry_scores.h"
#include "policy/order.h"
#include "policy/plain_queues.h"

namespace spillway {

class ScoreOrder final : public Order, public Appraiser, public ScoredLine {
 public:
  explicit ScoreOrder(const Ranked& ranked);

  std::string_view name(Level level) const override;
  bool Entered(EntryId id, const Facts& facts) override;
  void Left(EntryId id) override;
  std::optional<EntryId> Next(Level level) override;
  std::optional<EntryId> NextByWorth() override;
  std::int64_t KeyFor(Level level, const Facts& facts) const override;
  std::int64_t KeyOf(Level level, EntryId id, const Facts& facts) const override;
  const Appraiser* appraiser() const override { return this; }

  bool speaks() const override { return !scores_->by_recency(); }
  double Rate(EntryId id, const Facts& facts) const override;
  double MissCost(EntryId id, const Facts& facts) const override;

  void Place(NoteId note) override;

  // Bytes a second at which the tier below gives back, as measured; and what it
  // takes before the first byte.
  void SetBelow(double bytes_per_s, double latency_s);
  // What the first to leave is worth: uses x seconds / bytes. Empty: nobody, or
  // it ranks by last use.
  std::optional<double> LeastWorth();
  double CostOf(double recompute_s, Tokens tokens, Bytes bytes) const;

  std::size_t nodes() const { return nodes_; }

 private:
  static constexpr std::size_t kPlanMost = 64;
  struct Node {
    NoteId note;
    std::uint32_t tag;
    double since;
  };
  struct Bucket {
    ReturnClass c = 0;
    std::uint8_t step = 0;
    std::int8_t cost = 0;
    bool listed = false;  // In used_.
    std::size_t head = 0;
    std::vector<Node> nodes{};
    bool empty() const { return head == nodes.size(); }
  };
  struct Planned {
    std::size_t bucket;
    bool fresh;
    double worth;  // Of fresh ones: since when they wait.
    double since;
    std::uint64_t place;
  };
  static bool LeavesBefore(const Planned& a, const Planned& b);

  std::size_t BucketOf(const Note& note, std::int8_t cost);
  bool Counts(const Node& node, const Bucket& bucket) const;
  void PopFront(Bucket* bucket);
  // Its first that counts; null: it is empty now.
  const Node* Front(Bucket* bucket);
  std::optional<Planned> Appraise(std::size_t bucket);
  void MakePlan();
  // The bucket whose first leaves; empty: there is nobody.
  std::optional<std::size_t> Least();
  std::optional<EntryId> FindNext();
  // Of those without notes, if that is the one to leave; `found`: it was one of them
  // who had to be looked at. `even_if_used`: that does not save it.
  std::optional<EntryId> NextPlain(bool even_if_used, bool* found);
  std::optional<EntryId> NextIdle();
  bool Stands(EntryId id) const;
  void DropOld();
  double ValueOf(const Note& note, std::int8_t cost, double age_s) const;
  std::int8_t CostLevel(NoteId note) const;

  const FactReader* const reader_;
  Ranking* const idle_;
  EntryScores* const scores_;
  const std::uint8_t line_;
  const bool top_;
  const bool last_;
  double below_rate_;
  double below_latency_s_;
  mutable double per_byte_ = 0;  // Of those whose cost is known, on the whole.

  std::vector<Bucket> buckets_;
  std::unordered_map<std::uint64_t, std::size_t> by_key_;
  struct Known {
    std::uint64_t key = ~std::uint64_t{0};
    std::size_t bucket = 0;
  };
  std::array<Known, 256> known_;  // Of those met lately.
  std::vector<std::size_t> used_;
  PlainQueues plain_;
  std::int8_t plain_cost_ = 0;  // Of who came last; they are all alike.
  std::size_t nodes_ = 0;
  std::size_t members_ = 0;  // About so many count.
  std::vector<Planned> plan_;
  std::size_t plan_at_ = 0;
  std::size_t plan_left_ = 0;  // Departures until buckets are compared again.
  double planned_at_ = -1;
  std::vector<EntryId> aside_;
  std::size_t outdated_for_ = 0;  // Departures by last use.
};

}  // namespace spillway
