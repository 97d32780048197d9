// SPDX-License-Identifier: Apache-2.0
// The TransferLog records each eviction, demotion and copy exactly once: to the listener,
// in the counters, and in a ring of the latest events that `explain` reads. Strand
// only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cache/loss_log.h"
#include "cache/tier_id.h"
#include "spillway/cache.h"
#include "spillway/event.h"
#include "spillway/stats.h"

namespace spillway {

class TransferLog {
 public:
  // What is kept of an event: enough to say why it happened, without the key.
  struct Trace {
    std::uint64_t hash = 0;
    TimePoint at;
    std::uint64_t generation = 0;
    Bytes bytes = 0;
    std::uint32_t tokens = 0;  // At most kTokensMax.
    float pressure = 0;
    Action action = Action::kDestroy;
    Reason reason = Reason::kErased;
    Level level = Level::kRelaxed;
    TierId tier = TierId::kDevice;  // The tier whose copy was evicted or copied.
  };
  static constexpr std::size_t kTraces = 1 << 16;
  // A copy that came up, for the history of its key.
  struct Arrival {
    std::uint64_t hash = 0;
    TimePoint at;
    std::uint64_t generation = 0;
    Bytes bytes = 0;
    TierId from = TierId::kHost;
    TierId to = TierId::kDevice;
  };
  static constexpr std::size_t kArrivals = 1 << 14;

  explicit TransferLog(std::function<void(const Event&)> listener)
      : listener_(std::move(listener)) {}

  void Moved(const Event& event, TierId tier, std::uint64_t hash, double pressure);
  void Came(const Arrival& arrival);
  // The latest events of keys with that hash, newest first.
  std::vector<Trace> Find(std::uint64_t hash, std::size_t most) const;
  // The same, merged with the copies that came up.
  std::vector<Cache::Transition> History(std::uint64_t hash, std::size_t most) const;

  // Where destroyed last copies are reported; null: nowhere. Borrowed.
  void TellLosses(LossLog* to) { losses_ = to; }

  // While set, every eviction is also appended here.
  void Collect(std::vector<Eviction>* into) { collect_ = into; }

  void CountInto(Stats* stats) const;
  void CountInto(TierId tier, TierStats* stats) const;
  // Evictions and removals so far.
  std::uint64_t left() const { return left_; }

 private:
  const std::function<void(const Event&)> listener_;
  std::vector<Eviction>* collect_ = nullptr;
  LossLog* losses_ = nullptr;
  std::vector<Trace> traces_;  // A ring once it has kTraces.
  std::uint64_t written_ = 0;
  std::uint64_t left_ = 0;
  std::array<std::uint64_t, kReasons> by_reason_{};
  std::array<Bytes, kReasons> bytes_by_reason_{};
  std::array<std::uint64_t, kActions> by_action_{};
  std::array<std::uint64_t, kReasons> destroyed_{};  // Last copies, not asked for (IsLoss).
  std::array<Bytes, kReasons> destroyed_bytes_{};
  std::array<std::array<std::uint64_t, kActions>, kTiers> tier_by_action_{};
  std::array<std::array<Bytes, kActions>, kTiers> tier_bytes_by_action_{};
  std::vector<Arrival> arrivals_;  // A ring once it has kArrivals.
  std::uint64_t arrived_ = 0;
};

}  // namespace spillway
