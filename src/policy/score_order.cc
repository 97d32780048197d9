// SPDX-License-Identifier: Apache-2.0
#include "policy/score_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>

namespace spillway {
namespace {

// The assumed speed of a lower tier until it has been measured.
constexpr double kBelowRate = 2e9;
constexpr double kBelowLatencyS = 1e-4;
// The cost of entries without tokens or a declared cost: computing a byte of an 8B model's keys and
// values.
constexpr double kPerByteS = 43e-6 / 131'072;
// The longest time a plan is used.
constexpr double kPlanForS = 0.1;
// With at most this many buckets, they are compared before each eviction.
constexpr std::size_t kFewBuckets = 16;
constexpr std::size_t kFewNodes = 65'536;
// Entries that will not be used again are evicted before all others: superseded ends of chains, and
// entries said to be done while that hint is believed.
constexpr double kOverShare = 1e-3;
// If this many entries in a row were used since they were inspected, the knowledge about the others
// is as old, and inspecting a million of them one by one would take too long. Then LRU, which reads
// many at once, ranks for the next kOutdatedFor evictions.
constexpr std::size_t kUsedMost = 32;
constexpr std::size_t kOutdatedFor = 1024;
// Fresh entries are evicted after all others.
constexpr double kFreshValue = 1e100;

// The nearest half octave, from a double's exponent and fraction.
std::int8_t LevelOf(double per_byte) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  constexpr std::uint64_t kOne = std::uint64_t{1023} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(per_byte);
  const auto octave = static_cast<int>(bits >> 52) - 1023;
  const auto part = std::bit_cast<double>((bits & kFraction) | kOne);
  const int half = (part >= 0x1.306fe0a31b715p0 ? 1 : 0) + (part >= 0x1.ae89f995ad3adp0 ? 1 : 0);
  return static_cast<std::int8_t>(std::clamp(2 * octave + half, -127, 127));
}
double CostAt(std::int8_t level) { return std::exp2(level / 2.0); }

}  // namespace

ScoreOrder::ScoreOrder(const Ranked& ranked)
    : reader_(ranked.reader),
      idle_(ranked.idle),
      scores_(ranked.scores),
      queue_(ranked.queue),
      top_(ranked.top),
      last_(ranked.last),
      below_rate_(kBelowRate),
      below_latency_s_(kBelowLatencyS) {
  if (scores_ != nullptr) scores_->Register(queue_, this);
}

std::unique_ptr<Order> MakeScoreOrder(const Ranked& ranked) {
  return std::make_unique<ScoreOrder>(ranked);
}

std::string_view ScoreOrder::name(Level) const { return scores_->by_recency() ? "lru" : "score"; }

bool ScoreOrder::OnInsert(EntryId id, const Facts& facts) {
  return scores_->Join(id, facts, queue_, top_);
}

void ScoreOrder::OnRemove(EntryId id) { scores_->OnRemove(id, queue_); }

// --- worth ---

double ScoreOrder::CostOf(double recompute_s, Tokens tokens, Bytes bytes) const {
  const auto size = static_cast<double>(std::max<Bytes>(bytes, 1));
  double anew = recompute_s;
  if (anew <= 0 && tokens > 0) anew = static_cast<double>(tokens) * scores_->prefill_s();
  if (anew > 0) {
    const double each = anew / size;
    per_byte_ = per_byte_ == 0 ? each : per_byte_ + (each - per_byte_) / 256;
  }
  if (!last_) {
    const double copy = below_latency_s_ + size / below_rate_;
    return (anew > 0 ? std::min(anew, copy) : copy) / size;
  }
  if (anew > 0) return anew / size;
  return per_byte_ > 0 ? per_byte_ : kPerByteS;
}

double ScoreOrder::Rate(EntryId id, const Facts& facts) const {
  const HistoryRecordId found = scores_->Find(id);
  const double idle = std::max(scores_->now_s() - scores_->SecondsOf(facts.last_use), 0.0);
  if (found == kNoRecord || !scores_->knows()) return 1 / (idle + 1);
  return scores_->Rate(scores_->record(found), idle);
}

