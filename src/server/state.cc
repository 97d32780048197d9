#include "server/state.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "server/command.h"
#include "server/lmcache_key.h"

namespace spillway::server {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

std::int64_t WallNs() {
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

void State::Events::Hear(const Event& event) {
  if (event.action != Action::kDestroy && event.action != Action::kExpire) return;
  if (event.reason == Reason::kReplaced) return;
  if (event.key.size() >= 2 && event.key[0] == kDbMark) {
    const int db = DbKeyOf(event.key).db;
    if (db > 0) live[static_cast<std::size_t>(db)].fetch_sub(1, std::memory_order_relaxed);
  }
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

State::State(Config config, Cache* cache, std::shared_ptr<Events> events)
    : settings(std::move(config.server)),
      started_unix_ms(WallNs() / kNsPerMs),
      run_id(RandomId()),
      cache_(cache),
      direct_(cache),
      events_(std::move(events)) {
  counts.resize(CommandCount());
  MeasureOffset();
}

// A whole number of milliseconds, so that a deadline given in them comes back as
// it was.
void State::MeasureOffset() {
  const std::int64_t offset = WallNs() - direct_.Now().time_since_epoch().count();
  offset_ns_.store(offset / kNsPerMs * kNsPerMs, std::memory_order_relaxed);
}

std::int64_t State::UnixMs() {
  constexpr std::int64_t kStep = 1'000'000'000;  // More than drift: somebody set the clock.
  const std::int64_t line =
      direct_.Now().time_since_epoch().count() + offset_ns_.load(std::memory_order_relaxed);
  if (std::abs(WallNs() - line) < kStep) return line / kNsPerMs;
  MeasureOffset();
  return WallNs() / kNsPerMs;
}

std::int64_t State::ToUnixMs(TimePoint deadline) const {
  const std::int64_t at = deadline.time_since_epoch().count();
  return at / kNsPerMs + offset_ns_.load(std::memory_order_relaxed) / kNsPerMs;
}

TimePoint State::FromUnixMs(std::int64_t unix_ms) const {
  const std::int64_t ms = unix_ms - offset_ns_.load(std::memory_order_relaxed) / kNsPerMs;
  constexpr std::int64_t kMost = TimePoint::max().time_since_epoch().count() / kNsPerMs - 1;
  return TimePoint(Duration(std::clamp(ms, -kMost, kMost) * kNsPerMs));
}

std::int64_t State::TimeSinceLast() {
  const TimePoint now = direct_.Now();
  const Duration took = now - last_time_;
  last_time_ = now;
  return std::chrono::duration_cast<std::chrono::microseconds>(took).count();
}

std::size_t State::SizeOf(int db) const {
  const auto in = [&](int i) {
    return static_cast<std::size_t>(std::max<std::int64_t>(
        0, events_->live[static_cast<std::size_t>(i)].load(std::memory_order_relaxed)));
  };
  if (db != 0) return in(db);
  std::size_t others = 0;
  for (int i = 1; i < kDatabases; ++i) others += in(i);
  const std::size_t all = cache_->size();
  return all > others ? all - others : 0;
}

void State::CountNew(int db) {
  if (db != 0) events_->live[static_cast<std::size_t>(db)].fetch_add(1, std::memory_order_relaxed);
}

void State::CountAll() {
  std::array<std::int64_t, kDatabases> found{};
  std::uint64_t cursor = 0;
  do {
    cursor = direct_.Scan(cursor, 1024, [&](std::string_view key) {
      ++found[static_cast<std::size_t>(DbKeyOf(key).db)];
    });
  } while (cursor != 0);
  for (std::size_t i = 0; i < found.size(); ++i) events_->live[i].store(found[i]);
}

void State::ErasePairs() {
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
