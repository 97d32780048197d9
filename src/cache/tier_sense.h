// How one tier's pressure gets to the engine: its source, read by the poller
// between Start and Stop and by hand otherwise, each reading a pass of the
// policy on the strand.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "cache/tier_id.h"
#include "monitor/bounded_read.h"
#include "monitor/poller.h"
#include "spillway/options.h"
#include "spillway/stats.h"

namespace spillway {

class Core;

class TierSense final : private Poller::Client {
 public:
  TierSense(Core* core, TierId tier, std::shared_ptr<PressureSource> source);
  ~TierSense() override;

  void Start(const Options& options);
  void Stop();
  // The source's own word: now, or the last one while the poller watches it,
  // since one that hangs has it.
  Result<Reading> Read();
  void CountInto(SourceStats* stats);

 private:
  class Steps;

  // On the poller's threads: one step of a pass at a time, so that other
  // devices are looked at in between.
  Next OnReading(const Result<Reading>& reading) override;
  Next Continue() override;

  Core* const core_;
  const TierId tier_;
  const std::shared_ptr<PressureSource> source_;
  BoundedReader by_hand_;

  std::mutex watch_mutex_;
  std::unique_ptr<Poller::Watch> watch_;  // Guarded by watch_mutex_.
  std::unique_ptr<Steps> pass_;           // The poller's.

  void NoteOthers(const Reading& reading);

  // The last good reading, and when it was.
  std::mutex reading_mutex_;
  std::optional<Reading> reading_;  // Guarded by reading_mutex_.
  TimePoint read_at_;               // Guarded by reading_mutex_.
  // When others were last seen to take more, and when that began. As above.
  Bytes others_before_ = 0;        // The least since then.
  std::int64_t rise_unix_us_ = 0;  // Of a reading that the next one must confirm; 0: none.
  TimePoint rose_at_;
  std::int64_t rose_unix_us_ = 0;  // 0: never.
};

}  // namespace spillway