double ScoreOrder::MissCost(EntryId id, const Facts& facts) const {
  const HistoryRecordId found = scores_->Find(id);
  const double declared = found == kNoRecord ? 0 : double{scores_->record(found).recompute_s};
  return CostOf(declared, facts.tokens, facts.bytes);
}

double ScoreOrder::ValueOf(const HistoryRecord& record, std::int8_t cost, double age_s) const {
  if (EntryScores::IsFresh(record, age_s)) return kFreshValue / (age_s + 1e-3);
  const bool over =
      EntryScores::IsOver(record) && (record.hint != kSaidDone || scores_->believes_done());
  return scores_->Rate(record, age_s) * CostAt(cost) * (over ? kOverShare : 1);
}

std::int64_t ScoreOrder::KeyFor(Level, const Facts& facts) const { return KeyByLastUse(facts); }

std::int64_t ScoreOrder::KeyOf(Level, EntryId id, const Facts& facts) const {
  const HistoryRecordId found = scores_->Find(id);
  if (scores_->by_recency()) return KeyByLastUse(facts);
  if (found == kNoRecord) {
    return std::bit_cast<std::int64_t>(Rate(id, facts) *
                                       CostAt(LevelOf(CostOf(0, facts.tokens, facts.bytes))));
  }
  const HistoryRecord& record = scores_->record(found);
  const double since = std::max(record.since, scores_->SecondsOf(facts.last_use));
  const double age = std::max(scores_->now_s() - since, 0.0);
  // Bits of non-negative doubles compare like the doubles.
  return std::bit_cast<std::int64_t>(ValueOf(record, LevelOf(MissCost(id, facts)), age));
}

// --- places ---

std::size_t ScoreOrder::BucketOf(const HistoryRecord& record, std::int8_t cost) {
  const std::uint64_t key = (std::uint64_t{record.c} << 16) | (std::uint64_t{record.step} << 8) |
                            static_cast<std::uint8_t>(cost);
  Known& known = known_[(key * 0x9e3779b97f4a7c15ULL) >> 56];
  if (known.key == key) return known.bucket;
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    known = {key, found->second};
    return found->second;
  }
  used_.reserve(buckets_.size() + 1);
  buckets_.push_back({.c = record.c, .step = record.step, .cost = cost});
  try {
    by_key_.emplace(key, buckets_.size() - 1);
  } catch (const std::bad_alloc&) {
    buckets_.pop_back();
    throw;
  }
  return buckets_.size() - 1;
}

std::int8_t ScoreOrder::CostLevel(HistoryRecordId id) const {
  const HistoryRecord& record = scores_->record(id);
  Facts facts;
  if (!reader_->Read(record.id, &facts)) return record.cost[queue_];
  return LevelOf(CostOf(double{record.recompute_s}, facts.tokens, facts.bytes));
}

void ScoreOrder::Place(HistoryRecordId id) {
  HistoryRecord& record = scores_->record(id);
  const std::int8_t cost = CostLevel(id);
  const std::size_t at = BucketOf(record, cost);
  Bucket& bucket = buckets_[at];
  const Node node{id, record.id.tag, record.since};
  if (bucket.head > 0 && !bucket.empty() && record.since < bucket.nodes[bucket.head].since) {
    bucket.nodes[--bucket.head] = node;
  } else {
    bucket.nodes.push_back(node);
  }
  record.cost[queue_] = cost;
  if (!bucket.listed) {
    used_.push_back(at);  // BucketOf has reserved the memory.
    bucket.listed = true;
  }
  ++nodes_;
  if (nodes_ > 4096 && nodes_ > 3 * members_) DropOld();
}

bool ScoreOrder::Counts(const Node& node, const Bucket& bucket) const {
  const HistoryRecord& record = scores_->record(node.record);
  return record.here && record.id.tag == node.tag && (record.queues & (1U << queue_)) != 0 &&
         record.since == node.since && record.c == bucket.c && record.step == bucket.step &&
         record.cost[queue_] == bucket.cost;
}

void ScoreOrder::PopFront(Bucket* bucket) {
  ++bucket->head;
  --nodes_;
  if (bucket->empty()) {
    bucket->nodes.clear();
    bucket->head = 0;
  } else if (bucket->head >= 1024 && 2 * bucket->head > bucket->nodes.size()) {
    bucket->nodes.erase(bucket->nodes.begin(),
                        bucket->nodes.begin() + static_cast<std::ptrdiff_t>(bucket->head));
    bucket->head = 0;
  }
}

