// Everyone who waits to be used again, with the bytes or long after they are
// gone: the history from which returns are learnt. Who waits grows older from
// bin to bin; who may leave is offered, and the least worthy of those is found
// by a look at one of each class and bin.
//
// Bounded: at most kWaitsMax, the oldest forgotten first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "policy/return_table.h"

namespace spillway {

using WaitId = std::uint32_t;

class Waits {
 public:
  static constexpr std::size_t kWaitsMax = std::size_t{1} << 20;

  // At most `most` wait at once.
  explicit Waits(std::size_t most = kWaitsMax) : most_(most) {}

  ReturnTable& table() { return table_; }

  // One more waits from now on. Times never fall.
  WaitId Begin(ReturnClass c, double now);
  // `part` of what still waits of it is back; 1: all of it, and its number is
  // free for another.
  void Return(WaitId id, double part, double now);
  // It waits on in another class (it was said to be finished, say).
  void Move(WaitId id, ReturnClass c, double now);
  // Everybody grows as old as `now` says.
  void Advance(double now);
  // When there are too many, the oldest of those `may_go` are forgotten, an
  // eighth at once; they are appended to `forgotten`, and their numbers are free.
  template <typename MayGo>
  void ForgetOldest(double now, MayGo&& may_go, std::vector<WaitId>* forgotten);

  // It may leave, or no longer.
  void Offer(WaitId id);
  void Withdraw(WaitId id);

  struct Candidate {
    WaitId id;
    double worth;
  };
  // Of those offered, the least worthy now; of equals the one who waits longest.
  std::optional<Candidate> Least(double now);
  // The same by `key(id)`, which of one class is least for who waits longest.
  template <typename Key>
  std::optional<WaitId> LeastBy(Key&& key) const;

  double WorthAtOnce(ReturnClass c, double now) { return table_.Worth(c, 0, now); }
  ReturnClass class_of(WaitId id) const { return waits_[id].c; }
  double since(WaitId id) const { return waits_[id].since; }
  std::size_t size() const { return size_; }

 private:
  static constexpr WaitId kNone = ~WaitId{0};
  struct Wait {
    double since = 0;
    double entered = 0;
    double weight = 0;
    ReturnClass c = 0;
    std::uint32_t made = 0;  // Tells those who had this number apart.
    WaitId before = kNone;
    WaitId after = kNone;
    std::uint8_t bin = 0;
    bool offered = false;
  };
  struct Aging {
    WaitId id;
    std::uint32_t made;
  };
  struct Bucket {  // Those offered of one class and bin, longest waiting first.
    WaitId first = kNone;
    WaitId last = kNone;
    std::uint32_t place = 0;  // In used_, if it has somebody.
  };

  bool Gone(const Aging& aging, std::size_t bin) const;
  void Forget(WaitId id, double now);
  void Free(WaitId id);
  bool Before(WaitId a, WaitId b) const {
    return waits_[a].since != waits_[b].since ? waits_[a].since < waits_[b].since : a < b;
  }
  Bucket& BucketOf(const Wait& wait);
  void Link(WaitId id);
  void Unlink(WaitId id);

  const std::size_t most_;
  ReturnTable table_;
  std::vector<Wait> waits_;
  std::vector<WaitId> free_;
  std::size_t size_ = 0;
  std::array<std::deque<Aging>, kAgeBins> by_bin_;
  std::vector<Bucket> buckets_;  // class * kAgeBins + bin
  std::vector<std::uint32_t> used_;
};

template <typename MayGo>
void Waits::ForgetOldest(double now, MayGo&& may_go, std::vector<WaitId>* forgotten) {
  if (size_ <= most_) return;
  const std::size_t target = most_ - most_ / 8;
  for (std::size_t bin = kAgeBins; bin-- > 0 && size_ > target;) {
    std::deque<Aging> kept;
    auto& queue = by_bin_[bin];
    while (!queue.empty() && size_ > target) {
      const Aging aging = queue.front();
      queue.pop_front();
      if (Gone(aging, bin)) continue;
      if (!may_go(aging.id)) {
        kept.push_back(aging);
        continue;
      }
      forgotten->push_back(aging.id);
      Forget(aging.id, now);
    }
    queue.insert(queue.begin(), kept.begin(), kept.end());
  }
}

template <typename Key>
std::optional<WaitId> Waits::LeastBy(Key&& key) const {
  std::optional<WaitId> least;
  for (const std::uint32_t at : used_) {
    const WaitId id = buckets_[at].first;
    const bool less =
        !least || key(id) < key(*least) || (key(id) == key(*least) && Before(id, *least));
    if (less) least = id;
  }
  return least;
}

}  // namespace spillway
