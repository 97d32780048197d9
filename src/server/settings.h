// SPDX-License-Identifier: Apache-2.0
// The daemon's own settings, beside the cache's: one table in settings.cc. The table [server] of
// its TOML file, CONFIG GET and CONFIG SET, flags and the reference page all read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway::server {

inline constexpr std::uint64_t kPortMax = 65'535;

enum class OnBlocked : std::uint8_t { kAuto, kError, kDrop };

struct Settings {
  // --- addresses ---
  std::string bind = "127.0.0.1";
  std::uint64_t port = 7379;  // 0: no TCP.
  std::string socket;         // Path; empty: none. "auto" is resolved by the program.
  std::string http_bind = "127.0.0.1";
  std::uint64_t http_port = 7380;  // 0: no HTTP.
  std::string http_hosts;          // More host names HTTP accepts, separated by commas.
  // --- access ---
  std::string password;  // Empty: none is required.
  bool open_to_all = false;
  // --- limits ---
  std::uint64_t clients_max = 10'000;
  Bytes bulk_max = 512 * kMiB;
  Bytes output_max = 64 * kMiB;  // Replies pending for one client, without leased values.
  Bytes input_max = 64 * kMiB;   // Memory of one unfinished request.
  Duration idle_max{};           // Zero: no limit.
  Duration stall_max = std::chrono::seconds(60);  // Half a request, or unread replies.
  std::uint64_t io_threads = 0;                   // 0: half of the cores, at most 8.
  // --- shutdown ---
  Duration stop_flush = std::chrono::seconds(5);  // Zero: dirty entries are not written.
  // --- under pressure ---
  OnBlocked on_blocked = OnBlocked::kAuto;
  // --- slow log ---
  std::int64_t slowlog_us = 10'000;  // Negative: no slow log.
  std::uint64_t slowlog_max = 128;
};

// One row of the table. `redis` is the name that Redis has for it, if any; CONFIG accepts both.
struct SettingRow {
  std::string_view name;
  std::string_view redis;
  std::string_view kind;  // "a size", for messages and the page.
  bool live = false;      // CONFIG SET may change it.
  bool secret = false;    // Never shown.
  std::string_view meaning;
  Status (*read)(std::string_view text, Settings* settings);
  std::string (*print)(const Settings& settings);
};
std::span<const SettingRow> SettingRows();
const SettingRow* FindRow(std::string_view name);  // By either name; ignores case.

// A configuration file: [server], and the cache's settings.
struct Config {
  Settings server;
  Options cache;
};
// The defaults of the daemon: a cache in RAM, without an idle ttl.
Config DefaultConfig();
// An error names file, line and setting.
Result<Config> LoadConfig(const std::string& toml_text, std::string_view file, const Config& base);
// Whether the settings make sense together, and are safe.
Status CheckSettings(const Settings& settings);

// Whether a running daemon may change its settings this way. Removing the password is refused while
// other machines can connect, even with `open_to_all`: that setting is for the owner of the file,
// and a client that knows the password must not open the daemon to all.
Status CheckChange(const Settings& before, const Settings& after);

// "set", "changed" or "removed"; empty: unchanged. For the log, which never contains the password.
std::string_view PasswordChange(const Settings& before, const Settings& after);

// The outcome of SIGHUP, which reads the file again.
struct Reloaded {
  std::vector<std::string> changed;  // As in "server.idle_max".
  std::vector<std::string> kept;     // Differ from the running daemon, and need a restart.
};
// Copies the settings that may change while the daemon runs from `read` to `live`. `running` is the
// configuration the daemon was started with. On an error nothing was changed.
Result<Reloaded> Reload(const Config& running, const Config& read, Settings* live);

// The whole text of docs/reference/daemon-settings.md.
std::string DaemonSettingsPage();

// A configuration file with every setting, commented out, at its default: `--sample-config`.
std::string SampleConfig();

std::string_view Name(OnBlocked on_blocked);

}  // namespace spillway::server