const ScoreOrder::Node* ScoreOrder::Front(Bucket* bucket) {
  while (!bucket->empty()) {
    constexpr std::size_t kAhead = 8;
    const Node& first = bucket->nodes[bucket->head];
    if (bucket->head + kAhead < bucket->nodes.size()) {
      scores_->Prefetch(bucket->nodes[bucket->head + kAhead].record);
      reader_->Prefetch(scores_->record(bucket->nodes[bucket->head + kAhead / 2].record).id);
    }
    if (Counts(first, *bucket)) return &first;
    PopFront(bucket);
  }
  return nullptr;
}

void ScoreOrder::DropOld() {
  nodes_ = 0;
  for (Bucket& bucket : buckets_) {
    std::size_t kept = 0;
    for (std::size_t i = bucket.head; i < bucket.nodes.size(); ++i) {
      const Node node = bucket.nodes[i];
      if (Counts(node, bucket)) bucket.nodes[kept++] = node;
    }
    bucket.nodes.resize(kept);
    bucket.head = 0;
    if (bucket.nodes.capacity() > 4 * kept + 64) bucket.nodes.shrink_to_fit();
    nodes_ += kept;
  }
  members_ = nodes_;
}

// --- eviction ---

bool ScoreOrder::IsEvictedBefore(const Planned& a, const Planned& b) {
  if (a.fresh != b.fresh) return b.fresh;
  if (a.worth != b.worth) return a.worth < b.worth;
  if (a.since != b.since) return a.since < b.since;
  return a.place < b.place;
}

std::optional<ScoreOrder::Planned> ScoreOrder::SetCostModel(std::size_t at) {
  Bucket& bucket = buckets_[at];
  const Node* const first = Front(&bucket);
  if (first == nullptr) return std::nullopt;
  const HistoryRecord& record = scores_->record(first->record);
  const double age = scores_->AgeOf(record);
  const bool fresh = EntryScores::IsFresh(record, age);
  const double worth = fresh ? record.since : ValueOf(record, bucket.cost, age);
  return Planned{at, fresh, worth, record.since, record.id.slot};
}

void ScoreOrder::MakePlan() {
  plan_.clear();
  plan_at_ = 0;
  std::size_t kept = 0;
  for (const std::size_t at : used_) {
    const std::optional<Planned> planned = SetCostModel(at);
    if (!planned) {
      buckets_[at].listed = false;
      continue;
    }
    used_[kept++] = at;
    plan_.push_back(*planned);
  }
  used_.resize(kept);
  if (plan_.size() > kPlanMost) {
    std::nth_element(plan_.begin(), plan_.begin() + kPlanMost, plan_.end(), &IsEvictedBefore);
    plan_.resize(kPlanMost);
  }
  std::sort(plan_.begin(), plan_.end(), &IsEvictedBefore);
  // With few nodes the entries are large, so a better choice saves more.
  const std::size_t share = nodes_ < kFewNodes ? 8 : 2;
  plan_left_ = used_.size() <= kFewBuckets ? 1 : std::max<std::size_t>(used_.size() / share, 1);
  planned_at_ = scores_->now_s();
}

std::optional<std::size_t> ScoreOrder::Least() {
  if (scores_->now_s() - planned_at_ > kPlanForS) plan_left_ = 0;
  for (;;) {
    if (plan_left_ == 0 || plan_at_ == plan_.size()) {
      MakePlan();
      if (plan_.empty()) return std::nullopt;
    }
    const std::optional<Planned> first = SetCostModel(plan_[plan_at_].bucket);
    if (!first) {
      ++plan_at_;
      continue;
    }
    const auto here = plan_.begin() + static_cast<std::ptrdiff_t>(plan_at_);
    // The bucket's next entry may be worth more than the first entry of the next bucket.
    const auto place = std::upper_bound(here + 1, plan_.end(), *first, &IsEvictedBefore);
    std::move(here + 1, place, here);
    *(place - 1) = *first;
    if (place == here + 1) return first->bucket;
  }
}

