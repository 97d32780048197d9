// Everything that can be set when a cache is opened. The same settings, by the
// same names, come from a TOML file (docs/reference/settings.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "spillway/clock.h"
#include "spillway/event.h"
#include "spillway/export.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

// Pressure from which each level is entered, as a share of the tier's memory.
struct Thresholds {
  double normal = 0.70;
  double pressure = 0.85;
  double critical = 0.92;
  double emergency = 0.96;
};

struct Options {
  // --- where the bytes live ---
  // The device tier's backend. "cpu" is the virtual card: RAM of a set size.
  // "cuda", "cuda:N", "hip" and "hip:N" are a GPU, N being its number, its UUID
  // or its PCI address.
  std::string device = "cpu";
  // Name of a virtual card shared by several processes; empty: a private one.
  std::string card;
  // Bytes of the device tier. Empty: the whole card, which by default is an
  // eighth of the memory available on this machine.
  std::optional<Bytes> capacity;
  // No capacity at all: the tier takes what the machine gives.
  bool unlimited = false;
  // Most entries there can be at once; address space for their index is set
  // aside at open, memory only as they come.
  std::uint64_t entries_max = std::uint64_t{1} << 24;
  // Most bytes of keys, agents and meta blobs kept in host memory.
  Bytes names_bytes_max = 4 * kGiB;
  // Free memory of a shared card left for neighbours' bursts: a share of the
  // card, at least `reserve_bytes_min`, never more than a tenth of the card.
  double reserve = 0.04;
  Bytes reserve_bytes_min = 2 * kGiB;
  // Neighbours may ask for memory of a shared card (docs/design/ask.md): our
  // own user, root, and the members of this group, if one is named.
  bool ask = true;
  std::string ask_group;
  // Whether a GPU's memory is zeroed before it goes back to the driver: "always",
  // "never", or "auto": where `spillway selftest` has found that the driver hands
  // out what others left there.
  std::string zero_before_release = "auto";

  // --- what lies below the device ---
  // Bytes of the host tier: RAM that takes what leaves the device. Empty: no
  // such tier; on a GPU a quarter of the memory available, at most 64 GiB. There
  // it is registered with the driver, all of it, in the background.
  std::optional<Bytes> host_capacity;
  std::string host_pressure_source = "host";
  // Folder of the disk tier, which takes what leaves the host and is there
  // again after a restart; empty: no such tier.
  std::string disk_dir;
  // Most bytes of its files. Empty: a quarter of the file system's free space,
  // at most 256 GiB.
  std::optional<Bytes> disk_capacity;
  // "auto": its files as a share of what they and the free space are together.
  std::string disk_pressure_source = "auto";
  // What was written is read again before it counts as a copy.
  bool disk_read_back = true;
  // Idle entries without a copy below are copied down after this long, so that
  // they can be given back at once; empty: only under pressure.
  std::optional<Duration> write_behind_after = std::chrono::milliseconds(500);
  // Most bytes a second that this may copy; empty: as fast as it goes.
  std::optional<Bytes> write_behind_rate = kGiB;
  // How often every blob on disk is read and verified; empty: never.
  std::optional<Duration> scrub_every = std::chrono::hours(24 * 7);
  // How long a set may wait for room that is being made below.
  Duration room_wait = std::chrono::seconds(10);
  // How long EMERGENCY copies down what has no copy yet; after that it is
  // destroyed, if it was idle for long.
  Duration emergency_time = std::chrono::milliseconds(500);

  // --- how pressure is judged ---
  Thresholds thresholds;
  double exit_band = 0.02;
  Duration dwell = std::chrono::seconds(2);
  // After Start pressure is sampled at least this often; every 8 ms when a
  // neighbour's jump could reach a threshold, every 1 ms while it moves. A
  // reading older than three periods is UNKNOWN.
  Duration sample_period = std::chrono::milliseconds(50);
  // Where pressure comes from: "auto" (the device's own source), or one by
  // name: "nvml", "nvml:0000:1b:00.0", "card:NAME", "host", "disk:/path",
  // "file:/path", "fixed:0.5"; `spillway probe` lists what this machine offers.
  // "part:4GiB": so much of the device as if it were all of it, with what has been
  // taken since the cache was opened.
  std::string pressure_source = "auto";

  // --- what may leave ---
  // "score" (how soon each is likely to be used again, by what graphs and hints
  // foretell and such ones did before, and what a miss would cost; last use until it
  // knows enough), "documented" (the mode table's own order), "lru", "hybrid",
  // "workflow" (graphs and hints, then last use), or "seed".
  std::string policy = "score";
  // For "score": most keys remembered after they are gone, about 250 bytes each.
  std::uint64_t history_entries = std::uint64_t{1} << 18;
  // An entry idle longer than this leaves the tier; empty: never.
  std::optional<Duration> ttl = std::chrono::minutes(10);
  std::optional<Duration> host_ttl;
  std::optional<Duration> disk_ttl;
  Duration idle_normal = std::chrono::seconds(120);
  Duration idle_critical = std::chrono::seconds(30);
  // Most tokens over all live entries; empty: no budget.
  std::optional<Tokens> token_budget = 50'000'000;
  // What a step graph wants in so many steps comes up before it is asked for;
  // 0: nothing does.
  std::uint64_t prefetch_steps = 1;
  // Longest stretch of reclaim work between two other events.
  Duration reclaim_slice = std::chrono::milliseconds(1);

  // --- what is said ---
  // The least serious that the library says on standard error (log.h): "info",
  // "warning", "error" or "off". Empty: as it is. For the whole process.
  std::string log;
  // A file to which all uses are appended as a log that `spillway replay` reads: what
  // would another size or policy have made of them? Empty: none.
  std::string trace;

  // --- the world ---
  std::shared_ptr<Clock> clock;                   // Empty: the machine's.
  std::shared_ptr<PressureSource> pressure;       // Empty: by `pressure_source`.
  std::shared_ptr<PressureSource> host_pressure;  // Likewise, of the tiers below.
  std::shared_ptr<PressureSource> disk_pressure;
  std::function<void(const Event&)> on_event;
  std::function<void(const LevelChange&)> on_level;

  // The small program Spillway grew from, exactly: one tier without a
  // capacity, TTL, budget, band or dwell, and the policy "seed".
  SPILLWAY_API static Options Seed();
};

// What a client knows about an entry's future. It counts with policy "score" and
// "workflow", and while a step graph is attached; a wrong one is forgotten when its time is
// over, or when the entry is used all the same.
enum class Hint : std::uint8_t { kNone, kAgain, kDone };

}  // namespace spillway
