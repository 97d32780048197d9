// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/page_allocator.h"

#include <cassert>
#include <iterator>

namespace spillway {

PageAllocator::PageAllocator(Bytes range)
    : range_(range),
      spans_(SpanMap::allocator_type(&nodes_)),
      by_length_(SpanSet::allocator_type(&nodes_)) {
  Reserve();
  Add({0, range});
}

// There is at most one span more than there are blocks, with one node in
// `spans_` and one in `by_length_`.
void PageAllocator::Reserve() { nodes_.Reserve(2 * (blocks_ + 2)); }

void PageAllocator::Add(const Extent& span) {
  if (span.bytes == 0) return;
  spans_.emplace(span.at, span.end());
  by_length_.emplace(span.bytes, span.at);
  free_ += span.bytes;
}

void PageAllocator::Remove(const Extent& span) {
  spans_.erase(span.at);
  by_length_.erase({span.bytes, span.at});
  free_ -= span.bytes;
}

std::optional<Extent> PageAllocator::Find(Bytes bytes, const CostOf& cost_of) const {
  constexpr int kTries = 32;  // Of spans that are all long enough.
  std::optional<Extent> best;
  Bytes least = 0;
  auto span = by_length_.lower_bound({bytes, 0});
  for (int tries = 0; span != by_length_.end() && tries < kTries; ++span, ++tries) {
    const Extent extent{span->second, bytes};
    const std::optional<Bytes> cost = cost_of(extent);
    if (!cost || (best && *cost >= least)) continue;
    best = extent;
    least = *cost;
    if (least == 0) break;
  }
  return best;
}

bool PageAllocator::Take(const Extent& extent) {
  if (extent.bytes == 0 || extent.end() < extent.at) return false;
  const auto after = spans_.upper_bound(extent.at);
  if (after == spans_.begin()) return false;
  const auto found = std::prev(after);
  const Extent span{found->first, found->second - found->first};
  if (extent.end() > span.end()) return false;
  Reserve();
  ++blocks_;
  Remove(span);
  Add({span.at, extent.at - span.at});
  Add({extent.end(), span.end() - extent.end()});
  return true;
}

void PageAllocator::Give(const Extent& extent) {
  --blocks_;
  Extent merged = extent;
  const auto next = spans_.lower_bound(extent.at);
  Extent after;
  Extent before;
  if (next != spans_.end()) {
    assert(next->first >= extent.end());
    if (next->first == extent.end()) after = {next->first, next->second - next->first};
  }
  if (next != spans_.begin()) {
    const auto previous = std::prev(next);
    assert(previous->second <= extent.at);
    if (previous->second == extent.at) {
      before = {previous->first, previous->second - previous->first};
    }
  }
  if (after.bytes != 0) Remove(after);
  if (before.bytes != 0) {
    Remove(before);
    merged.at = before.at;
  }
  merged.bytes += before.bytes + after.bytes;
  Add(merged);
}

}  // namespace spillway
