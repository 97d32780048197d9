// SPDX-License-Identifier: Apache-2.0
// The library's own log (include/spillway/log.h). Any thread. Nothing throws: a
// message for which there is no memory is lost.
#pragma once

#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "spillway/log.h"

namespace spillway {

// Returns the level with this name; empty: there is none.
std::optional<LogLevel> LogLevelNamed(std::string_view name);
// Changes the least level that is logged, not the destination.
void SetLogLevel(LogLevel least);

bool IsLogged(LogLevel level);
void WriteLog(LogLevel level, std::string_view text) noexcept;

template <typename... Args>
void FormatLog(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!IsLogged(level)) return;
  try {
    WriteLog(level, fmt::format(format, std::forward<Args>(args)...));
  } catch (const std::exception&) {
    WriteLog(level, "a log message was lost: no memory");
  }
}

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) noexcept {
  FormatLog(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) noexcept {
  FormatLog(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) noexcept {
  FormatLog(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace spillway
