// SPDX-License-Identifier: Apache-2.0
// All settings of a cache, chosen when it is opened. A TOML file uses the same names and meanings
// (docs/reference/settings.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/clock.h"
#include "spillway/event.h"
#include "spillway/export.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

// The pressure at which each level is entered, as a share of the tier's memory.
struct Thresholds {
  double normal = 0.70;
  double pressure = 0.85;
  double critical = 0.92;
  double emergency = 0.96;
};

// Defaults work without any change. Cache::Open checks all fields and refuses bad ones with an
// error that names the setting.
struct Options {
  // --- where the bytes live ---
  // Backend of the device tier. "cpu" is the virtual card: RAM of a set size. "cuda", "cuda:N",
  // "hip" and "hip:N" are a GPU, where N is its number, its UUID or its PCI address.
  std::string device = "cpu";
  // Name of a virtual card that several processes share. Empty: a private card.
  std::string card;
  // Size of the device tier. Empty: the whole card; the size of a virtual card is by default an
  // eighth of the memory available on this machine.
  std::optional<Bytes> capacity;
  // No capacity at all: the tier takes what the machine gives.
  // True: the device tier has no capacity and takes memory as long as the machine gives it.
  bool unlimited = false;
  // Most entries at one time. Open reserves address space for their index; memory is used only as
  // entries are inserted.
  std::uint64_t entries_max = std::uint64_t{1} << 24;
  // Most bytes of host memory for keys, agent names and meta blobs.
  Bytes names_bytes_max = 4 * kGiB;
  // Free memory of a shared card that is kept for sudden needs of other processes, as a share of
  // the card. At least `reserve_bytes_min`, at most a tenth of the card.
  double reserve = 0.04;
  Bytes reserve_bytes_min = 2 * kGiB;
  // True: other processes may ask for memory of a shared card (docs/design/ask.md). Allowed are our
  // own user, root and the members of `ask_group`. Empty group: only our user and root.
  bool ask = true;
  std::string ask_group;
  // Whether GPU memory is zeroed before it is returned to the driver: "always", "never" or "auto".
  // "auto" zeroes it if `spillway selftest` found that this driver passes on memory with the last
  // owner's data in it.
  std::string zero_before_release = "auto";

  // --- the tiers below the device ---
  // Size of the host tier: RAM that holds entries demoted from the device. Empty: no host tier,
  // except that a GPU gets a quarter of the available memory, at most 64 GiB. On a GPU all of it is
  // registered with the driver, in the background.
  std::optional<Bytes> host_capacity;
  std::string host_pressure_source = "host";
  // Folder of the disk tier. It holds entries demoted from the host tier and keeps them over a
  // restart. Empty: no disk tier.
  std::string disk_dir;
  // Most bytes of the disk tier's files. Empty: a quarter of the file system's free space, at most
  // 256 GiB.
  std::optional<Bytes> disk_capacity;
  // "auto": the size of the tier's files, as a share of that size plus the file system's free
  // space.
  std::string disk_pressure_source = "auto";
  // True: data written to disk is read back and verified before it counts as a copy.
  bool disk_read_back = true;
  // Write-back: entries that are idle this long and have no copy in a lower tier are copied down.
  // They are then clean, so their memory can be given back at once. Empty: entries are copied down
  // only under pressure.
  std::optional<Duration> write_back_after = std::chrono::milliseconds(500);
  // Most bytes a second that write-back may copy. Empty: no limit.
  std::optional<Bytes> write_back_rate = kGiB;
  // How often every blob on disk is read and verified. Empty: never.
  std::optional<Duration> scrub_every = std::chrono::hours(24 * 7);
  // How long a Set may wait while memory for it is freed by demotion to a lower tier.
  Duration room_wait = std::chrono::seconds(10);
  // How long EMERGENCY tries to copy dirty entries down. Dirty entries that remain after that are
  // destroyed if they have been idle longer than `idle_critical`.
  Duration emergency_time = std::chrono::milliseconds(500);

