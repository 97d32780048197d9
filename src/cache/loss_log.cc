// SPDX-License-Identifier: Apache-2.0
#include "cache/loss_log.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "base/log.h"
#include "base/parse.h"

namespace spillway {

void LossLog::Record(const Event& event) {
  const auto reason = static_cast<std::size_t>(event.reason);
  ++entries_.at(reason);
  bytes_.at(reason) += event.bytes;
  any_ = true;
  Tick(event.at);
}

void LossLog::Tick(TimePoint now) {
  if (any_ && (!said_ || now - at_ >= kEvery)) Say(now);
}

void LossLog::Say(TimePoint now) {
  if (!any_) return;
  // Damaged bytes and lost memory are faults of the machine; in all other cases a tier
  // is too small for its load.
  bool warn = serious_;
  std::uint64_t entries = 0;
  Bytes bytes = 0;
  try {
    std::string causes;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_.at(i) == 0) continue;
      const auto reason = static_cast<Reason>(i);
      warn = warn || reason == Reason::kCorrupt || reason == Reason::kLost;
      entries += entries_.at(i);
      bytes += bytes_.at(i);
      causes += fmt::format("{}{} {} ({})", causes.empty() ? "" : ", ", Name(reason),
                            entries_.at(i), FormatBytes(bytes_.at(i)));
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - at_).count();
    FormatLog(warn ? LogLevel::kWarning : LogLevel::kInfo,
              "destroyed {} {} ({}) that had no other copy{}, by reason: {}{}", entries,
              entries == 1 ? "entry" : "entries", FormatBytes(bytes),
              said_ ? fmt::format(", in the last {} s", seconds) : std::string(), causes,
              said_ ? "" : "; more are reported once a minute");
  } catch (const std::exception&) {
    WriteLog(LogLevel::kWarning, "last copies of entries were destroyed");
  }
  entries_ = {};
  bytes_ = {};
  any_ = false;
  said_ = true;
  at_ = now;
}

}  // namespace spillway
