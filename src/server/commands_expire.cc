// SPDX-License-Identifier: Apache-2.0
// Expiry: a key's time to live.
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/mutant.h"
#include "server/commands.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

constexpr std::int64_t kMostMs = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

void BadTime(Call& call) {
  call.Error(fmt::format("ERR invalid expire time in '{}' command", call.command.full_name()));
}

struct Conditions {
  bool none = false;     // NX
  bool some = false;     // XX
  bool greater = false;  // GT
  bool less = false;     // LT
  bool any() const { return none || some || greater || less; }
};

bool ReadConditions(Call& call, Conditions* conditions) {
  for (std::size_t i = 3; i < call.args.size(); ++i) {
    const std::string_view word = call.arg(i);
    if (SameWord(word, "nx")) {
      conditions->none = true;
    } else if (SameWord(word, "xx")) {
      conditions->some = true;
    } else if (SameWord(word, "gt")) {
      conditions->greater = true;
    } else if (SameWord(word, "lt")) {
      conditions->less = true;
    } else {
      call.Error(fmt::format("ERR Unsupported option {}", word));
      return false;
    }
  }
  if (conditions->none && (conditions->some || conditions->greater || conditions->less)) {
    call.Error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if (conditions->greater && conditions->less) {
    call.Error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

// Whether NX, XX, GT and LT allow the new deadline. `old` empty: the key has none.
bool Allowed(const Conditions& conditions, std::optional<std::int64_t> old, std::int64_t when) {
  if (conditions.none && old) return false;
  if (conditions.some && !old) return false;
  if (conditions.greater && (!old || when <= *old)) return false;
  return !conditions.less || !old || when < *old;
}

std::optional<std::int64_t> UnixMsOf(Call& call, TimePoint deadline) {
  if (deadline == TimePoint::max()) return std::nullopt;
  return call.state.ToUnixMs(deadline);
}

void ExpireGeneric(Call& call, std::int64_t base, bool seconds) {
  Conditions conditions;
  if (!ReadConditions(call, &conditions)) return;
  std::int64_t when = 0;
  if (!IntegerArg(call, 2, &when)) return;
  if (seconds && (when > kMostMs / 1000 || when < kLeast / 1000)) return BadTime(call);
  if (seconds) when *= 1000;
  if (when > kMostMs - base) return BadTime(call);
  when += base;
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  const std::optional<TimePoint> deadline = call.state.direct().DeadlineOf(key);
  if (!deadline || !Allowed(conditions, UnixMsOf(call, *deadline), when)) {
    call.reply.Integer(0);
    return;
  }
  if (when <= call.state.UnixMs()) {
    call.state.direct().Erase(key);
  } else {
    ChangeDeadline(call, key, call.state.FromUnixMs(when));
  }
  call.reply.Integer(1);
}

// -2: no such key; -1: no deadline.
std::int64_t EndOf(Call& call, bool* answered) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  *answered = key.empty();
  if (key.empty()) return 0;
  const std::optional<TimePoint> deadline = call.state.direct().DeadlineOf(key);
  if (!deadline) return -2;
  return UnixMsOf(call, *deadline).value_or(-1);
}

void Left(Call& call, bool seconds) {
  bool answered = false;
  const std::int64_t end = EndOf(call, &answered);
  if (answered) return;
  if (end < 0) return call.reply.Integer(end);
  const std::int64_t left = std::max<std::int64_t>(end - call.state.UnixMs(), 0);
  call.reply.Integer(seconds ? (left + 500) / 1000 : left);
}

void End(Call& call, bool seconds) {
  bool answered = false;
  const std::int64_t end = EndOf(call, &answered);
  if (answered) return;
  call.reply.Integer(end < 0 || !seconds ? end : (end + 500) / 1000);
}

}  // namespace

bool ExpireOption(Call& call, std::string_view option, std::string_view text,
                  std::int64_t* unix_ms) {
  std::int64_t when = 0;
  if (!wire::ReadInteger(text, &when)) {
    call.Error("ERR value is not an integer or out of range");
    return false;
  }
  const bool seconds = SameWord(option, "ex") || SameWord(option, "exat");
  const bool from_now = SameWord(option, "ex") || SameWord(option, "px");
  if (when <= 0 || (seconds && when > kMostMs / 1000)) {
    BadTime(call);
    return false;
  }
  if (seconds) when *= 1000;
  if (from_now) {
    const std::int64_t now = call.state.UnixMs();
    if (when > kMostMs - now) {
      BadTime(call);
      return false;
    }
    when += now;
  }
  *unix_ms = when + (!from_now && !seconds && MutantOn(Mutant::kGetExOffByOneMs) ? 1 : 0);
  return true;
}

void Expire(Call& call) { ExpireGeneric(call, call.state.UnixMs(), true); }
void PExpire(Call& call) { ExpireGeneric(call, call.state.UnixMs(), false); }
void ExpireAt(Call& call) { ExpireGeneric(call, 0, true); }
void PExpireAt(Call& call) { ExpireGeneric(call, 0, false); }
void Ttl(Call& call) { Left(call, true); }
void PTtl(Call& call) { Left(call, false); }
void ExpireTime(Call& call) { End(call, true); }
void PExpireTime(Call& call) { End(call, false); }

void Persist(Call& call) {
  std::string buffer;
  const std::string_view key = KeyArg(call, 1, &buffer);
  if (key.empty()) return;
  const std::optional<TimePoint> deadline = call.state.direct().DeadlineOf(key);
  if (!deadline || *deadline == TimePoint::max()) return call.reply.Integer(0);
  ChangeDeadline(call, key, TimePoint::max());
  call.reply.Integer(1);
}

}  // namespace spillway::server
