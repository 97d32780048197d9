// Small entries of which nothing is known but how often they were used: no tokens,
// no agent, no chain. There may be millions, and a note of each would cost more than
// all the rest of a set. So they stand in one queue for each level of use, longest
// waiting first, and what one of a level and age is worth is learnt from the few of
// them that have notes (EntryScores). Who leaves is the first of one of the queues.
//
// A hit tells nobody: who has come to the front is looked at, and stands in another
// queue if it was used since.
//
// In a queue, places stand as they were put there, but for who is put back: that one
// stands where its last use says.
//
// 1. An entry carries the queues' mark while a place of it counts.
// 2. Places of those who left otherwise stay until they are met, or are most.
// 3. No call throws.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "policy/facts.h"

namespace spillway {

class PlainQueues {
 public:
  static constexpr std::size_t kLevels = 7;  // As UseLevel has.

  PlainQueues(const FactReader* reader, RankMark mark) : reader_(reader), mark_(mark) {}

  // Nothing happens if it is there already. False: there was no memory for it.
  bool Enter(EntryId id, const Facts& facts, double last_use_s);
  void Left(EntryId id);
  bool Holds(EntryId id) const { return Marked(id) != nullptr; }

  // What the one that leaves first is worth, `worth(level, since_s)` being asked of the
  // first in each queue. Empty: there is nobody. Its queue serves for a while then.
  template <typename Worth>
  std::optional<double> Compare(Worth&& worth);
  bool serves() const { return serves_for_ > 0 && !queues_[serving_].empty(); }
  // They are compared again before another is taken.
  void Stop() { serves_for_ = 0; }
  // The next of the queue that serves is taken out, unless it was used since, or has
  // gone. `seconds_of` says when that was; `even_if_used`: that does not count.
  template <typename SecondsOf>
  std::optional<EntryId> TryTake(SecondsOf&& seconds_of, bool even_if_used = false);
  // Who may be taken so many calls from now.
  std::optional<EntryId> Coming(std::size_t ahead) const {
    const Queue& queue = queues_[serving_];
    if (queue.head + ahead >= queue.places.size()) return std::nullopt;
    return queue.places[queue.head + ahead].id;
  }

  std::size_t places() const { return places_; }

 private:
  // So many are taken, or found used, until queues are compared again.
  static constexpr std::size_t kTogether = 16;
  static constexpr std::size_t kAhead = 16;  // Fetched before they are met.

  struct Place {
    EntryId id;
    std::uint32_t since;  // In 64ths of a second: enough for two years.
    std::uint32_t seen;   // Uses.
  };
  static constexpr double kTicks = 64;
  static std::uint32_t TicksOf(double seconds) {
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::clamp(seconds * kTicks, 0.0, kMost));
  }
  struct Queue {
    std::vector<Place> places;
    std::size_t head = 0;
    // Who came after others that were used later: a heap, the longest unused first.
    std::vector<Place> early;

    bool empty() const { return head == places.size() && early.empty(); }
    bool early_first() const {
      return !early.empty() && (head == places.size() || early.front().since <= places[head].since);
    }
    const Place& front() const { return early_first() ? early.front() : places[head]; }
  };
  static bool IsLater(const Place& a, const Place& b) { return a.since > b.since; }
  RankMarks* Marked(EntryId id) const {
    RankMarks* const marks = reader_->Marks(id);
    return marks != nullptr && (*marks & mark_) != 0 ? marks : nullptr;
  }
  void Unmark(RankMarks* marks) const { *marks &= static_cast<RankMarks>(~mark_); }
  static std::size_t LevelOf(std::uint64_t uses);
  bool Put(const Place& place);
  bool PutBack(const Place& place);
  void Pop(Queue* queue);
  void Keep(std::vector<Place>* places, std::size_t from);
  void DropLeftovers();

  const FactReader* const reader_;
  const RankMark mark_;
  std::array<Queue, kLevels> queues_;
  std::size_t places_ = 0;
  std::size_t leftovers_ = 0;
  std::size_t serving_ = 0;
  std::size_t serves_for_ = 0;
};

template <typename Worth>
std::optional<double> PlainQueues::Compare(Worth&& worth) {
  std::optional<double> least;
  for (std::size_t level = 0; level < kLevels; ++level) {
    const Queue& queue = queues_[level];
    if (queue.empty()) continue;
    const double here = worth(level, queue.front().since / kTicks);
    if (least && *least <= here) continue;
    least = here;
    serving_ = level;
  }
  serves_for_ = least ? kTogether : 0;
  return least;
}

template <typename SecondsOf>
std::optional<EntryId> PlainQueues::TryTake(SecondsOf&& seconds_of, bool even_if_used) {
  Queue& queue = queues_[serving_];
  --serves_for_;
  const Place first = queue.front();
  if (queue.head + kAhead < queue.places.size()) {
    reader_->Prefetch(queue.places[queue.head + kAhead].id);
  }
  Pop(&queue);
  RankMarks* const marks = Marked(first.id);
  if (marks == nullptr) {
    if (leftovers_ > 0) --leftovers_;
    return std::nullopt;
  }
  Facts facts;
  // Who has children enters again when the last of them has left.
  if (!reader_->Read(first.id, &facts) || facts.children > 0) {
    Unmark(marks);
    return std::nullopt;
  }
  const auto seen = static_cast<std::uint32_t>(facts.access_count);
  if (seen != first.seen && !even_if_used) {
    // A place has just become free: that needs no memory in most cases.
    if (Put({first.id, TicksOf(seconds_of(facts.last_use)), seen})) return std::nullopt;
  }
  Unmark(marks);
  return first.id;
}

}  // namespace spillway
