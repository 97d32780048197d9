// What left the cache, as a reader wants it: departures that came together for
// one reason are one line. A flood of a thousand moves is a few lines, in bounded
// memory.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "spillway/event.h"
#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway::view {

// Departures of one action, reason and level, close together in time.
struct EventGroup {
  Duration from{};  // Since the log began.
  Duration to{};
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Level level = Level::kRelaxed;
  std::uint64_t count = 0;
  Bytes bytes = 0;
  std::string first_key;
  std::string last_key;
  bool taken = false;  // By TakeComplete: nothing is added any more.
};

// Safe from any thread.
class EventLog {
 public:
  static constexpr std::size_t kGroupsMax = 64;
  // Longer than a sample period, so that what one squeeze sets off stays
  // together; and a group ends while one still cares.
  static constexpr Duration kTogether = std::chrono::milliseconds(250);
  static constexpr Duration kGroupMost = std::chrono::seconds(1);

  explicit EventLog(TimePoint start) : start_(start) {}

  // As Options::on_event: quick.
  void Add(const Event& event);

  // The newest groups, oldest of them first.
  std::vector<EventGroup> Latest(std::size_t most) const;
  // Groups that are complete by `now` and have not been taken before, by their
  // end.
  std::vector<EventGroup> TakeComplete(Duration now);

 private:
  static bool IsOpen(const EventGroup& group, Duration at) {
    return at - group.to <= kTogether && at - group.from <= kGroupMost;
  }
  EventGroup* OpenGroup(const Event& event, Duration at);

  const TimePoint start_;
  mutable std::mutex mutex_;
  std::deque<EventGroup> groups_;  // By their beginning. Guarded by mutex_.
};

}  // namespace spillway::view