std::optional<EntryId> ScoreOrder::FindNext() {
  if (outdated_for_ > 0) {
    --outdated_for_;
    return std::nullopt;
  }
  std::size_t used = 0;
  for (;;) {
    const std::optional<std::size_t> least = Least();
    if (!least) return std::nullopt;
    Bucket& bucket = buckets_[*least];
    const HistoryRecordId id = bucket.nodes[bucket.head].record;
    PopFront(&bucket);
    const EntryId entry = scores_->record(id).id;
    scores_->Expect(scores_->record(id).hash);
    Facts facts;
    if (!reader_->Read(entry, &facts) || facts.children > 0) {
      // Removed, or not a leaf now; it is added again when it becomes one.
      scores_->OnRemove(entry, queue_);
      continue;
    }
    if (scores_->Tick(id, facts)) {
      if (++used == kUsedMost) {
        outdated_for_ = kOutdatedFor;
        return std::nullopt;
      }
      // Its new place may be first. With many buckets that can wait.
      if (used_.size() <= kFewBuckets) plan_left_ = 0;
      continue;
    }
    scores_->OnRemove(entry, queue_);
    if (entry == scores_->protected_count()) {
      aside_.push_back(entry);
      continue;
    }
    if (plan_left_ > 0) --plan_left_;
    return entry;
  }
}

// By last use. An entry that is in no bucket has been taken out already and is skipped: it is being
// evicted, or will be inserted again in both lists.
std::optional<EntryId> ScoreOrder::NextIdle() {
  constexpr std::size_t kNoteAhead = 8;
  if (const auto far = idle_->Coming(2 * kNoteAhead)) scores_->PrefetchPlace(*far);
  if (const auto near = idle_->Coming(kNoteAhead)) scores_->PrefetchHistory(*near);
  std::optional<EntryId> next = idle_->Next();
  while (next && !Stands(*next)) next = idle_->Next();
  if (next) OnRemove(*next);
  return next;
}

bool ScoreOrder::Stands(EntryId id) const {
  const HistoryRecordId found = scores_->Find(id);
  return found == kNoRecord || (scores_->record(found).queues & (1U << queue_)) != 0;
}

std::optional<EntryId> ScoreOrder::Next(Level) {
  const bool by_last_use = scores_->by_recency() || outdated_for_ > 0;
  const std::optional<EntryId> next = NextByWorth();
  if (!next && (by_last_use || outdated_for_ > 0)) return NextIdle();
  return next;
}

std::optional<EntryId> ScoreOrder::NextByWorth() {
  std::optional<EntryId> next;
  if (scores_->by_recency()) return next;
  try {
    if (aside_.capacity() == 0) aside_.reserve(1);
    next = FindNext();
  } catch (const std::bad_alloc&) {
    next.reset();
  }
  if (!next && !aside_.empty()) {  // It is the only candidate.
    next = aside_.back();
    aside_.pop_back();
  }
  for (const EntryId id : aside_) {
    Facts facts;
    if (reader_->Read(id, &facts)) static_cast<void>(OnInsert(id, facts));
  }
  aside_.clear();
  return next;
}

std::optional<double> ScoreOrder::LeastWorth() {
  if (scores_->by_recency()) return std::nullopt;
  try {
    const std::optional<std::size_t> least = Least();
    if (!least || plan_[plan_at_].fresh) return std::nullopt;
    return plan_[plan_at_].worth;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

void ScoreOrder::SetBelow(double bytes_per_s, double latency_s) {
  // Only for a large change: then all nodes of this queue get new places.
  const bool same = bytes_per_s > below_rate_ / 2 && bytes_per_s < below_rate_ * 2;
  if (bytes_per_s <= 0 || last_ || same) return;
  below_rate_ = bytes_per_s;
  below_latency_s_ = latency_s;
  try {
    std::vector<HistoryRecordId> all;
    for (const Bucket& bucket : buckets_) {
      for (std::size_t i = bucket.head; i < bucket.nodes.size(); ++i) {
        if (Counts(bucket.nodes[i], bucket)) all.push_back(bucket.nodes[i].record);
      }
    }
    for (const HistoryRecordId record : all) Place(record);
  } catch (const std::bad_alloc&) {
    // They get their places when they pass the next age step.
  }
  plan_left_ = 0;
}

}  // namespace spillway
