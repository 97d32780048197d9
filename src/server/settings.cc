// SPDX-License-Identifier: Apache-2.0
#include "server/settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <type_traits>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/parse.h"
#include "base/printable.h"

namespace spillway::server {

namespace {

template <typename Number>
Status ReadNumber(std::string_view text, Number* number) {
  const char* const end = text.data() + text.size();
  Number read{};
  const auto [stop, error] = std::from_chars(text.data(), end, read);
  if (error != std::errc() || stop != end) {
    return Bad(fmt::format("'{}' is not a whole number{}", Printable(text),
                           std::is_unsigned_v<Number> ? " of at least 0" : ""));
  }
  *number = read;
  return {};
}

// The error quotes the text as given: a parser of unsigned numbers would show -1 as another number.
Status ReadPort(std::string_view text, std::uint64_t* port) {
  std::uint64_t read = 0;
  if (!ReadNumber(text, &read) || read > kPortMax) {
    return Bad(fmt::format("'{}' is not a port; it must be 0 to {}", Printable(text), kPortMax));
  }
  *port = read;
  return {};
}

Status ReadSize(std::string_view text, Bytes* bytes) {
  const Result<Bytes> read = ParseBytes(text);
  if (!read) return read.error();
  *bytes = *read;
  return {};
}

Status ReadTime(std::string_view text, Duration* time) {
  std::int64_t seconds = 0;  // A plain number is seconds, as in Redis.
  if (ReadNumber(text, &seconds)) {
    if (seconds < 0 || seconds > 1'000'000'000) return Bad("it must be 0 to 1000000000 seconds");
    *time = std::chrono::seconds(seconds);
    return {};
  }
  const Result<Duration> read = ParseDuration(text);
  if (!read) return read.error();
  *time = *read;
  return {};
}

std::string PrintTime(Duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return ms % 1000 == 0 ? fmt::to_string(ms / 1000) : fmt::format("{}ms", ms);
}

Status ReadFlag(std::string_view text, bool* flag) {
  if (text != "true" && text != "false" && text != "yes" && text != "no") {
    return Bad(fmt::format("'{}' is not true or false", Printable(text)));
  }
  *flag = text == "true" || text == "yes";
  return {};
}

Status ReadOnBlocked(std::string_view text, OnBlocked* on_blocked) {
  for (const OnBlocked one : {OnBlocked::kAuto, OnBlocked::kError, OnBlocked::kDrop}) {
    if (Name(one) != text) continue;
    *on_blocked = one;
    return {};
  }
  return Bad(fmt::format("'{}' is not auto, error or drop", Printable(text)));
}

constexpr std::array kRows = {
    SettingRow{"bind", "bind", "an address", false, false,
               "Address to listen on. Anything but loopback needs a password.",
               [](std::string_view text, Settings* s) -> Status {
                 s->bind = text;
                 return {};
               },
               [](const Settings& s) { return s.bind; }},
    SettingRow{"port", "port", "a port", false, false, "TCP port; 0: none.",
               [](std::string_view text, Settings* s) { return ReadPort(text, &s->port); },
               [](const Settings& s) { return fmt::to_string(s.port); }},
    SettingRow{"socket", "unixsocket", "a path", false, false,
               "Unix socket, mode 0600; empty: none.",
               [](std::string_view text, Settings* s) -> Status {
                 s->socket = text;
                 return {};
               },
               [](const Settings& s) { return s.socket; }},
    SettingRow{"http_bind", "", "an address", false, false,
               "Address HTTP listens on. Anything but loopback needs a password.",
               [](std::string_view text, Settings* s) -> Status {
                 s->http_bind = text;
                 return {};
               },
               [](const Settings& s) { return s.http_bind; }},
    SettingRow{"http_port", "", "a port", false, false,
               "Port of HTTP: health, metrics, API; 0: none.",
               [](std::string_view text, Settings* s) { return ReadPort(text, &s->http_port); },
               [](const Settings& s) { return fmt::to_string(s.http_port); }},
    SettingRow{
        "http_hosts", "", "names", false, false,
        "Host names that HTTP accepts besides localhost and `http_bind`, separated by commas. "
        "Others are refused: this keeps pages of other sites from reaching the daemon through "
        "a browser (DNS rebinding).",
        [](std::string_view text, Settings* s) -> Status {
          s->http_hosts = text;
          return {};
        },
        [](const Settings& s) { return s.http_hosts; }},
    SettingRow{"password", "requirepass", "a password", true, true,
               "The password for AUTH; empty: none is required. Better kept in a file: "
               "`password_file`.",
               [](std::string_view text, Settings* s) -> Status {
                 s->password = text;
                 return {};
               },
               [](const Settings& s) { return s.password; }},
    SettingRow{"open_to_all", "", "true or false", false, false,
               "Allows listening beyond loopback without a password.",
               [](std::string_view text, Settings* s) { return ReadFlag(text, &s->open_to_all); },
               [](const Settings& s) { return std::string(s.open_to_all ? "true" : "false"); }},
    SettingRow{"clients_max", "maxclients", "a count", true, false, "Most clients at once.",
               [](std::string_view text, Settings* s) { return ReadNumber(text, &s->clients_max); },
               [](const Settings& s) { return fmt::to_string(s.clients_max); }},
    SettingRow{"bulk_max", "proto-max-bulk-len", "a size", true, false,
               "Largest argument of a command, and so largest value of a SET.",
               [](std::string_view text, Settings* s) { return ReadSize(text, &s->bulk_max); },
               [](const Settings& s) { return fmt::to_string(s.bulk_max); }},
    SettingRow{"output_max", "client-output-buffer-limit", "a size", true, false,
               "Most bytes of replies pending for one client; leased values are not counted. "
               "Beyond it the client is closed.",
               [](std::string_view text, Settings* s) { return ReadSize(text, &s->output_max); },
               [](const Settings& s) { return fmt::to_string(s.output_max); }},
    SettingRow{"input_max", "client-query-buffer-limit", "a size", true, false,
               "Most bytes that an unfinished request may hold, besides a value that is received "
               "straight into the cache. Beyond it the client is closed.",
               [](std::string_view text, Settings* s) { return ReadSize(text, &s->input_max); },
               [](const Settings& s) { return fmt::to_string(s.input_max); }},
    SettingRow{"idle_max", "timeout", "a duration", true, false,
               "A client idle for this long is closed; 0: never.",
               [](std::string_view text, Settings* s) { return ReadTime(text, &s->idle_max); },
               [](const Settings& s) { return PrintTime(s.idle_max); }},
    SettingRow{"stall_max", "", "a duration", true, false,
               "A client with a half-sent request or unread replies is closed after this long "
               "without a byte of progress.",
               [](std::string_view text, Settings* s) { return ReadTime(text, &s->stall_max); },
               [](const Settings& s) { return PrintTime(s.stall_max); }},
    SettingRow{"io_threads", "io-threads", "a count", false, false,
               "Threads that serve clients; 0: half of the cores, at most 8.",
               [](std::string_view text, Settings* s) { return ReadNumber(text, &s->io_threads); },
               [](const Settings& s) { return fmt::to_string(s.io_threads); }},
    SettingRow{
        "stop_flush", "", "a duration", true, false,
        "With a disk tier: how long the daemon may write entries that only memory has to disk "
        "when it stops, the most valuable first; 0: it writes none.",
        [](std::string_view text, Settings* s) { return ReadTime(text, &s->stop_flush); },
        [](const Settings& s) { return PrintTime(s.stop_flush); }},
    SettingRow{
        "on_blocked", "", "auto, error or drop", true, false,
        "The reply to a write that no tier accepts: `error` is Redis's OOM error; `drop` replies "
        "OK and erases the key; `auto` is `drop` for keys of LMCache's form on connections that "
        "never sent HELLO, and `error` for all others.",
        [](std::string_view text, Settings* s) { return ReadOnBlocked(text, &s->on_blocked); },
        [](const Settings& s) { return std::string(Name(s.on_blocked)); }},
    SettingRow{"slowlog_us", "slowlog-log-slower-than", "microseconds", true, false,
               "Commands that take longer go to the slow log; negative: none.",
               [](std::string_view text, Settings* s) { return ReadNumber(text, &s->slowlog_us); },
               [](const Settings& s) { return fmt::to_string(s.slowlog_us); }},
    SettingRow{"slowlog_max", "slowlog-max-len", "a count", true, false,
               "Most commands kept in the slow log.",
               [](std::string_view text, Settings* s) { return ReadNumber(text, &s->slowlog_max); },
               [](const Settings& s) { return fmt::to_string(s.slowlog_max); }},
};

bool SameAnyCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::string_view Name(OnBlocked on_blocked) {
  switch (on_blocked) {
    case OnBlocked::kError:
      return "error";
    case OnBlocked::kDrop:
      return "drop";
    case OnBlocked::kAuto:
      break;
  }
  return "auto";
}

std::span<const SettingRow> SettingRows() { return kRows; }

const SettingRow* FindRow(std::string_view name) {
  for (const SettingRow& row : kRows) {
    if (SameAnyCase(name, row.name)) return &row;
    if (!row.redis.empty() && SameAnyCase(name, row.redis)) return &row;
  }
  return nullptr;
}

}  // namespace spillway::server
