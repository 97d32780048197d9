#include "policy/score_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <new>

#include "policy/use_levels.h"

namespace spillway {
namespace {

// What a tier below is taken for until it has been measured.
constexpr double kBelowRate = 2e9;
constexpr double kBelowLatencyS = 1e-4;
// What is of unknown cost: a byte of an 8B model's keys and values.
constexpr double kPerByteS = 43e-6 / 131'072;
// Plans are made anew at least so often.
constexpr double kPlanForS = 0.1;
// So few buckets are compared before each departure.
constexpr std::size_t kFewBuckets = 16;
constexpr std::size_t kFewNodes = 65'536;
// Who is done goes before all who are not, while that word is believed.
constexpr double kDoneShare = 1e-3;
// So many in a row that were used since they were looked at: what is known of the
// others is as old, and looking at a million one by one would take too long. Then
// last use, which reads many at once, ranks for so many departures.
constexpr std::size_t kUsedMost = 32;
constexpr std::size_t kOutdatedFor = 1024;
constexpr std::size_t kPlainLooksMost = 256;
// Fresh ones come after all others.
constexpr double kFreshValue = 1e100;

// The nearest half octave, by a double's exponent and fraction.
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

std::uint32_t LevelOfUses(const Facts& facts) {
  return UseLevel(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(facts.access_count, std::numeric_limits<std::uint32_t>::max())));
}

}  // namespace

ScoreOrder::ScoreOrder(const Ranked& ranked)
    : reader_(ranked.reader),
      idle_(ranked.idle),
      scores_(ranked.scores),
      line_(ranked.line),
      top_(ranked.top),
      last_(ranked.last),
      below_rate_(kBelowRate),
      below_latency_s_(kBelowLatencyS),
      plain_(ranked.reader, ranked.mark) {
  if (scores_ != nullptr) scores_->Register(line_, this);
}

std::unique_ptr<Order> MakeScoreOrder(const Ranked& ranked) {
  return std::make_unique<ScoreOrder>(ranked);
}

std::string_view ScoreOrder::name(Level) const { return scores_->by_recency() ? "lru" : "score"; }

bool ScoreOrder::Entered(EntryId id, const Facts& facts) {
  if (!EntryScores::LooksPlain(facts) || scores_->Find(id) != kNoNote) {
    return scores_->Join(id, facts, line_, top_);
  }
  plain_cost_ = LevelOf(CostOf(0, facts.tokens, facts.bytes));
  return plain_.Enter(id, facts, scores_->SecondsOf(facts.last_use));
}

void ScoreOrder::Left(EntryId id) {
  scores_->Leave(id, line_);
  plain_.Left(id);
}

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
  const NoteId found = scores_->Find(id);
  const double idle = std::max(scores_->now_s() - scores_->SecondsOf(facts.last_use), 0.0);
  if (!scores_->knows()) return 1 / (idle + 1);
  if (found == kNoNote) return scores_->PlainRate(LevelOfUses(facts), idle);
  return scores_->Rate(scores_->note(found), idle);
}

double ScoreOrder::MissCost(EntryId id, const Facts& facts) const {
  const NoteId found = scores_->Find(id);
  const double declared = found == kNoNote ? 0 : double{scores_->note(found).recompute_s};
  return CostOf(declared, facts.tokens, facts.bytes);
}

double ScoreOrder::ValueOf(const Note& note, std::int8_t cost, double age_s) const {
  if (EntryScores::IsFresh(note, age_s)) return kFreshValue / (age_s + 1e-3);
  const bool done = note.hint == kSaidDone && scores_->believes_done();
  return scores_->Rate(note, age_s) * CostAt(cost) * (done ? kDoneShare : 1);
}

std::int64_t ScoreOrder::KeyFor(Level, const Facts& facts) const { return KeyByLastUse(facts); }

std::int64_t ScoreOrder::KeyOf(Level, EntryId id, const Facts& facts) const {
  const NoteId found = scores_->Find(id);
  if (scores_->by_recency()) return KeyByLastUse(facts);
  if (found == kNoNote) {
    return std::bit_cast<std::int64_t>(Rate(id, facts) *
                                       CostAt(LevelOf(CostOf(0, facts.tokens, facts.bytes))));
  }
  const Note& note = scores_->note(found);
  const double since = std::max(note.since, scores_->SecondsOf(facts.last_use));
  const double age = std::max(scores_->now_s() - since, 0.0);
  // The bits of a double that is not negative order as the double does.
  return std::bit_cast<std::int64_t>(ValueOf(note, LevelOf(MissCost(id, facts)), age));
}