  // --- pressure ---
  Thresholds thresholds;
  // A level can be left when pressure has stayed `exit_band` below its threshold for `dwell`.
  double exit_band = 0.02;
  Duration dwell = std::chrono::seconds(2);
  // After Start, pressure is sampled at least this often. Sampling rises to every 8 ms when other
  // processes could reach a threshold with one allocation, and to every 1 ms while their usage
  // changes. A reading older than three periods is UNKNOWN.
  Duration sample_period = std::chrono::milliseconds(50);
  // The source of pressure readings: "auto" (the device's own source) or a name: "nvml",
  // "nvml:0000:1b:00.0", "card:NAME", "host", "disk:/path", "file:/path", "fixed:0.5". `spillway
  // probe` lists the sources of this machine. "part:4GiB" treats 4 GiB of the device as if they
  // were the whole device, and counts only memory taken since the cache was opened.
  std::string pressure_source = "auto";

  // --- eviction ---
  // The order of eviction: "score" evicts the entry whose next use is least likely and whose miss
  // would cost least. Next use comes from step graphs, hints, and the history of similar entries;
  // LRU is used until enough is learned. "documented" is the order of the mode table. Others:
  // "lru", "hybrid", "workflow" (step graphs and hints, then LRU) and "seed".
  std::string policy = "score";
  // For "score": how many keys are remembered after their entries are gone, at about 250 bytes
  // each.
  std::uint64_t history_entries = std::uint64_t{1} << 18;
  // An entry idle longer than this expires from the device tier. Empty: never. `host_ttl` and
  // `disk_ttl` do the same for the tiers below.
  std::optional<Duration> ttl = std::chrono::minutes(10);
  std::optional<Duration> host_ttl;
  std::optional<Duration> disk_ttl;
  // Idle limits of eviction: NORMAL evicts only entries idle longer than `idle_normal`, EMERGENCY
  // all entries idle longer than `idle_critical`.
  Duration idle_normal = std::chrono::seconds(120);
  Duration idle_critical = std::chrono::seconds(30);
  // Most tokens of all live entries together. Empty: no limit.
  std::optional<Tokens> token_budget = 50'000'000;
  // Entries whose next use is at most this many steps away in a step graph are prefetched from
  // lower tiers. 0: no prefetch.
  std::uint64_t prefetch_steps = 1;
  // The longest time the engine spends on reclaim before it serves other requests.
  Duration reclaim_slice = std::chrono::milliseconds(1);

  // --- log and trace ---
  // The least serious log lines to print: "info", "warning", "error" or "off" (log.h). Empty:
  // unchanged. Applies to the whole process.
  std::string log;
  // A file to which every use is appended, in the format of `spillway replay`. With it, other sizes
  // and policies can be tried on the same uses. Empty: no trace.
  std::string trace;

  // --- replaceable parts ---
  std::shared_ptr<Clock> clock;                   // Empty: the system clock.
  std::shared_ptr<PressureSource> pressure;       // Empty: chosen by `pressure_source`.
  std::shared_ptr<PressureSource> host_pressure;  // The same for the lower tiers.
  std::shared_ptr<PressureSource> disk_pressure;
  // Called on the engine's strand for each event; see event.h for the rules.
  std::function<void(const Event&)> on_event;
  // Assigns each key to a group. Groups are counted, listed and cleared separately. Must be a pure
  // function of the key and return less than kKeyGroups. Null: all keys are in group 0.
  std::uint8_t (*key_group)(std::string_view key) = nullptr;
  std::function<void(const LevelChange&)> on_level;

  // The settings of the small program that Spillway grew from: one tier without capacity, TTL,
  // token budget, exit band or dwell, and the policy "seed".
  SPILLWAY_API static Options Seed();
};

// What a client knows about an entry's next use: kAgain, it will be used again; kDone, it will not.
// Hints count with the policies "score" and "workflow", and while a step graph is attached. A wrong
// hint is forgotten when its time has passed or when the entry is used anyway.
enum class Hint : std::uint8_t { kNone, kAgain, kDone };

}  // namespace spillway
