// SPDX-License-Identifier: Apache-2.0
#include "server/state.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/mutant.h"
#include "server/command.h"
#include "server/lmcache_key.h"

namespace spillway::server {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

std::int64_t SystemNs() {
  const auto now = std::chrono::system_clock::now();  // real world: EXPIREAT speaks of it
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
}

std::string RandomId() {
  std::random_device random;  // real world: a name for this run, and nothing else
  std::string id;
  for (int i = 0; i < 5; ++i) id += fmt::format("{:08x}", random());
  return id;
}

}  // namespace

void State::Events::OnEvent(const Event& event) {
  if (event.action != Action::kDestroy && event.action != Action::kExpire) return;
  if (event.reason == Reason::kReplaced) return;
  if (event.reason == Reason::kErased || event.reason == Reason::kCleared) return;
  (event.action == Action::kExpire ? expired : evicted).fetch_add(1, std::memory_order_relaxed);
  if (!event.key.ends_with("metadata") && !event.key.ends_with("kv_bytes")) return;
  const DbKey of = DbKeyOf(event.key);
  const std::string pair = PairOf(of.key);
  if (pair.empty()) return;
  std::string buffer;
  const std::lock_guard lock(mutex_);
  if (pairs_.size() >= kPairsMax) return;
  pairs_.emplace_back(CacheKey(of.db, pair, &buffer));
  any_pairs.store(true, std::memory_order_release);
}

std::vector<std::string> State::Events::TakePairs() {
  const std::lock_guard lock(mutex_);
  any_pairs.store(false, std::memory_order_relaxed);
  return std::exchange(pairs_, {});
}

State::State(Config config, Cache* cache, std::shared_ptr<Events> events, WallClock wall,
             const void* wall_context)
    : settings(std::move(config.server)),
      random(std::random_device{}()),  // real world: any key
      announced(cache, &direct_),
      started_unix_ms((wall == nullptr ? SystemNs() : wall(wall_context)) / kNsPerMs),
      run_id(RandomId()),
      cache_(cache),
      direct_(cache),
      events_(std::move(events)),
      wall_(wall),
      wall_context_(wall_context) {
  // Databases that the cache does not tell apart can't be counted or flushed.
  if (!direct_.groups_by(&GroupOfKey)) {
    fmt::print(stderr, "spillwayd: the cache was opened without GroupOfKey as its key_group\n");
    std::abort();
  }
  counts.resize(CommandCount());
  MeasureOffset();
}

std::int64_t State::WallNs() const { return wall_ == nullptr ? SystemNs() : wall_(wall_context_); }

// The two clocks are read one after the other; the closest of a few readings counts.
void State::MeasureOffset() {
  constexpr int kReadings = 5;
  Duration least = Duration::max();
  for (int i = 0; i < kReadings; ++i) {
    const TimePoint before = direct_.Now();
    const std::int64_t wall = WallNs();
    const Duration took = direct_.Now() - before;
    if (took >= least) continue;
    least = took;
    offset_ns_.store(wall - (before + took / 2).time_since_epoch().count(),
                     std::memory_order_relaxed);
  }
}

std::int64_t State::UnixMs() {
  constexpr std::int64_t kStep = 1'000'000'000;  // More than drift: somebody set the clock.
  const std::int64_t line =
      direct_.Now().time_since_epoch().count() + offset_ns_.load(std::memory_order_relaxed);
  if (std::abs(WallNs() - line) < kStep) return line / kNsPerMs;
  MeasureOffset();
  return WallNs() / kNsPerMs;
}

// To the nearest: a deadline that has been on disk comes back by another reading of the
// clocks, a little off.
std::int64_t State::ToUnixMs(TimePoint deadline) const {
  const std::int64_t at = deadline.time_since_epoch().count();
  const std::int64_t offset = offset_ns_.load(std::memory_order_relaxed);
  std::int64_t unix_ns = 0;
  if (__builtin_add_overflow(at, offset, &unix_ns)) return at / kNsPerMs + offset / kNsPerMs;
  return (unix_ns + kNsPerMs / 2) / kNsPerMs;
}

TimePoint State::FromUnixMs(std::int64_t unix_ms) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / kNsPerMs - 1;
  const std::int64_t unix_ns = std::clamp(unix_ms, -kMost, kMost) * kNsPerMs;
  const std::int64_t offset = offset_ns_.load(std::memory_order_relaxed);
  std::int64_t at = 0;
  if (__builtin_sub_overflow(unix_ns, offset, &at)) {
    return unix_ns < 0 ? TimePoint::min() : TimePoint::max() - Duration(kNsPerMs);
  }
  return TimePoint(Duration(at));
}

std::int64_t State::TimeSinceLast() {
  const TimePoint now = direct_.Now();
  const Duration took = now - last_time_;
  last_time_ = now;
  return std::chrono::duration_cast<std::chrono::microseconds>(took).count();
}

bool State::ReclaimStalledRoom() {
  if (MutantOn(Mutant::kUploadHoldsRoom)) return false;
  constexpr Duration kLookEvery = std::chrono::milliseconds(100);
  const TimePoint now = direct_.Now();
  if (now - looked_for_room_ < kLookEvery) return room_is_given_up_;
  looked_for_room_ = now;
  room_is_given_up_ = false;
  for (const auto& [id, session] : clients) {
    const bool room = (session->room || session->aside) && session->room_pace.IsTooSlow(now);
    const bool upload = session->upload && session->upload_pace.IsTooSlow(now);
    if ((!room && !upload) || !session->give_up_room) continue;
    session->give_up_room();
    room_is_given_up_ = true;
  }
  return room_is_given_up_;
}

void State::ErasePairs() {
  announced.Release();
  if (!events_->any_pairs.load(std::memory_order_acquire)) return;
  for (const std::string& key : events_->TakePairs()) {
    // Written anew since: then its own half is there, too.
    std::string buffer;
    const DbKey of = DbKeyOf(key);
    const std::string pair = PairOf(of.key);
    if (direct_.Contains(CacheKey(of.db, pair, &buffer))) continue;
    if (direct_.Erase(key)) counters.pairs_erased.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace spillway::server