// --- places ---

std::size_t ScoreOrder::BucketOf(const Note& note, std::int8_t cost) {
  const std::uint64_t key = (std::uint64_t{note.c} << 16) | (std::uint64_t{note.step} << 8) |
                            static_cast<std::uint8_t>(cost);
  Known& known = known_[(key * 0x9e3779b97f4a7c15ULL) >> 56];
  if (known.key == key) return known.bucket;
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    known = {key, found->second};
    return found->second;
  }
  used_.reserve(buckets_.size() + 1);
  buckets_.push_back({.c = note.c, .step = note.step, .cost = cost});
  try {
    by_key_.emplace(key, buckets_.size() - 1);
  } catch (const std::bad_alloc&) {
    buckets_.pop_back();
    throw;
  }
  return buckets_.size() - 1;
}

std::int8_t ScoreOrder::CostLevel(NoteId id) const {
  const Note& note = scores_->note(id);
  Facts facts;
  if (!reader_->Read(note.id, &facts)) return note.cost[line_];
  return LevelOf(CostOf(double{note.recompute_s}, facts.tokens, facts.bytes));
}

void ScoreOrder::Place(NoteId id) {
  Note& note = scores_->note(id);
  const std::int8_t cost = CostLevel(id);
  const std::size_t at = BucketOf(note, cost);
  Bucket& bucket = buckets_[at];
  const Node node{id, note.id.tag, note.since};
  if (bucket.head > 0 && !bucket.empty() && note.since < bucket.nodes[bucket.head].since) {
    bucket.nodes[--bucket.head] = node;
  } else {
    bucket.nodes.push_back(node);
  }
  note.cost[line_] = cost;
  if (!bucket.listed) {
    used_.push_back(at);  // There is room (BucketOf).
    bucket.listed = true;
  }
  ++nodes_;
  if (nodes_ > 4096 && nodes_ > 3 * members_) DropOld();
}

