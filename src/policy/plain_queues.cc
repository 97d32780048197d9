#include "policy/plain_queues.h"

#include <algorithm>
#include <limits>
#include <new>

#include "policy/use_levels.h"

namespace spillway {

std::size_t PlainQueues::LevelOf(std::uint64_t uses) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return UseLevel(static_cast<std::uint32_t>(std::min(uses, kMost)));
}

bool PlainQueues::Put(const Place& place) {
  try {
    queues_[LevelOf(place.seen)].places.push_back(place);
  } catch (const std::bad_alloc&) {
    return false;
  }
  ++places_;
  return true;
}

bool PlainQueues::PutBack(const Place& place) {
  Queue& queue = queues_[LevelOf(place.seen)];
  if (queue.head == queue.places.size() || queue.places.back().since <= place.since) {
    return Put(place);
  }
  try {
    queue.early.push_back(place);
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::ranges::push_heap(queue.early, IsLater);
  ++places_;
  return true;
}

bool PlainQueues::Enter(EntryId id, const Facts& facts, double last_use_s) {
  RankMarks* const marks = reader_->Marks(id);
  if (marks == nullptr || (*marks & mark_) != 0) return true;
  const auto uses = static_cast<std::uint32_t>(facts.access_count);
  if (!PutBack({id, TicksOf(last_use_s), uses})) return false;
  *marks |= mark_;
  return true;
}

void PlainQueues::Pop(Queue* queue) {
  --places_;
  if (queue->early_first()) {
    std::ranges::pop_heap(queue->early, IsLater);
    queue->early.pop_back();
    return;
  }
  ++queue->head;
  if (queue->head == queue->places.size()) {
    queue->places.clear();
    queue->head = 0;
  } else if (queue->head >= 4096 && 2 * queue->head > queue->places.size()) {
    const auto first = queue->places.begin() + static_cast<std::ptrdiff_t>(queue->head);
    queue->places.erase(queue->places.begin(), first);
    queue->head = 0;
  }
}

void PlainQueues::Left(EntryId id) {
  RankMarks* const marks = Marked(id);
  if (marks == nullptr) return;
  Unmark(marks);
  // Throwing them away looks at each place once: paid for by as many departures.
  if (++leftovers_ > places_ / 2 + 64) DropLeftovers();
}

// Those from there on that count stand at its beginning then.
void PlainQueues::Keep(std::vector<Place>* places, std::size_t from) {
  std::size_t kept = 0;
  for (std::size_t at = from; at < places->size(); ++at) {
    if (at + kAhead < places->size()) reader_->PrefetchMarks((*places)[at + kAhead].id);
    const Place place = (*places)[at];
    RankMarks* const marks = Marked(place.id);
    if (marks == nullptr) continue;
    (*places)[kept++] = place;
    Unmark(marks);  // Who has several keeps this one.
  }
  places->resize(kept);
  places_ += kept;
}

void PlainQueues::DropLeftovers() {
  places_ = 0;
  for (Queue& queue : queues_) {
    Keep(&queue.places, queue.head);
    queue.head = 0;
    Keep(&queue.early, 0);
    std::ranges::make_heap(queue.early, IsLater);
  }
  for (const Queue& queue : queues_) {
    for (const Place& place : queue.places) *reader_->Marks(place.id) |= mark_;
    for (const Place& place : queue.early) *reader_->Marks(place.id) |= mark_;
  }
  leftovers_ = 0;
}

}  // namespace spillway
