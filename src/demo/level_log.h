// How long each level lasted. Fed by whoever looks; what comes and goes between
// two looks is not seen.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway::demo {

class LevelLog {
 public:
  // Begins at `at` zero, RELAXED. Returns the level that was left, if it has
  // changed since the last look.
  std::optional<Level> Look(Level level, Duration at) {
    times_[static_cast<std::size_t>(level_)] += at - looked_;
    looked_ = at;
    if (level == level_) return std::nullopt;
    const Level before = level_;
    level_ = level;
    since_ = at;
    ++changes_;
    return before;
  }

  Level level() const { return level_; }
  Duration since() const { return since_; }
  Duration time_in(Level level) const { return times_[static_cast<std::size_t>(level)]; }
  std::uint64_t changes() const { return changes_; }

 private:
  std::array<Duration, kLevels> times_{};
  Level level_ = Level::kRelaxed;
  Duration looked_{};
  Duration since_{};
  std::uint64_t changes_ = 0;
};

}  // namespace spillway::demo
