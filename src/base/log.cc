#include "base/log.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace spillway {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"info", "warning", "error", "off"};

// Asked for without memory.
constinit std::atomic<LogLevel> least_said{LogLevel::kInfo};

// Threads may have something to say while the process exits: it never ends.
struct Log {
  std::mutex mutex;
  LogCall call;  // Guarded by mutex.
  spdlog::logger to_error{"spillway", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
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
  const std::lock_guard lock(log.mutex);
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
    const std::lock_guard lock(log.mutex);
    if (log.call) {
      log.call(level, text);
    } else {
      log.to_error.log(LevelOf(level), spdlog::string_view_t(text.data(), text.size()));
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // Nobody else is to suffer from it.
  }
}

}  // namespace spillway
