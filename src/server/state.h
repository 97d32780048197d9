// SPDX-License-Identifier: Apache-2.0
// The daemon's state, apart from any socket: the cache, the
// clients, what is counted. Commands run one after another, whichever thread
// their clients are served by: `commands` is held by who runs them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/direct.h"
#include "server/announced.h"
#include "server/aside.h"
#include "server/db_key.h"
#include "server/key_locks.h"
#include "server/session.h"
#include "server/settings.h"
#include "spillway/cache.h"
#include "spillway/step_graph.h"

namespace spillway::server {

struct SlowCommand {
  std::int64_t id = 0;
  std::int64_t unix_seconds = 0;
  std::int64_t microseconds = 0;
  std::vector<std::string> words;  // Never a value: its size.
  std::string address;
  std::string name;
};

struct CommandCounts {
  std::uint64_t calls = 0;
  std::uint64_t microseconds = 0;
  std::uint64_t rejected = 0;
  std::uint64_t failed = 0;
};

// How long reads took, as a histogram: from the start of a command to its reply, with its waits for
// a lower tier. Under `commands`.
struct ReadTimes {
  static constexpr std::array<double, 14> kBounds = {
      50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 500e-3, 1, 5};
  std::array<std::uint64_t, kBounds.size() + 1> within{};  // Each its own bucket only.
  double seconds = 0;

  void Add(double took) {
    ++within.at(
        static_cast<std::size_t>(std::ranges::lower_bound(kBounds, took) - kBounds.begin()));
    seconds += took;
  }
};

class State {
 public:
  // `cache` was opened with `events` as its listener, and with GroupOfKey.
  class Events;
  // Nanoseconds of Unix time. EXPIREAT speaks of it, so programs take the system's
  // clock; the server simulator brings a virtual one.
  using WallClock = std::int64_t (*)(const void* context);
  State(Config config, Cache* cache, std::shared_ptr<Events> events, WallClock wall = nullptr,
        const void* wall_context = nullptr);

  Cache& cache() { return *cache_; }
  Direct& direct() { return direct_; }
  // What SPILL.GRAPH tells: the cache's own, attached when it is first asked for.
  std::shared_ptr<StepGraph> graph() { return cache_->step_graph(); }

  // --- time ---

  // Unix time in milliseconds, on the line that deadlines are on: it does not
  // jump when somebody sets the clock, but follows.
  std::int64_t UnixMs();
  std::int64_t ToUnixMs(TimePoint deadline) const;
  // Beyond the year 2262 is the end of that.
  TimePoint FromUnixMs(std::int64_t unix_ms) const;

  // Microseconds since it was last asked, which is when the last command ended or
  // this round of requests began: commands run one after another, so one reading
  // of the clock each will do. Under `commands`.
  std::int64_t TimeSinceLast();
  TimePoint last_time() const { return last_time_; }  // Of the last TimeSinceLast.

  // --- databases ---

  // Each is a group of the cache's keys, which counts them where they enter and leave.
  std::array<Index::Count, kDatabases> CountDatabases() { return direct_.CountGroups(); }
  std::size_t SizeOf(int db) { return direct_.CountOf(static_cast<std::uint8_t>(db)).entries; }

  // --- what is under `commands` ---

  std::mutex commands;
  Settings settings;
  std::map<std::uint64_t, Session*> clients;
  std::deque<SlowCommand> slow;
  std::int64_t slow_next = 0;
  std::vector<CommandCounts> counts;  // By the table's numbers.
  std::string config_file;
  KeyLocks key_locks;
  std::minstd_rand random;  // Of RANDOMKEY; seeded anew by the server simulator.
  // Values in memory of no tier hold so much; at most bulk_max, or one of them.
  const Aside::Held aside = std::make_shared<std::atomic<Bytes>>(0);

  // Entries of LMCache that EXISTS said yes for, a moment ago.
  Announced announced;

  // How often a database was emptied.
  std::uint64_t FlushesOf(int db) const { return flushes_[static_cast<std::size_t>(db)]; }
  void NoteFlush(int db) { ++flushes_[static_cast<std::size_t>(db)]; }

  // Room for values whose bytes come too slowly (RoomPace) goes to writes that have none.
  // True: some is being given up now.
  bool ReclaimStalledRoom();
  // The same for a write that has waited for as long as room may stall, although more is being
  // made.
  void ReclaimFor(const Session& waits) {
    const WaitBound& bound = waits.suspended.bound;
    const bool for_long = bound.began() && direct_.Now() - bound.since >= RoomPace::kWithin;
    if (for_long) static_cast<void>(ReclaimStalledRoom());
  }

  // --- any thread ---

  std::uint64_t next_client() { return ++last_client_; }
  struct Counters {
    std::atomic<std::uint64_t> connections{0};
    std::atomic<std::uint64_t> refused_connections{0};
    std::atomic<std::uint64_t> commands{0};
    std::atomic<std::uint64_t> errors{0};
    std::atomic<std::uint64_t> net_in{0};
    std::atomic<std::uint64_t> net_out{0};
    std::atomic<std::uint64_t> dropped_writes{0};
    std::atomic<std::uint64_t> refused_writes{0};
    std::atomic<std::uint64_t> hits{0};
    std::atomic<std::uint64_t> hit_tokens{0};  // Of values handed to clients whole.
    std::atomic<std::uint64_t> misses{0};
    std::atomic<std::uint64_t> closed_slow{0};
    std::atomic<std::uint64_t> pairs_erased{0};
    std::atomic<std::uint64_t> pressure_given{0};
  };
  Counters counters;
  ReadTimes read_times;  // Under `commands`.
  std::atomic<std::uint64_t> connected{0};
  std::atomic<int> in_flight{0};  // Submits whose completion will be posted.
  // The disk tier does not record what is overwritten or erased: writes are refused.
  std::atomic<bool> not_durable{false};
  std::atomic<bool> any_kill{false};  // CLIENT KILL has named somebody.
  // For the server simulator: told of each command when it has been answered, in the
  // order in which commands take effect. Those inside EXEC come before the EXEC.
  std::function<void(const Session& session, std::span<const std::string_view> args, bool failed)>
      on_command;
  const std::int64_t started_unix_ms;
  const std::string run_id;

  // Erases the other halves of LMCache pairs of which one was evicted, and releases what was
  // announced long enough ago. Under `commands`.
  void ErasePairs();

 private:
  void MeasureOffset();
  std::int64_t WallNs() const;

  Cache* const cache_;
  Direct direct_;
  const std::shared_ptr<Events> events_;
  const WallClock wall_;  // Null: the system's.
  const void* const wall_context_;
  std::atomic<std::int64_t> offset_ns_{0};  // Unix time less the cache's clock.
  std::atomic<std::uint64_t> last_client_{0};
  TimePoint last_time_;
  std::array<std::uint64_t, kDatabases> flushes_{};
  TimePoint looked_for_room_;
  bool room_is_given_up_ = false;
};

// What the cache tells while it works, on its strand: kept short, and looked at
// later.
class State::Events {
 public:
  // For Options::on_event.
  void OnEvent(const Event& event);

  std::atomic<std::uint64_t> evicted{0};
  std::atomic<std::uint64_t> expired{0};
  std::atomic<bool> any_pairs{false};

  std::vector<std::string> TakePairs();

 private:
  static constexpr std::size_t kPairsMax = 65'536;
  std::mutex mutex_;
  std::vector<std::string> pairs_;
};

}  // namespace spillway::server
