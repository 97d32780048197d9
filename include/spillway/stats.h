// SPDX-License-Identifier: Apache-2.0
// What a cache holds now and what it has done since it was opened. Plain numbers. Counters never
// decrease while the cache is open.
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
  Bytes written = 0;  // All bytes written: values, headers, padding and journal.
  // Bytes of values only; written / value_written is the write amplification.
  Bytes value_written = 0;
  Bytes read = 0;
  std::uint64_t corrupt = 0;  // Blobs that failed verification.
  std::uint64_t io_errors = 0;
  std::uint64_t syncs = 0;
  std::uint64_t sync_failures = 0;
  std::uint64_t recovered = 0;  // Blobs found at open.
  // Journal records, or ranges of them, that could not be read.
  std::uint64_t recovery_rejected = 0;
  std::uint64_t recovery_mended = 0;  // Damaged journal records that were repaired.
  // Blobs dropped at open because a lost part of the journal may have said that they were replaced,
  // erased or given another deadline.
  std::uint64_t recovery_given_up = 0;
  // Now: blobs that were replaced, erased or cleared, but whose deletion is not on disk yet. A
  // crash now could bring them back.
  std::uint64_t deletes_pending = 0;
  // Times a wait for pending deletes failed or reached its deadline.
  std::uint64_t delete_flush_failures = 0;
  // Resets of the whole tier: pending deletes could not be written, so all blobs were dropped.
  std::uint64_t voided = 0;
  // Space of damaged blobs, kept out of use for now. The oldest is reused when there is too much.
  Bytes quarantined = 0;
  bool direct = false;  // Files are read and written past the kernel's page cache.
  std::string trouble;  // Why the tier is read-only or offline. Empty: it works.
};

// One tier.
struct TierStats {
  std::string name;    // "device". Empty: this tier does not exist.
  Bytes capacity = 0;  // 0: no capacity (preset seed).
  // Live entries, removed entries that are still leased, and reservations in flight.
  Bytes bytes = 0;
  Bytes held = 0;      // Physical memory taken from the device, including slack.
  Bytes slack = 0;     // The part of `held` that no entry uses.
  Bytes overhead = 0;  // Further memory taken: driver contexts, registrations.
  Bytes others = 0;    // Memory held by other processes, by the last reading.
  Bytes total = 0;     // By the last reading; 0 before the first.
  Bytes free = 0;      // By the last reading.
  Bytes reserve = 0;   // Kept free for other processes.
  // Also kept free: memory freed for processes that asked and have not allocated it yet.
  Bytes granted = 0;
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Level level = Level::kRelaxed;
  TimePoint level_since;
  std::uint64_t level_changes = 0;
  // The level stands because no lower tier has room for copies of what it should make clean.
  // Nothing is destroyed for them.
  bool no_room_below = false;
  std::uint64_t entries = 0;  // Entries with a copy in this tier.
  Bytes clean = 0;            // The part of `bytes` with a copy in a lower tier: clean bytes.
  Bytes clean_chunks = 0;     // The part of `held` in chunks that hold only clean bytes.
  // Failed copies into this tier; of the disk tier, also failed reads.
  std::uint64_t failed_moves = 0;
  Bytes copied_down = 0;  // Bytes copied into this tier from a higher one.
  Bytes copied_up = 0;    // Bytes copied into this tier from a lower one.
  // Copies removed from this tier (or copied down, for kBack), by action: how many and their bytes.
  std::array<std::uint64_t, kActions> removed_by_action{};
  std::array<Bytes, kActions> removed_bytes_by_action{};
  FileStats files;  // Disk tier only.
};

// A process that holds memory of the device.
struct DeviceProcess {
  std::uint64_t pid = 0;  // As that process numbers itself: containers may do so differently.
  Bytes bytes = 0;
};

// Copies between tiers.
struct TransferStats {
  Bytes bytes_down = 0;
  Bytes bytes_up = 0;
  std::uint64_t fetches = 0;  // Gets that waited for a copy from a lower tier.
  std::uint64_t fetches_failed = 0;
  std::uint64_t promoted = 0;
  std::uint64_t prefetched = 0;
  // Bytes prefetched for a step graph, and what became of them: read after arrival (useful),
  // requested while still in flight (late), removed or cancelled unread (wasted). The rest is still
  // unread.
  Bytes ahead_bytes = 0;
  Bytes ahead_useful_bytes = 0;
  Bytes ahead_late_bytes = 0;
  Bytes ahead_wasted_bytes = 0;
  std::uint64_t cancelled = 0;
  // Copies whose checksum did not match. They are never returned to a reader.
  std::uint64_t corrupt = 0;
  std::uint64_t scrubbed = 0;
  std::uint64_t in_flight = 0;  // Copies in flight now.
  // Now: bytes of staging buffers, which belong to no tier, lent to readers.
  Bytes staging_bytes = 0;
};

