// What the daemon itself can be told, beside the cache's own settings: the table
// [server] of its TOML file, CONFIG GET and CONFIG SET, the flags and the
// reference page all read the one list of settings.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway::server {

enum class OnBlocked : std::uint8_t { kAuto, kError, kDrop };

struct Settings {
  // --- where it listens ---
  std::string bind = "127.0.0.1";
  std::uint64_t port = 7379;  // 0: no TCP.
  std::string socket;         // Path; empty: none. "auto" is resolved by the program.
  std::string http_bind = "127.0.0.1";
  std::uint64_t http_port = 7380;  // 0: no HTTP.
  std::string http_hosts;          // Names it may be called by, with commas between.
  // --- who may ---
  std::string password;  // Empty: none is asked for.
  bool open_to_all = false;
  // --- bounds ---
  std::uint64_t clients_max = 10'000;
  Bytes bulk_max = 512 * kMiB;
  Bytes output_max = 64 * kMiB;  // Replies waiting for one client, beside leased values.
  Bytes input_max = 64 * kMiB;   // What one unfinished request may hold in memory.
  Duration idle_max{};           // Zero: a client may be idle for ever.
  Duration stall_max = std::chrono::seconds(60);  // Half a request, or unread replies.
  std::uint64_t io_threads = 0;                   // 0: half of the cores, at most 8.
  // --- when it ends ---
  Duration stop_flush = std::chrono::seconds(5);  // Zero: what only memory has is left.
  // --- under pressure ---
  OnBlocked on_blocked = OnBlocked::kAuto;
  // --- what is said ---
  std::int64_t slowlog_us = 10'000;  // Negative: nothing is slow.
  std::uint64_t slowlog_max = 128;
};

// One row of the table. Names are ours; `redis` is what CONFIG GET also calls it.
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
const SettingRow* FindRow(std::string_view name);  // By either name, any case.

// Both halves of a file: [server] and all the rest.
struct Config {
  Settings server;
  Options cache;
};
// What the daemon starts from: a cache in RAM, without an idle ttl.
Config DefaultConfig();
// An error names file, line and setting.
Result<Config> LoadConfig(const std::string& toml_text, std::string_view file, const Config& base);
// Whether the settings make sense together, and are safe.
Status CheckSettings(const Settings& settings);

// docs/reference/daemon-settings.md, whole.
std::string DaemonSettingsPage();

std::string_view Name(OnBlocked on_blocked);

}  // namespace spillway::server
