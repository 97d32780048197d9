// The MoveLog says what moved and why, exactly once each: to the listener, to
// the counters, and into a ring of the latest moves that `explain` reads.
// Strand only, except the counters' readers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cache/tier_id.h"
#include "spillway/cache.h"
#include "spillway/event.h"
#include "spillway/stats.h"

namespace spillway {

class MoveLog {
 public:
  // What is remembered of a move: enough to say why, not the key.
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
    TierId tier = TierId::kDevice;  // Where it left.
  };
  static constexpr std::size_t kTraces = 1 << 16;
  // A copy that came up, for the journey of its key.
  struct Arrival {
    std::uint64_t hash = 0;
    TimePoint at;
    std::uint64_t generation = 0;
    Bytes bytes = 0;
    TierId from = TierId::kHost;
    TierId to = TierId::kDevice;
  };
  static constexpr std::size_t kArrivals = 1 << 14;

  explicit MoveLog(std::function<void(const Event&)> listener) : listener_(std::move(listener)) {}

  void Moved(const Event& event, TierId tier, std::uint64_t hash, double pressure);
  void Came(const Arrival& arrival);
  // The latest moves of keys with that hash, the newest first.
  std::vector<Trace> Find(std::uint64_t hash, std::size_t most) const;
  // The same with those that came up among them.
  std::vector<Cache::Passage> Journey(std::uint64_t hash, std::size_t most) const;

  // While set, what leaves a tier is also appended here.
  void Collect(std::vector<Departure>* into) { collect_ = into; }

  void CountInto(Stats* stats) const;
  void CountInto(TierId tier, TierStats* stats) const;
  // What has left a tier, ever.
  std::uint64_t left() const { return left_; }

 private:
  const std::function<void(const Event&)> listener_;
  std::vector<Departure>* collect_ = nullptr;
  std::vector<Trace> traces_;  // A ring once it has kTraces.
  std::uint64_t written_ = 0;
  std::uint64_t left_ = 0;
  std::array<std::uint64_t, kReasons> by_reason_{};
  std::array<Bytes, kReasons> bytes_by_reason_{};
  std::array<std::uint64_t, kActions> by_action_{};
  std::array<std::array<std::uint64_t, kActions>, kTiers> tier_by_action_{};
  std::array<std::array<Bytes, kActions>, kTiers> tier_bytes_by_action_{};
  std::vector<Arrival> arrivals_;  // A ring once it has kArrivals.
  std::uint64_t arrived_ = 0;
};

}  // namespace spillway
