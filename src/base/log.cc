// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include "base/mutex.h"
#include "base/quiet_stderr.h"

namespace spillway {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"info", "warning", "error", "off"};

// Read without a lock.
constinit std::atomic<LogLevel> least_said{LogLevel::kInfo};

// Writes to the real standard error even while QuietStderr redirects it.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::size_t written = 0;
    while (written < line.size()) {
      const ssize_t wrote =
          ::write(QuietStderr::Real(), line.data() + written, line.size() - written);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return;  // No reader is left.
      written += static_cast<std::size_t>(wrote);
    }
  }
  void flush_() override {}
};

// Never destroyed: threads may log while the process exits.
struct Log {
  Mutex mutex;
  LogCall call SPILLWAY_GUARDED_BY(mutex);
  spdlog::logger to_error{"spillway", std::make_shared<StderrSink>()};
};

Log& TheLog() {
  static Log* const kLog = new Log;
  return *kLog;
}

spdlog::level::level_enum LevelOf(LogLevel level) {
  if (level == LogLevel::kInfo) return spdlog::level::info;
  return level == LogLevel::kWarning ? spdlog::level::warn : spdlog::level::err;
}

}  // namespace

std::string_view Name(LogLevel level) {
  const auto at = static_cast<std::size_t>(level);
  return at < kNames.size() ? kNames.at(at) : "";
}

std::optional<LogLevel> LogLevelNamed(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void SetLogLevel(LogLevel least) { least_said = least; }

void SetLog(LogLevel least, LogCall call) {
  Log& log = TheLog();
  const MutexLock lock(log.mutex);
  log.call.swap(call);
  least_said = least;
}

bool IsLogged(LogLevel level) {
  const LogLevel least = least_said.load(std::memory_order_relaxed);
  return least != LogLevel::kOff && level >= least;
}

void WriteLog(LogLevel level, std::string_view text) noexcept {
  try {
    if (!IsLogged(level)) return;
    Log& log = TheLog();
    const MutexLock lock(log.mutex);
    if (log.call) {
      log.call(level, text);
    } else {
      log.to_error.log(LevelOf(level), spdlog::string_view_t(text.data(), text.size()));
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // A failure to log must not disturb the caller.
  }
}

}  // namespace spillway
