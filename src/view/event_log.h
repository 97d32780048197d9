// SPDX-License-Identifier: Apache-2.0
// A log of evictions and removals for display. Events with the same action, reason and level that
// occur close together become one line. So a thousand evictions at once take a few lines, and
// memory is bounded.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "spillway/event.h"
#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway::view {

// Events of one action, reason and level, close together in time.
struct EventGroup {
  Duration from{};  // Time since the log began.
  Duration to{};
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Level level = Level::kRelaxed;
  std::uint64_t count = 0;
  Bytes bytes = 0;
  std::string first_key;
  std::string last_key;
};

// Safe from any thread.
class EventLog {
 public:
  static constexpr std::size_t kGroupsMax = 64;
  // Longer than a sample period, so that the evictions of one squeeze stay together. Short enough
  // that a group is shown while it is still of interest.
  static constexpr Duration kTogether = std::chrono::milliseconds(250);
  static constexpr Duration kGroupMost = std::chrono::seconds(1);

  explicit EventLog(TimePoint start) : start_(start) {}

  // For Options::on_event: returns quickly.
  void Add(const Event& event);

  // The newest groups, the oldest of these first.
  std::vector<EventGroup> Latest(std::size_t most) const;

 private:
  static bool IsOpen(const EventGroup& group, Duration at) {
    return at - group.to <= kTogether && at - group.from <= kGroupMost;
  }
  // The open group that the event belongs to; where there is none, it begins one.
  EventGroup* OpenGroup(const Event& event, Duration at) SPILLWAY_REQUIRES(mutex_);

  const TimePoint start_;
  mutable Mutex mutex_;
  std::deque<EventGroup> groups_ SPILLWAY_GUARDED_BY(mutex_);  // By their begin.
};

}  // namespace spillway::view
