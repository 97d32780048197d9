// SPDX-License-Identifier: Apache-2.0
#include "tier/extent_map.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>

namespace spillway {
namespace {

constexpr Bytes RoundUp(Bytes value, Bytes to) { return (value + to - 1) & ~(to - 1); }

ChunkRun Overlap(ChunkRun a, ChunkRun b) {
  const std::size_t first = std::max(a.first, b.first);
  const std::size_t end = std::min(a.end(), b.end());
  return first < end ? ChunkRun{first, end - first} : ChunkRun{};
}

}  // namespace

ExtentMap::ExtentMap(Bytes range, Bytes chunk_bytes, Bytes granule)
    : range_(range),
      chunk_bytes_(chunk_bytes),
      granule_(granule),
      spans_(SpanMap::allocator_type(&nodes_)),
      open_(SpanMap::allocator_type(&nodes_)),
      holes_(SpanSet::allocator_type(&nodes_)) {
  assert(std::has_single_bit(chunk_bytes) && std::has_single_bit(granule));
  assert(range % chunk_bytes == 0 && granule <= chunk_bytes);
  Prepare();
  Add({0, range});
}

ChunkRun ExtentMap::WholeChunks(const Span& span) const {
  const Bytes first = (span.begin + chunk_bytes_ - 1) / chunk_bytes_;
  const Bytes end = span.end / chunk_bytes_;
  return first < end ? ChunkRun{first, end - first} : ChunkRun{};
}

ChunkRun ExtentMap::ChunksOf(Bytes at, Bytes bytes) const {
  const Bytes first = at / chunk_bytes_;
  return {first, (at + bytes + chunk_bytes_ - 1) / chunk_bytes_ - first};
}

template <typename Visit>
void ExtentMap::ForEachHole(const Span& span, Visit visit) const {
  const ChunkRun whole = WholeChunks(span);
  if (whole.count == 0) {
    visit(span);
    return;
  }
  const Span head{span.begin, whole.first * chunk_bytes_};
  const Span tail{whole.end() * chunk_bytes_, span.end};
  if (head.begin < head.end) visit(head);
  if (tail.begin < tail.end) visit(tail);
}

void ExtentMap::Add(const Span& span) {
  if (span.begin == span.end) return;
  spans_.emplace(span.begin, span.end);
  if (WholeChunks(span).count > 0) open_.emplace(span.begin, span.end);
  ForEachHole(span,
              [this](const Span& hole) { holes_.emplace(hole.end - hole.begin, hole.begin); });
}

void ExtentMap::Remove(const Span& span) {
  spans_.erase(span.begin);
  open_.erase(span.begin);
  ForEachHole(span,
              [this](const Span& hole) { holes_.erase({hole.end - hole.begin, hole.begin}); });
}

std::optional<Placement> ExtentMap::Find(Bytes bytes, Bytes align,
                                         std::optional<std::size_t> spare) const {
  assert(bytes > 0 && bytes % granule_ == 0);
  assert(std::has_single_bit(align) && align >= granule_ && align <= chunk_bytes_);
  if (const std::optional<Bytes> hole = FindHole(bytes, align)) return Placement{*hole, {}};
  return FindFresh(bytes, align, spare);
}

std::optional<Bytes> ExtentMap::FindHole(Bytes bytes, Bytes align) const {
  // A hole can be long enough and still contain no aligned place. After a few
  // such holes, look for one so long that it certainly does.
  constexpr int kTries = 16;
  auto hole = holes_.lower_bound({bytes, 0});
  for (int tries = 0; hole != holes_.end(); ++hole, ++tries) {
    if (tries == kTries) {
      hole = holes_.lower_bound({bytes + align - granule_, 0});
      if (hole == holes_.end()) break;
    }
    const auto [length, begin] = *hole;
    const Bytes at = RoundUp(begin, align);
    if (at + bytes <= begin + length) return at;
  }
  return std::nullopt;
}

std::optional<Placement> ExtentMap::FindFresh(Bytes bytes, Bytes align,
                                              std::optional<std::size_t> spare) const {
  // More candidates than this would hardly save a chunk, and mapping one chunk
  // costs as much as checking hundreds of candidates.
  constexpr int kSpansMax = 64;
  std::optional<Placement> best;
  std::size_t best_cost = 0;
  int seen = 0;
  for (const auto& [begin, end] : open_) {
    if (end - begin < bytes) continue;
    if (best && ++seen > kSpansMax) break;
    const ChunkRun whole = WholeChunks({begin, end});
    const auto consider = [&](Bytes at) {
      if (at < begin || at + bytes > end || at % align != 0) return;
      const ChunkRun fresh = Overlap(whole, ChunksOf(at, bytes));
      const std::size_t cost = fresh.count - (spare && fresh.Contains(*spare) ? 1 : 0);
      if (best && cost >= best_cost) return;  // Among equals the first candidate wins.
      best = Placement{at, fresh};
      best_cost = cost;
    };
    // The part that exceeds whole chunks goes into the hole before them, as far
    // as the hole reaches: consecutive blocks leave no gaps at chunk borders.
    const Bytes first = whole.first * chunk_bytes_;
    const Bytes excess = bytes % chunk_bytes_;
    consider(first - std::min(excess, first - begin));
    consider(first);        // At a chunk border.
    consider(begin);        // From the start of the span: both holes and everything between.
    consider(end - bytes);  // Up to the end of the span: the hole behind.
    if (spare && whole.Contains(*spare)) consider(*spare * chunk_bytes_);
    if (best && (best_cost == 0 || (!spare && best_cost == 1 && bytes <= chunk_bytes_))) break;
  }
  return best;
}

// There is at most one span more than there are blocks. Each has one node in
// `spans_`, at most one in `open_`, and at most two in `holes_`.
void ExtentMap::Prepare() {
  constexpr std::size_t kNodesPerSpan = 4;
  nodes_.Reserve(kNodesPerSpan * (blocks_ + 2));
}

void ExtentMap::Take(Bytes at, Bytes bytes) {
  ++blocks_;
  const auto found = std::prev(spans_.upper_bound(at));
  const Span span{found->first, found->second};
  assert(span.begin <= at && at + bytes <= span.end);
  Remove(span);
  Add({span.begin, at});
  Add({at + bytes, span.end});
}

ChunkRun ExtentMap::Give(Bytes at, Bytes bytes) {
  --blocks_;
  Span merged{at, at + bytes};
  const auto next = spans_.lower_bound(at);
  assert(next == spans_.end() || next->first >= merged.end);
  Span after;
  Span before;
  if (next != spans_.end() && next->first == merged.end) after = {next->first, next->second};
  if (next != spans_.begin()) {
    const auto previous = std::prev(next);
    assert(previous->second <= at);
    if (previous->second == at) before = {previous->first, previous->second};
  }
  if (after.end != 0) {
    Remove(after);
    merged.end = after.end;
  }
  if (before.end != 0) {
    Remove(before);
    merged.begin = before.begin;
  }
  Add(merged);
  return Overlap(WholeChunks(merged), ChunksOf(at, bytes));
}

}  // namespace spillway
