// SPDX-License-Identifier: Apache-2.0
// Brings the pressure of one tier to the engine. Reads its source, by the poller
// between Start and Stop and on demand otherwise; each reading is one pass of the
// policy on the strand.
#pragma once

#include <memory>
#include <optional>

#include "base/mutex.h"
#include "cache/tier_id.h"
#include "monitor/bounded_read.h"
#include "monitor/poller.h"
#include "spillway/options.h"
#include "spillway/stats.h"

namespace spillway {

class Core;

class PressureMonitor final : private Poller::Client {
 public:
  PressureMonitor(Core* core, TierId tier, std::shared_ptr<PressureSource> source);
  ~PressureMonitor() override;

  void Start(const Options& options);
  void Stop();
  // Reads the source. While the poller watches the source, returns the last good
  // reading: the source may hang in a read.
  Result<Reading> Read();
  void CountInto(SourceStats* stats);

 private:
  class Steps;

  // Called on the poller's threads. Runs one step of a pass at a time, so that other
  // devices are read in between.
  Next OnReading(const Result<Reading>& reading) override;
  Next Continue() override;

  Core* const core_;
  const TierId tier_;
  const std::shared_ptr<PressureSource> source_;
  BoundedReader by_hand_;

  Mutex watch_mutex_;
  std::unique_ptr<Poller::Watch> watch_ SPILLWAY_GUARDED_BY(watch_mutex_);
  std::unique_ptr<Steps> pass_;  // Poller threads only.

  void NoteOthers(const Reading& reading) SPILLWAY_REQUIRES(reading_mutex_);

  // The last good reading, and when it was taken.
  Mutex reading_mutex_;
  std::optional<Reading> reading_ SPILLWAY_GUARDED_BY(reading_mutex_);
  TimePoint read_at_ SPILLWAY_GUARDED_BY(reading_mutex_);
  // When others were last seen to take more memory, and when that rise began.
  Bytes others_before_ SPILLWAY_GUARDED_BY(reading_mutex_) =
      0;  // Bytes of others; the least since then.
  // Of a rise that the next reading must confirm; 0: none.
  std::int64_t rise_unix_us_ SPILLWAY_GUARDED_BY(reading_mutex_) = 0;
  TimePoint rose_at_ SPILLWAY_GUARDED_BY(reading_mutex_);
  std::int64_t rose_unix_us_ SPILLWAY_GUARDED_BY(reading_mutex_) = 0;  // 0: never.
};

}  // namespace spillway
