#include "policy/ranking.h"

#include <algorithm>
#include <bit>

#include "base/mutant.h"

namespace spillway {

namespace {
constexpr std::size_t kArity = 4;
// The nodes of the heap's first levels are looked at soon, the first next.
constexpr std::size_t kSoon = 1 + 4 + 16;
constexpr std::size_t kNext = 1 + 4;
// How many come near at a time: a pass over sixteen nodes for each of them.
constexpr std::size_t kNearShare = 16;
constexpr std::size_t kNearLeast = 64;
constexpr std::size_t kSamples = 256;
// Refreshing reads all; it is paid for by this share of them that were found
// to be used since.
constexpr std::size_t kRefreshShare = 64;
constexpr std::size_t kPrefetchAhead = 16;
}  // namespace

std::int64_t KeyByLastUse(const Facts& facts) { return facts.last_use.time_since_epoch().count(); }

std::int64_t KeyByWeight(const Facts& facts) {
  const auto accesses = static_cast<double>(std::max<std::uint64_t>(facts.access_count, 1));
  const double weight = static_cast<double>(facts.tokens) / accesses;
  // The bits of a double that is not negative order as the double does.
  return -std::bit_cast<std::int64_t>(weight);
}

std::int64_t KeyByHybrid(const Facts& facts) {
  constexpr std::int64_t kAccessNs = 10'000'000'000;
  const auto accesses =
      static_cast<std::int64_t>(std::min<std::uint64_t>(facts.access_count, 100'000'000));
  return KeyByLastUse(facts) + accesses * kAccessNs;
}

void Ranking::Enter(EntryId id, const Facts& facts) {
  if (Counts(id)) return;
  if (id.slot >= queued_.size()) {
    queued_.resize(std::max<std::size_t>(id.slot + 1, queued_.size() * 2));
  }
  queued_[id.slot] = id.tag;
  std::uint64_t place = facts.place;
  if (MutantOn(Mutant::kOrderByAddress)) {
    // A counter that lives longer than the cache: differs between two runs.
    static std::uint64_t never_reset = 0;
    place ^= (++never_reset * 0x9e3779b97f4a7c15ULL) >> 60;
  }
  Put({key_of_(facts), place, id});
}

void Ranking::Left(EntryId id) {
  if (!Counts(id)) return;
  queued_[id.slot] = 0;
  // Throwing them away looks at each node once: paid for by as many departures.
  if (++leftovers_ > (near_.size() + far_.size()) / 2 + 64) DropLeftovers();
}

std::optional<EntryId> Ranking::Next(std::int64_t bound) {
  for (;;) {
    if (near_.empty()) {
      if (far_.empty() || far_least_ > bound) return std::nullopt;
      BringNear();
      continue;
    }
    const Node top = near_.front();
    if (!Counts(top.id)) {
      PopTop();
      if (leftovers_ > 0) --leftovers_;
      continue;
    }
    // A bound below the top's key is below its true key too.
    if (top.key > bound) return std::nullopt;
    Facts facts;
    if (!reader_->Read(top.id, &facts) || facts.children > 0) {
      PopTop();
      queued_[top.id.slot] = 0;
      continue;
    }
    const std::int64_t key = key_of_(facts);
    PopTop();
    if (key == top.key) {
      queued_[top.id.slot] = 0;
      return top.id;
    }
    Put({key, top.place, top.id});
    // Past this point reading all of them, one beside the other, is cheaper
    // than finding them one by one.
    if (++used_since_ > (near_.size() + far_.size()) / kRefreshShare + kNearLeast) Refresh();
  }
}

void Ranking::Put(const Node& node) {
  if (Before(border_, node)) {
    far_least_ = std::min(far_least_, node.key);
    far_.push_back(node);
  } else {
    Push(node);
  }
}

// --- the heap ---

void Ranking::MoveTo(std::size_t at, const Node& node) {
  if (at < kSoon) reader_->Prefetch(node.id, /*next=*/at < kNext);
  near_[at] = node;
}

void Ranking::Push(const Node& node) {
  std::size_t at = near_.size();
  near_.push_back(node);
  while (at > 0) {
    const std::size_t parent = (at - 1) / kArity;
    if (!Before(node, near_[parent])) break;
    near_[at] = near_[parent];
    at = parent;
  }
  MoveTo(at, node);
}

void Ranking::PopTop() {
  const Node last = near_.back();
  near_.pop_back();
  if (!near_.empty()) SiftDown(0, last);
}

void Ranking::SiftDown(std::size_t at, Node node) {
  const std::size_t size = near_.size();
  for (;;) {
    const std::size_t first = at * kArity + 1;
    if (first >= size) break;
    const std::size_t end = std::min(first + kArity, size);
    std::size_t least = first;
    for (std::size_t child = first + 1; child < end; ++child) {
      if (Before(near_[child], near_[least])) least = child;
    }
    if (!Before(near_[least], node)) break;
    MoveTo(at, near_[least]);
    at = least;
  }
  MoveTo(at, node);
}

// --- near and far ---

void Ranking::BringNear() {
  border_ = NewBorder(std::max(far_.size() / kNearShare, kNearLeast));
  far_least_ = kNoBound;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < far_.size(); ++at) {
    const Node& node = far_[at];
    if (Before(border_, node)) {  // Leftovers, too: asking costs more than keeping.
      far_least_ = std::min(far_least_, node.key);
      if (kept != at) far_[kept] = node;
      ++kept;
    } else if (Counts(node.id)) {
      near_.push_back(node);
    } else if (leftovers_ > 0) {
      --leftovers_;
    }
  }
  far_.resize(kept);
  if (near_.size() < 2) return;
  for (std::size_t at = (near_.size() - 2) / kArity + 1; at-- > 0;) SiftDown(at, near_[at]);
}

// From a sample at even distances: how many come near need not be exact.
Ranking::Node Ranking::NewBorder(std::size_t count) const {
  std::vector<Node> sample;
  const std::size_t step = (far_.size() + kSamples - 1) / kSamples;
  for (std::size_t at = 0; at < far_.size(); at += step) sample.push_back(far_[at]);
  const std::size_t rank = std::min(sample.size() * count / far_.size(), sample.size() - 1);
  const auto border = sample.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sample.begin(), border, sample.end(), Before);
  return *border;
}

void Ranking::PutAllFar() {
  far_.insert(far_.end(), near_.begin(), near_.end());
  near_.clear();
  border_ = kBeforeAll;
  far_least_ = std::numeric_limits<std::int64_t>::min();
}

void Ranking::Refresh() {
  PutAllFar();
  std::size_t kept = 0;
  for (std::size_t at = 0; at < far_.size(); ++at) {
    if (at + kPrefetchAhead < far_.size()) {
      reader_->Prefetch(far_[at + kPrefetchAhead].id, /*next=*/false);
    }
    const Node node = far_[at];
    Facts facts;
    if (!Counts(node.id)) continue;
    if (!reader_->Read(node.id, &facts) || facts.children > 0) {
      queued_[node.id.slot] = 0;
      continue;
    }
    far_[kept++] = {key_of_(facts), node.place, node.id};
  }
  far_.resize(kept);
  leftovers_ = 0;
  used_since_ = 0;
}

void Ranking::DropLeftovers() {
  PutAllFar();
  std::erase_if(far_, [this](const Node& node) { return !Counts(node.id); });
  leftovers_ = 0;
}

}  // namespace spillway
