// SPDX-License-Identifier: Apache-2.0
// The library's log messages while a LogLines exists, as "level: text".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "spillway/log.h"

namespace spillway::testing {

class LogLines {
 public:
  LogLines() {
    SetLog(LogLevel::kInfo, [lines = lines_](LogLevel level, std::string_view text) {
      const MutexLock lock(lines->mutex);
      lines->all.push_back(std::string(Name(level)) + ": " + std::string(text));
    });
  }
  ~LogLines() { SetLog(LogLevel::kInfo); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  // The lines since the last call.
  std::vector<std::string> Take() const {
    const MutexLock lock(lines_->mutex);
    return std::exchange(lines_->all, {});
  }

 private:
  struct Lines {
    Mutex mutex;
    std::vector<std::string> all SPILLWAY_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

}  // namespace spillway::testing