// A pressure source and how well its readings work.
struct SourceStats {
  std::string name;                // "card:demo", "nvml:0000:1b:00.0"
  std::optional<Reading> reading;  // The last successful reading.
  Duration age{};                  // Age of that reading.
  bool watched = false;            // True between Start and Stop. Otherwise the fields below are 0.
  bool hung = false;               // A call to the source is late and has not returned.
  std::uint64_t reads = 0;
  std::uint64_t failures = 0;
  std::uint64_t hangs = 0;
  Duration cost{};         // Duration of the last call.
  Duration wait{};         // Time from one call to the next.
  std::string last_error;  // Empty: the last reading succeeded.
  // When other processes last began to take memory (1/64 of it or more): time of the first reading
  // that showed it, in microseconds of Unix time. 0: never.
  std::int64_t others_rose_unix_us = 0;
};

// The ask socket: other processes ask there for memory of a shared device.
struct AskStats {
  std::string socket;   // Path of the socket. Empty: there is none.
  std::string trouble;  // Why the socket could not be opened, although settings ask for it.
  std::uint64_t asks = 0;
  Bytes freed = 0;           // Bytes freed for these requests.
  std::uint64_t errors = 0;  // Refused connections and malformed requests.
};

// Device memory given back on request, by the ask socket or by Reclaim. Times run from the request
// until the last byte was free.
struct GiveBackStats {
  static constexpr std::array<double, 10> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02,
                                                     0.05,  0.1,   0.5,   1,    5};
  // Requests per time range; the last element counts those above the last bound.
  std::array<std::uint64_t, kBounds.size() + 1> within{};
  std::uint64_t count = 0;
  Bytes bytes = 0;
  Duration total{};
  Duration last{};
};

// What the policy "score" has learned. All 0 with other policies.
struct ScoreStats {
  bool in_use = false;           // The policy is "score".
  bool active = false;           // Its own order is in force; false: it falls back to LRU.
  std::uint64_t returns = 0;     // Repeated uses it has learned from.
  std::uint64_t remembered = 0;  // Keys it remembers whose entries are gone, now.
  std::uint64_t fallbacks = 0;   // Times LRU performed better and became the order in force.
  // Gets and sets of keys whose entries were gone but still remembered.
  std::uint64_t ghost_hits = 0;
  // Inserts that admission placed in a lower tier, because entries in the device tier were worth
  // more.
  std::uint64_t sent_below = 0;
  // Seconds to compute one token again. From the cost that clients declared; before that, that of
  // an 8B model on an H200 (32 K tokens in 1.4 s).
  double prefill_s = 43e-6;
};

// Recording of Options::trace.
struct TraceStats {
  std::string file;            // Empty: no trace is recorded.
  std::uint64_t requests = 0;  // Lines written.
  // Requests not recorded: the file could not be written or memory ran out.
  std::uint64_t lost = 0;
};

// The whole cache.
struct Stats {
  std::uint64_t entries = 0;
  Tokens tokens = 0;
  std::uint64_t leases = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t sets = 0;
  std::uint64_t refused_blocked = 0;
  std::uint64_t refused_budget = 0;
  std::uint64_t refused_other = 0;  // Too large, bad argument or no memory.
  std::uint64_t level_changes = 0;
  std::uint64_t samples = 0;
  // Readings that failed. Watch this number: without readings the cache cannot see pressure.
  std::uint64_t samples_failed = 0;
  std::uint64_t reservations = 0;  // Sets that have reserved memory and are not yet visible.
  Bytes index_bytes = 0;  // Host memory of the index: slots, records, hash table and names.
  // Entries and bytes removed, by reason and by action.
  std::array<std::uint64_t, kReasons> removed_by_reason{};
  std::array<Bytes, kReasons> removed_bytes_by_reason{};
  std::array<std::uint64_t, kActions> removed_by_action{};
  // Of these, entries lost: their last copy was destroyed, though they had not expired and nothing
  // erased, replaced or cleared them. By reason.
  std::array<std::uint64_t, kReasons> destroyed_by_reason{};
  std::array<Bytes, kReasons> destroyed_bytes_by_reason{};
  TierStats device;
  // The device hands out memory in slabs; returning a slab waits for kernels that use it.
  bool device_slabs = false;
  TierStats host;
  TierStats disk;
  TransferStats moves;
  bool loading = false;  // The disk tier is still reading its files after open.
  SourceStats source;    // Of the device tier.
  SourceStats host_source;
  SourceStats disk_source;
  AskStats ask;
  GiveBackStats give_back;
  ScoreStats score;
  TraceStats trace;
};

}  // namespace spillway
