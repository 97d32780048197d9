// The daemon's state, apart from any socket: the cache, the databases' sizes, the
// clients, what is counted. Commands run one after another, whichever thread
// their clients are served by: `commands` is held by who runs them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cache/direct.h"
#include "server/caption.h"
#include "server/db_key.h"
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

class State {
 public:
  // `cache` was opened with `events` as its listener.
  class Events;
  State(Config config, Cache* cache, std::shared_ptr<Events> events);

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

  // --- databases ---

  std::size_t SizeOf(int db) const;
  void CountNew(int db);
  void CountAll();  // After the disk has been read in.

  // --- what is under `commands` ---

  std::mutex commands;
  Settings settings;
  std::map<std::uint64_t, Session*> clients;
  std::deque<SlowCommand> slow;
  std::int64_t slow_next = 0;
  std::vector<CommandCounts> counts;  // By the table's numbers.
  std::string config_file;

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
  std::atomic<std::uint64_t> connected{0};
  std::atomic<int> in_flight{0};      // Submits whose completion will be posted.
  std::atomic<bool> any_kill{false};  // CLIENT KILL has named somebody.
  Caption caption;                    // What the demo says of it.
  const std::int64_t started_unix_ms;
  const std::string run_id;

  // Erases the other halves of LMCache pairs of which one was evicted. Under
  // `commands`.
  void ErasePairs();

 private:
  void MeasureOffset();

  Cache* const cache_;
  Direct direct_;
  const std::shared_ptr<Events> events_;
  std::atomic<std::int64_t> offset_ns_{0};  // Unix time less the cache's clock.
  std::atomic<std::uint64_t> last_client_{0};
  TimePoint last_time_;
};

// What the cache tells while it works, on its strand: kept short, and looked at
// later.
class State::Events {
 public:
  // For Options::on_event.
  void Hear(const Event& event);

  std::array<std::atomic<std::int64_t>, kDatabases> live{};  // But database 0.
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
