#include "policy/ranking.h"

#include <algorithm>
#include <bit>

#include "base/mutant.h"

namespace spillway {

namespace {
constexpr std::size_t kArity = 4;
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
  Push({key_of_(facts), place, id});
}

void Ranking::Left(EntryId id) {
  if (!Counts(id)) return;
  queued_[id.slot] = 0;
  // A rebuild reads each node once, so it is paid for by as many departures.
  if (++leftovers_ > heap_.size() / 2 + 64) Rebuild();
}

std::optional<EntryId> Ranking::Next(std::int64_t bound) {
  std::size_t used_since = 0;
  while (!heap_.empty()) {
    const Node top = heap_.front();
    Facts facts;
    if (!Counts(top.id)) {
      PopTop();
      if (leftovers_ > 0) --leftovers_;
      continue;
    }
    // A bound below the top's key is below its true key too.
    if (top.key > bound) return std::nullopt;
    if (!reader_->Read(top.id, &facts) || facts.children > 0) {
      PopTop();
      queued_[top.id.slot] = 0;
      continue;
    }
    const std::int64_t key = key_of_(facts);
    if (key == top.key) {
      PopTop();
      queued_[top.id.slot] = 0;
      return top.id;
    }
    // Past this point reading all of them in memory order is cheaper than
    // finding them one by one.
    if (++used_since > heap_.size() / 8 + 64) {
      Rebuild();
      used_since = 0;
    } else {
      SiftDown(0, {key, top.place, top.id});
    }
  }
  return std::nullopt;
}

void Ranking::Push(Node node) {
  std::size_t at = heap_.size();
  heap_.push_back(node);
  while (at > 0) {
    const std::size_t parent = (at - 1) / kArity;
    if (!Before(node, heap_[parent])) break;
    heap_[at] = heap_[parent];
    at = parent;
  }
  heap_[at] = node;
}

void Ranking::PopTop() {
  const Node last = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) SiftDown(0, last);
}

void Ranking::SiftDown(std::size_t at, Node node) {
  const std::size_t size = heap_.size();
  for (;;) {
    const std::size_t first = at * kArity + 1;
    if (first >= size) break;
    const std::size_t end = std::min(first + kArity, size);
    std::size_t least = first;
    for (std::size_t child = first + 1; child < end; ++child) {
      if (Before(heap_[child], heap_[least])) least = child;
    }
    if (!Before(heap_[least], node)) break;
    heap_[at] = heap_[least];
    at = least;
  }
  heap_[at] = node;
}

void Ranking::Rebuild() {
  std::size_t kept = 0;
  for (const Node& node : heap_) {
    Facts facts;
    if (!Counts(node.id)) continue;
    if (!reader_->Read(node.id, &facts) || facts.children > 0) {
      queued_[node.id.slot] = 0;
      continue;
    }
    heap_[kept++] = {key_of_(facts), node.place, node.id};
  }
  heap_.resize(kept);
  leftovers_ = 0;
  if (kept < 2) return;
  for (std::size_t at = (kept - 2) / kArity + 1; at-- > 0;) SiftDown(at, heap_[at]);
}

}  // namespace spillway
