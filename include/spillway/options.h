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
  std::string pressure_source = "auto";

  // --- what may leave ---
  // "documented" (the mode table), "lru", "hybrid", or "seed".
  std::string policy = "documented";
  // An entry idle longer than this leaves the tier; empty: never.
  std::optional<Duration> ttl = std::chrono::minutes(10);
  Duration idle_normal = std::chrono::seconds(120);
  Duration idle_critical = std::chrono::seconds(30);
  // Most tokens over all live entries; empty: no budget.
  std::optional<Tokens> token_budget = 50'000'000;
  // Longest stretch of reclaim work between two other events.
  Duration reclaim_slice = std::chrono::milliseconds(1);

  // --- the world ---
  std::shared_ptr<Clock> clock;              // Empty: the machine's.
  std::shared_ptr<PressureSource> pressure;  // Empty: by `pressure_source`.
  std::function<void(const Event&)> on_event;
  std::function<void(const LevelChange&)> on_level;

  // The small program Spillway grew from, exactly: one tier without a
  // capacity, TTL, budget, band or dwell, and the policy "seed".
  SPILLWAY_API static Options Seed();
};

// What a client knows about an entry's future. Accepted everywhere; the policies
// of this version do not use it yet.
enum class Hint : std::uint8_t { kNone, kAgain, kDone };

}  // namespace spillway
