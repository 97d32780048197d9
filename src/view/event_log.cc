// SPDX-License-Identifier: Apache-2.0
#include "view/event_log.h"

#include <algorithm>

namespace spillway::view {

namespace {

bool Alike(const EventGroup& one, const Event& event) {
  return one.action == event.action && one.reason == event.reason && one.level == event.level;
}

}  // namespace

void EventLog::Add(const Event& event) {
  const Duration at = event.at - start_;
  const MutexLock lock(mutex_);
  EventGroup* group = OpenGroup(event, at);
  if (group->count == 0) group->first_key = event.key;
  group->last_key = event.key;
  group->to = at;
  ++group->count;
  group->bytes += event.bytes;
}

// Reasons can alternate (for example relief while sets make room), so several groups are open at a
// time.
EventGroup* EventLog::OpenGroup(const Event& event, Duration at) {
  for (std::size_t i = groups_.size(); i > 0; --i) {
    EventGroup& group = groups_[i - 1];
    if (Alike(group, event) && IsOpen(group, at)) return &group;
  }
  if (groups_.size() == kGroupsMax) groups_.pop_front();
  EventGroup group;
  group.from = group.to = at;
  group.action = event.action;
  group.reason = event.reason;
  group.level = event.level;
  return &groups_.emplace_back(std::move(group));
}

std::vector<EventGroup> EventLog::Latest(std::size_t most) const {
  const MutexLock lock(mutex_);
  const auto count = static_cast<std::ptrdiff_t>(std::min(most, groups_.size()));
  return {groups_.end() - count, groups_.end()};
}

}  // namespace spillway::view
