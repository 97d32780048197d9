#include "policy/waits.h"

#include <algorithm>

namespace spillway {
namespace {
// Who is offered late stands where its age says, but nobody looks further back
// than this for the place.
constexpr int kLooksMax = 32;
}  // namespace

WaitId Waits::Begin(ReturnClass c, double now) {
  WaitId id = 0;
  if (free_.empty()) {
    id = static_cast<WaitId>(waits_.size());
    waits_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Wait& wait = waits_[id];
  wait.since = now;
  wait.entered = now;
  wait.weight = 1;
  wait.c = c;
  wait.bin = 0;
  wait.offered = false;
  ++size_;
  table_.Enter(c, 0, 1, now);
  by_bin_[0].push_back({id, wait.made});
  return id;
}

void Waits::Return(WaitId id, double part, double now) {
  Wait& wait = waits_[id];
  const double weight = part >= 1 ? wait.weight : wait.weight * part;
  table_.Return(wait.c, wait.bin, weight, wait.entered, now);
  wait.weight -= weight;
  if (part >= 1) Free(id);
}

void Waits::Move(WaitId id, ReturnClass c, double now) {
  Wait& wait = waits_[id];
  if (wait.c == c) return;
  const bool offered = wait.offered;
  Withdraw(id);
  table_.Leave(wait.c, wait.bin, wait.weight, wait.entered, now);
  wait.c = c;
  wait.entered = now;
  table_.Enter(c, wait.bin, wait.weight, now);
  if (offered) Offer(id);
}

bool Waits::Gone(const Aging& aging, std::size_t bin) const {
  const Wait& wait = waits_[aging.id];
  return wait.made != aging.made || wait.bin != bin;
}

// Ascending, so that one who is much older than before passes several bins.
void Waits::Advance(double now) {
  const auto& edges = AgeEdges();
  for (std::size_t bin = 0; bin + 1 < kAgeBins; ++bin) {
    auto& queue = by_bin_[bin];
    while (!queue.empty()) {
      const Aging aging = queue.front();
      if (!Gone(aging, bin)) {
        Wait& wait = waits_[aging.id];
        if (now - wait.since < edges[bin + 1]) break;
        const bool offered = wait.offered;
        Withdraw(aging.id);
        // It may have changed class after it should have passed.
        const double at = std::max(wait.since + edges[bin + 1], wait.entered);
        table_.Leave(wait.c, bin, wait.weight, wait.entered, at);
        table_.Enter(wait.c, bin + 1, wait.weight, at);
        wait.entered = at;
        wait.bin = static_cast<std::uint8_t>(bin + 1);
        by_bin_[bin + 1].push_back(aging);
        if (offered) Offer(aging.id);
      }
      queue.pop_front();
    }
  }
}

void Waits::Forget(WaitId id, double now) {
  const Wait& wait = waits_[id];
  table_.Leave(wait.c, wait.bin, wait.weight, wait.entered, now);
  Free(id);
}

void Waits::Free(WaitId id) {
  Withdraw(id);
  ++waits_[id].made;
  free_.push_back(id);
  --size_;
}

Waits::Bucket& Waits::BucketOf(const Wait& wait) {
  const std::size_t at = std::size_t{wait.c} * kAgeBins + wait.bin;
  if (at >= buckets_.size()) buckets_.resize(table_.classes() * kAgeBins);
  return buckets_[at];
}

void Waits::Offer(WaitId id) {
  if (waits_[id].offered) return;
  waits_[id].offered = true;
  Link(id);
}

void Waits::Withdraw(WaitId id) {
  if (!waits_[id].offered) return;
  waits_[id].offered = false;
  Unlink(id);
}

void Waits::Link(WaitId id) {
  Wait& wait = waits_[id];
  Bucket& bucket = BucketOf(wait);
  if (bucket.first == kNone) {
    bucket.place = static_cast<std::uint32_t>(used_.size());
    used_.push_back(static_cast<std::uint32_t>(&bucket - buckets_.data()));
  }
  WaitId before = bucket.last;
  for (int looks = 0; looks < kLooksMax && before != kNone && waits_[before].since > wait.since;
       ++looks) {
    before = waits_[before].before;
  }
  wait.before = before;
  wait.after = before == kNone ? bucket.first : waits_[before].after;
  (wait.before == kNone ? bucket.first : waits_[wait.before].after) = id;
  (wait.after == kNone ? bucket.last : waits_[wait.after].before) = id;
}

void Waits::Unlink(WaitId id) {
  Wait& wait = waits_[id];
  Bucket& bucket = BucketOf(wait);
  (wait.before == kNone ? bucket.first : waits_[wait.before].after) = wait.after;
  (wait.after == kNone ? bucket.last : waits_[wait.after].before) = wait.before;
  if (bucket.first != kNone) return;
  buckets_[used_.back()].place = bucket.place;
  used_[bucket.place] = used_.back();
  used_.pop_back();
}

std::optional<Waits::Candidate> Waits::Least(double now) {
  std::optional<Candidate> least;
  for (const std::uint32_t at : used_) {
    const WaitId id = buckets_[at].first;
    const double worth = table_.Worth(waits_[id].c, now - waits_[id].since, now);
    const bool less =
        !least || worth < least->worth || (worth == least->worth && Before(id, least->id));
    if (less) least = Candidate{id, worth};
  }
  return least;
}

}  // namespace spillway
