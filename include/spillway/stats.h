// What a cache has done and holds, at one moment. Plain numbers; counters only
// ever rise while the cache is open.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "spillway/mode.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

// The files of a disk tier.
struct FileStats {
  Bytes written = 0;        // All of it: headers, padding and journal included.
  Bytes value_written = 0;  // Of that, values: written / value_written is the amplification.
  Bytes read = 0;
  std::uint64_t corrupt = 0;  // Blobs that were not what they should have been.
  std::uint64_t io_errors = 0;
  std::uint64_t syncs = 0;
  std::uint64_t sync_failures = 0;
  std::uint64_t recovered = 0;  // Found at open.
  std::uint64_t recovery_rejected = 0;
  // Values that were set anew, erased or cleared, and could be found again after
  // a restart, since the disk has not been told yet; now.
  std::uint64_t unsettled = 0;
  std::uint64_t settle_failures = 0;  // Times somebody waited in vain for that to be 0.
  std::uint64_t voided = 0;           // All was given up, lest some of it be too old.
  Bytes quarantined = 0;
  bool direct = false;  // Past the kernel's page cache.
  std::string trouble;  // Why it is read-only or down; empty: it is fine.
};

struct TierStats {
  std::string name;                // "device"; empty: there is no such tier.
  Bytes capacity = 0;              // 0: none set (preset seed).
  Bytes bytes = 0;                 // Live entries, leased leftovers and reservations in flight.
  Bytes held = 0;                  // Physical memory taken from the device, slack included.
  Bytes slack = 0;                 // Of that, what no entry uses.
  Bytes overhead = 0;              // Taken besides: contexts, registrations.
  Bytes others = 0;                // What everybody else holds, by the last reading.
  Bytes total = 0;                 // Last reading; 0 before the first.
  Bytes free = 0;                  // Last reading.
  Bytes reserve = 0;               // Kept free for neighbours.
  Bytes granted = 0;               // Besides, for those who asked and have not taken it yet.
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Level level = Level::kRelaxed;
  TimePoint level_since;
  std::uint64_t level_changes = 0;
  std::uint64_t entries = 0;       // With a copy here.
  Bytes backed = 0;                // Of `bytes`: those with a copy further down.
  Bytes clean = 0;                 // Of `held`: chunks with nothing but such bytes.
  std::uint64_t failed_moves = 0;  // Into this tier.
  Bytes copied_down = 0;           // Into this tier, from one above it.
  Bytes copied_up = 0;             // Into this tier, from one below it.
  // What was done to entries here, and their bytes.
  std::array<std::uint64_t, kActions> left_by_action{};
  std::array<Bytes, kActions> left_bytes_by_action{};
  FileStats files;  // Of the disk tier.
};

// What travels between tiers.
struct MoveStats {
  Bytes bytes_down = 0;
  Bytes bytes_up = 0;
  std::uint64_t fetches = 0;  // Gets that waited for a copy to come up.
  std::uint64_t fetches_failed = 0;
  std::uint64_t promoted = 0;
  std::uint64_t prefetched = 0;
  // What a step graph had brought up before it was asked for. Of these bytes:
  // read after they had come; asked for while they came; gone, or called off,
  // without having been read. What is left waits to be read.
  Bytes ahead_bytes = 0;
  Bytes ahead_useful_bytes = 0;
  Bytes ahead_late_bytes = 0;
  Bytes ahead_wasted_bytes = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t corrupt = 0;  // Copies that did not match their checksums; never served.
  std::uint64_t scrubbed = 0;
  std::uint64_t under_way = 0;  // Now.
  Bytes passing_bytes = 0;      // Now: values lent from memory of no tier.
};

// Where pressure comes from, and how that goes.
struct SourceStats {
  std::string name;                // "card:demo", "nvml:0000:1b:00.0"
  std::optional<Reading> reading;  // The last good one.
  Duration age{};                  // Of that reading.
  bool watched = false;            // Between Start and Stop; the rest is 0 otherwise.
  bool hung = false;               // A call is out and late.
  std::uint64_t reads = 0;
  std::uint64_t failures = 0;
  std::uint64_t hangs = 0;
  Duration cost{};         // Of the last call.
  Duration wait{};         // Until the next.
  std::string last_error;  // Empty: the last reading was good.
  // When others last began to take memory (1/64 of it or more), by the first
  // reading that showed it; microseconds of Unix time, 0: they have not.
  std::int64_t others_rose_unix_us = 0;
};

// The socket on which neighbours ask for memory of a shared device.
struct AskStats {
  std::string socket;   // Empty: there is none.
  std::string trouble;  // Why there is none though there should be.
  std::uint64_t asks = 0;
  Bytes freed = 0;           // By them.
  std::uint64_t errors = 0;  // Lines and connections that were refused.
};

// Times memory of the device was given back because somebody asked for it, by
// the socket or by Reclaim: from the request until the last of it was free.
struct GiveBackStats {
  static constexpr std::array<double, 10> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02,
                                                     0.05,  0.1,   0.5,   1,    5};
  std::array<std::uint64_t, kBounds.size() + 1> within{};  // Up to each bound; beyond the last.
  std::uint64_t count = 0;
  Bytes bytes = 0;
  Duration total{};
  Duration last{};
};

// What the policy "score" has learnt; all 0 with others.
struct ScoreStats {
  bool in_use = false;           // The policy is "score";
  bool leads = false;            // and its own order is in force, not last use.
  std::uint64_t returns = 0;     // Uses it has learnt from.
  std::uint64_t remembered = 0;  // Keys that are gone, now.
  std::uint64_t fallbacks = 0;   // Times last use did better, and took over.
  std::uint64_t ghost_hits = 0;  // Keys asked for or set anew that were gone.
  std::uint64_t sent_below = 0;  // Sets that entered a lower tier, being worth less.
  // What computing a token anew costs: by what clients declared, else as an 8B
  // model on an H200 does it (32 K tokens in 1.4 s).
  double prefill_s = 43e-6;
};

// What was written to Options::trace.
struct TraceStats {
  std::string file;            // Empty: nothing is recorded.
  std::uint64_t requests = 0;  // Lines.
  std::uint64_t lost = 0;      // Left out: the file could not be written, or there was no memory.
};

struct Stats {
  std::uint64_t entries = 0;
  Tokens tokens = 0;
  std::uint64_t leases = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t sets = 0;
  std::uint64_t refused_blocked = 0;
  std::uint64_t refused_budget = 0;
  std::uint64_t refused_other = 0;  // Too large, bad argument, no memory.
  std::uint64_t level_changes = 0;
  std::uint64_t samples = 0;
  std::uint64_t samples_failed = 0;  // The alarm: readings that gave nothing.
  std::uint64_t reservations = 0;    // Sets admitted and not yet committed.
  Bytes index_bytes = 0;             // Slots, records, table and names in host memory.
  // Entries and bytes that left, by reason and by action.
  std::array<std::uint64_t, kReasons> left_by_reason{};
  std::array<Bytes, kReasons> left_bytes_by_reason{};
  std::array<std::uint64_t, kActions> left_by_action{};
  TierStats device;
  // A GPU's memory is had by slabs: returning it waits for kernels.
  bool device_slabs = false;
  TierStats host;
  TierStats disk;
  MoveStats moves;
  bool loading = false;  // The disk tier is still being read in.
  SourceStats source;    // Of the top tier.
  SourceStats host_source;
  SourceStats disk_source;
  AskStats ask;
  GiveBackStats give_back;
  ScoreStats score;
  TraceStats trace;
};

}  // namespace spillway
