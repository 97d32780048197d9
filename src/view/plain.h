// A snapshot and what happened as plain lines, one each: for logs, pipes and
// people who read afterwards.
#pragma once

#include <optional>
#include <string>

#include "view/event_log.h"
#include "view/snapshot.h"

namespace spillway::view {

// "  7.0 s  PRESSURE   pressure 0.87  ours 300 MiB  others ..."
std::string StatusLine(const Snapshot& snapshot);
// "  7.0 s  level NORMAL -> EMERGENCY at pressure 0.97"
std::string LevelLine(Duration at, Level before, Level now, std::optional<double> pressure);
// "  7.0 s  destroyed 96 entries (96 MiB): idle, at EMERGENCY; coder/1/t03/tool .. editor/prefix/0"
std::string EventLine(const EventGroup& group);
// "  7.0 s  host      RELAXED   pressure 0.31  7.2 GiB of 23 GiB"
std::string TierLine(Duration at, const TierRow& row);
// "  7.0 s  text"
std::string PlainLine(Duration at, const std::string& text);

}  // namespace spillway::view