bool ScoreOrder::Counts(const Node& node, const Bucket& bucket) const {
  const Note& note = scores_->note(node.note);
  return note.here && note.id.tag == node.tag && (note.lines & (1U << line_)) != 0 &&
         note.since == node.since && note.c == bucket.c && note.step == bucket.step &&
         note.cost[line_] == bucket.cost;
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
      scores_->Prefetch(bucket->nodes[bucket->head + kAhead].note);
      reader_->Prefetch(scores_->note(bucket->nodes[bucket->head + kAhead / 2].note).id);
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

// --- who leaves ---

bool ScoreOrder::LeavesBefore(const Planned& a, const Planned& b) {
  if (a.fresh != b.fresh) return b.fresh;
  if (a.worth != b.worth) return a.worth < b.worth;
  if (a.since != b.since) return a.since < b.since;
  return a.place < b.place;
}

std::optional<ScoreOrder::Planned> ScoreOrder::Appraise(std::size_t at) {
  Bucket& bucket = buckets_[at];
  const Node* const first = Front(&bucket);
  if (first == nullptr) return std::nullopt;
  const Note& note = scores_->note(first->note);
  const double age = scores_->AgeOf(note);
  const bool fresh = EntryScores::IsFresh(note, age);
  const double worth = fresh ? note.since : ValueOf(note, bucket.cost, age);
  return Planned{at, fresh, worth, note.since, note.id.slot};
}

void ScoreOrder::MakePlan() {
  plan_.clear();
  plan_at_ = 0;
  std::size_t kept = 0;
  for (const std::size_t at : used_) {
    const std::optional<Planned> planned = Appraise(at);
    if (!planned) {
      buckets_[at].listed = false;
      continue;
    }
    used_[kept++] = at;
    plan_.push_back(*planned);
  }
  used_.resize(kept);
  if (plan_.size() > kPlanMost) {
    std::nth_element(plan_.begin(), plan_.begin() + kPlanMost, plan_.end(), &LeavesBefore);
    plan_.resize(kPlanMost);
  }
  std::sort(plan_.begin(), plan_.end(), &LeavesBefore);
  // Where there are few entries they are large, and a better choice is worth more.
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
    const std::optional<Planned> first = Appraise(plan_[plan_at_].bucket);
    if (!first) {
      ++plan_at_;
      continue;
    }
    const auto here = plan_.begin() + static_cast<std::ptrdiff_t>(plan_at_);
    // Its next one may be worth more than the first of the bucket after it.
    const auto place = std::upper_bound(here + 1, plan_.end(), *first, &LeavesBefore);
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
  std::size_t looks = 0;
  for (;;) {
    bool plain = false;
    // Where nearly all were used, one of them goes after so many looks: no departure
    // may take as long as a million of them.
    const std::optional<EntryId> without = NextPlain(looks >= kPlainLooksMost, &plain);
    if (without) return without;
    if (plain) {
      ++looks;
      continue;
    }
    const std::optional<std::size_t> least = Least();
    if (!least) return std::nullopt;
    Bucket& bucket = buckets_[*least];
    const NoteId id = bucket.nodes[bucket.head].note;
    PopFront(&bucket);
    const EntryId entry = scores_->note(id).id;
    scores_->Expect(scores_->note(id).hash);
    Facts facts;
    if (!reader_->Read(entry, &facts) || facts.children > 0) {
      scores_->Leave(entry, line_);  // Gone, or not a leaf now; it enters again when it is.
      continue;
    }
    if (scores_->Look(id, facts)) {
      if (++used == kUsedMost) {
        outdated_for_ = kOutdatedFor;
        return std::nullopt;
      }
      // It stands elsewhere now, maybe first; where there are many that can wait.
      if (used_.size() <= kFewBuckets) plan_left_ = 0;
      continue;
    }
    scores_->Leave(entry, line_);
    if (entry == scores_->spared()) {
      aside_.push_back(entry);
      continue;
    }
    if (plan_left_ > 0) --plan_left_;
    return entry;
  }
}

std::optional<EntryId> ScoreOrder::NextPlain(bool even_if_used, bool* found) {
  if (!plain_.serves()) {
    const double cost = CostAt(plain_cost_);
    const std::optional<double> worth = plain_.Compare([&](std::size_t level, double since) {
      const double age = std::max(scores_->now_s() - since, 0.0);
      return scores_->PlainRate(static_cast<std::uint32_t>(level), age) * cost;
    });
    if (!worth) return std::nullopt;
    if (const std::optional<double> noted = LeastWorth(); noted && *noted < *worth) {
      plain_.Stop();
      return std::nullopt;
    }
  }
  *found = true;
  constexpr std::size_t kPlaceAhead = 8;
  if (const auto soon = plain_.Coming(kPlaceAhead)) scores_->PrefetchPlace(*soon);
  const std::optional<EntryId> next =
      plain_.TryTake([&](TimePoint at) { return scores_->SecondsOf(at); }, even_if_used);
  if (!next || *next != scores_->spared()) return next;
  aside_.push_back(*next);
  return std::nullopt;
}

// By last use; it stands in no bucket any more. Who was taken out of its bucket is
// passed by: it goes, or enters again, here and there.
std::optional<EntryId> ScoreOrder::NextIdle() {
  constexpr std::size_t kNoteAhead = 8;
  if (const auto far = idle_->Coming(2 * kNoteAhead)) scores_->PrefetchPlace(*far);
  if (const auto near = idle_->Coming(kNoteAhead)) scores_->PrefetchNote(*near);
  std::optional<EntryId> next = idle_->Next();
  while (next && !Stands(*next)) next = idle_->Next();
  if (next) Left(*next);
  return next;
}

bool ScoreOrder::Stands(EntryId id) const {
  const NoteId found = scores_->Find(id);
  if (found != kNoNote) return (scores_->note(found).lines & (1U << line_)) != 0;
  Facts facts;
  return plain_.Holds(id) || !reader_->Read(id, &facts) || !EntryScores::LooksPlain(facts);
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
  if (!next && !aside_.empty()) {  // There is nobody else.
    next = aside_.back();
    aside_.pop_back();
  }
  for (const EntryId id : aside_) {
    Facts facts;
    if (reader_->Read(id, &facts)) static_cast<void>(Entered(id, facts));
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
  // Only what changes much: all that stand here are placed anew.
  const bool same = bytes_per_s > below_rate_ / 2 && bytes_per_s < below_rate_ * 2;
  if (bytes_per_s <= 0 || last_ || same) return;
  below_rate_ = bytes_per_s;
  below_latency_s_ = latency_s;
  try {
    std::vector<NoteId> all;
    for (const Bucket& bucket : buckets_) {
      for (std::size_t i = bucket.head; i < bucket.nodes.size(); ++i) {
        if (Counts(bucket.nodes[i], bucket)) all.push_back(bucket.nodes[i].note);
      }
    }
    for (const NoteId note : all) Place(note);
  } catch (const std::bad_alloc&) {
    // They are placed as they pass the next step.
  }
  plan_left_ = 0;
}

}  // namespace spillway
