// SPDX-License-Identifier: Apache-2.0
#include "policy/ranking.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include "base/mutant.h"
#include "policy/spare.h"

namespace spillway {

namespace {
// The front's nodes fit into the first-level cache while they are sorted.
constexpr std::size_t kFrontMost = 1024;
// A cut moves one eighth of a band.
constexpr std::size_t kCutShare = 8;
constexpr std::size_t kSamples = 256;
// Before it is cut, a band is read again if more than three of four sampled entries have been used
// since they were stored; small bands are not worth sampling.
constexpr std::size_t kRefreshLeast = 4096;
constexpr std::size_t kNodesAhead = 32;  // Nodes prefetched ahead.
constexpr std::size_t kTogether = 64;    // Nodes read by one call.
}  // namespace

std::int64_t KeyByLastUse(const Facts& facts) { return facts.last_use.time_since_epoch().count(); }

std::int64_t KeyByWeight(const Facts& facts) {
  const auto accesses = static_cast<double>(std::max<std::uint64_t>(facts.access_count, 1));
  const double weight = static_cast<double>(facts.tokens) / accesses;
  // Bits of non-negative doubles compare like the doubles.
  return -std::bit_cast<std::int64_t>(weight);
}

std::int64_t KeyByHybrid(const Facts& facts) {
  constexpr std::int64_t kAccessNs = 10'000'000'000;
  const auto accesses =
      static_cast<std::int64_t>(std::min<std::uint64_t>(facts.access_count, 100'000'000));
  return KeyByLastUse(facts) + accesses * kAccessNs;
}

RankMarks* Ranking::Marked(EntryId id) const {
  RankMarks* const marks = reader_->Marks(id);
  return marks != nullptr && (*marks & mark_) != 0 ? marks : nullptr;
}

bool Ranking::Enter(EntryId id, const Facts& facts) {
  RankMarks* const marks = reader_->Marks(id);
  if (marks == nullptr || (*marks & mark_) != 0) return true;
  std::uint64_t place = facts.place;
  if (MutantOn(Mutant::kOrderByAddress)) {
    // Lives longer than the cache, so two runs differ.
    static std::uint64_t never_reset = 0;
    place ^= (++never_reset * 0x9e3779b97f4a7c15ULL) >> 60;
  }
  try {
    Put({key_of_(facts), place, id});
  } catch (const std::bad_alloc&) {
    return false;
  }
  *marks |= mark_;
  return true;
}

void Ranking::Left(EntryId id) {
  RankMarks* const marks = Marked(id);
  if (marks == nullptr) return;
  Unmark(marks);
  // Dropping them reads each node once; as many removals have paid for that.
  if (++leftovers_ <= nodes_ / 2 + 64) return;
  try {
    DropLeftovers();
  } catch (const std::bad_alloc&) {
    leftovers_ = 0;  // The next try comes when as many again have gathered.
  }
}

std::optional<EntryId> Ranking::Next(std::int64_t bound) {
  try {
    return FindNext(bound);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

std::optional<EntryId> Ranking::FindNext(std::int64_t bound) {
  for (;;) {
    if (front_.empty()) {
      const bool look_farther = depth_ > 1 && nearest().nodes.empty();
      if (!look_farther && (nodes_ == 0 || nearest().least > bound)) return std::nullopt;
      BringNear();
      continue;
    }
    const Node top = front_.back();
    RankMarks* const marks = Marked(top.id);
    // If the stored key is above the bound, so is the true key.
    if (marks != nullptr && top.key > bound) return std::nullopt;
    front_.pop_back();
    --nodes_;
    if (front_.size() > kNodesAhead) reader_->Prefetch(front_[front_.size() - kNodesAhead].id);
    if (marks == nullptr) {
      if (leftovers_ > 0) --leftovers_;
      continue;
    }
    Facts facts;
    if (!reader_->Read(top.id, &facts) || facts.children > 0) {
      Unmark(marks);
      continue;
    }
    const std::int64_t key = key_of_(facts);
    if (key == top.key) {
      Unmark(marks);
      return top.id;
    }
    try {
      Put({key, top.place, top.id});
    } catch (const std::bad_alloc&) {
      front_.push_back(top);  // Its old place: this needs no memory.
      ++nodes_;
      throw;
    }
  }
}

void Ranking::Put(const Node& node) {
  std::size_t band = 0;
  while (band < depth_ && !Before(bands_[band].floor, node)) ++band;
  band < depth_ ? bands_[band].Add(node) : PutInFront(node);
  ++nodes_;
}

void Ranking::PutInFront(const Node& node) {
  const auto after = [](const Node& a, const Node& b) { return Before(b, a); };
  if (front_.size() >= 2 * kFrontMost) {
    // The farther half moves to the nearest band.
    const auto half = front_.begin() + kFrontMost;
    Band& band = nearest();
    band.nodes.insert(band.nodes.end(), front_.begin(), half);
    band.least = std::min(band.least, (half - 1)->key);
    band.floor = *half;
    front_.erase(front_.begin(), half);
    if (Before(band.floor, node)) return band.Add(node);
  }
  front_.insert(std::upper_bound(front_.begin(), front_.end(), node, after), node);
}

// --- bands ---

void Ranking::Band::Add(const Node& node) {
  nodes.push_back(node);
  least = std::min(least, node.key);
}

void Ranking::Band::Clear() {
  nodes.clear();
  least = kNoBound;
}

void Ranking::BringNear() {
  while (nearest().nodes.size() > kFrontMost) CutNearest();
  Band& band = nearest();
  front_.swap(band.nodes);
  std::sort(front_.begin(), front_.end(),
            [](const Node& a, const Node& b) { return Before(b, a); });
  band.Clear();
  if (depth_ > 1) {
    --depth_;  // The front holds its nodes now, up to the floor of the band before it.
  } else if (!front_.empty()) {
    band.floor = front_.front();
  }
  const std::size_t soon = std::min(front_.size(), kNodesAhead);
  for (std::size_t i = 1; i <= soon; ++i) reader_->Prefetch(front_[front_.size() - i].id);
}

void Ranking::CutNearest() {
  if (bands_.size() == depth_) bands_.emplace_back();
  Band& from = bands_[depth_ - 1];
  Band& cut = bands_[depth_];
  TakeSample();
  // Reading all of them again in sequence is cheaper than meeting most of them one by one.
  const bool anew = from.nodes.size() >= kRefreshLeast && MostOfSampleUsed();
  const auto at_cut = sample_.begin() + static_cast<std::ptrdiff_t>(sample_.size() / kCutShare);
  std::nth_element(sample_.begin(), at_cut, sample_.end(), Before);
  cut.Clear();
  cut.floor = kBeforeAll;
  const std::size_t before = from.nodes.size();
  anew ? CutAnew(*at_cut, &from, &cut) : CutAsKnown(*at_cut, &from, &cut);
  ++depth_;
  // The cut took all nodes, so they are all equal. Valid nodes differ, so most are leftovers.
  if (cut.nodes.size() == before) DropLeftovers();
}

void Ranking::CutAsKnown(const Node& floor, Band* from, Band* cut) {
  Node* const nodes = from->nodes.data();
  std::size_t count = from->nodes.size();
  std::int64_t least = kNoBound;
  for (std::size_t at = 0; at < count;) {
    const Node& node = nodes[at];
    if (Before(floor, node)) {  // Leftovers, too: detecting them costs more than keeping them.
      least = std::min(least, node.key);
      ++at;
    } else {
      std::swap(nodes[at], nodes[--count]);  // Writes only the few that move.
    }
  }
  // So far nodes have only changed places.
  const auto first = from->nodes.begin() + static_cast<std::ptrdiff_t>(count);
  cut->nodes.assign(first, from->nodes.end());
  for (const Node& node : cut->nodes) cut->least = std::min(cut->least, node.key);
  from->nodes.resize(count);
  from->least = least;
  from->floor = floor;
}

void Ranking::CutAnew(const Node& floor, Band* from, Band* cut) {
  const std::size_t before = from->nodes.size();
  cut->nodes.reserve(before);  // Mostly address space. Add then needs no memory.
  from->floor = floor;
  from->least = kNoBound;
  // Keys only grow: a node that moves out of this band moves to a farther one.
  const Node* const ceiling = depth_ > 1 ? &bands_[depth_ - 2].floor : nullptr;
  std::size_t kept = 0;
  std::size_t gone = 0;  // Nodes that are in neither band any more.
  ReadAll(from->nodes, [&](const Node& was, const Facts& facts, RankMarks* marks) {
    if (facts.children > 0) return Unmark(marks);
    Node node{key_of_(facts), was.place, was.id};
    if (ceiling != nullptr && Before(*ceiling, node)) {
      try {
        Put(node);
        ++gone;
        return;
      } catch (const std::bad_alloc&) {
        node = was;  // The node is kept as it was; that is allowed.
      }
    }
    if (Before(floor, node)) {
      from->least = std::min(from->least, node.key);
      from->nodes[kept++] = node;
    } else {
      cut->Add(node);
    }
  });
  from->nodes.resize(kept);
  const std::size_t leftovers = before - kept - cut->nodes.size() - gone;
  nodes_ -= gone + leftovers;  // Put has counted the nodes it moved.
  leftovers_ -= std::min(leftovers_, leftovers);
}

// At even distances. The share that moves nearer need not be exact.
void Ranking::TakeSample() {
  const std::vector<Node>& nodes = nearest().nodes;
  const std::size_t step = (nodes.size() + kSamples - 1) / kSamples;
  sample_.clear();
  for (std::size_t at = 0; at < nodes.size(); at += step) sample_.push_back(nodes[at]);
}

bool Ranking::MostOfSampleUsed() {
  std::vector<Node> anew;
  std::size_t used = 0;
  ReadAll(sample_, [&](const Node& was, const Facts& facts, RankMarks*) {
    anew.push_back({key_of_(facts), was.place, was.id});
    if (anew.back().key != was.key) ++used;
  });
  if (used <= sample_.size() * 3 / 4) return false;
  sample_.swap(anew);
  return true;
}

template <typename Each>
void Ranking::ReadAll(const std::vector<Node>& nodes, Each&& each) const {
  std::array<EntryId, kTogether> ids;
  std::array<Facts, kTogether> facts;
  std::array<RankMarks*, kTogether> marks{};
  for (std::size_t first = 0; first < nodes.size(); first += kTogether) {
    const std::size_t count = std::min(nodes.size() - first, kTogether);
    for (std::size_t i = 0; i < count; ++i) ids[i] = nodes[first + i].id;
    const std::size_t next = std::min(first + 2 * kTogether, nodes.size());
    for (std::size_t i = first + count; i < next; ++i) reader_->Prefetch(nodes[i].id);
    reader_->ReadMany({ids.data(), count}, facts.data(), marks.data());
    for (std::size_t i = 0; i < count; ++i) {
      if (marks[i] == nullptr || (*marks[i] & mark_) == 0) continue;  // A leftover.
      each(nodes[first + i], facts[i], marks[i]);
    }
  }
}

void Ranking::PutAllFar() {
  Band& far = bands_.front();
  far.nodes.reserve(nodes_);
  for (; depth_ > 1; --depth_) {
    far.nodes.insert(far.nodes.end(), nearest().nodes.begin(), nearest().nodes.end());
    nearest().Clear();
  }
  far.nodes.insert(far.nodes.end(), front_.begin(), front_.end());
  front_.clear();
  far.floor = kBeforeAll;
  far.least = std::numeric_limits<std::int64_t>::min();
}

void Ranking::DropLeftovers() {
  PutAllFar();
  std::vector<Node>& nodes = bands_.front().nodes;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    if (at + kNodesAhead < nodes.size()) reader_->PrefetchMarks(nodes[at + kNodesAhead].id);
    const Node node = nodes[at];
    RankMarks* const marks = Marked(node.id);
    if (marks == nullptr) continue;
    nodes[kept++] = node;
    Unmark(marks);  // If an entry has several nodes, this one stays.
  }
  nodes.resize(kept);
  for (const Node& node : nodes) *reader_->Marks(node.id) |= mark_;
  nodes_ = kept;
  leftovers_ = 0;
  if (!GiveSpareBack(&nodes)) return;
  front_.shrink_to_fit();
  bands_.resize(1);
}

}  // namespace spillway
