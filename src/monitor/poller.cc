// SPDX-License-Identifier: Apache-2.0
#include "monitor/poller.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <list>
#include <new>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/parse.h"
#include "base/quiet_thread.h"

namespace spillway {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(1);
constexpr int kListenMs = 500;  // After this a listener checks whether it is still needed.
constexpr Duration kShortestWatch = std::chrono::milliseconds(5);

TimePoint Now() { return TimePoint(Clock::now().time_since_epoch()); }

Clock::time_point Real(TimePoint at) { return Clock::time_point(at.time_since_epoch()); }

}  // namespace

// Shared with the threads, which outlive the Poller if a source hangs.
class Poller::State : public std::enable_shared_from_this<State> {
 public:
  // One source that is being watched.
  struct Watched {
    Watched(std::shared_ptr<PressureSource> from, const Settings& with, Client* whom)
        : source(std::move(from)), settings(with), client(whom), pace(with.pace) {}

    const std::shared_ptr<PressureSource> source;
    const Settings settings;
    Client* const client;
    Pace pace;
    // Needs State::mutex_. (Clang is not told: it takes that for another object's. The
    // functions below say which of them need it.)
    TimePoint due;         // The next reading.
    TimePoint more_since;  // While `more`.
    TimePoint began;       // Start of the call that is running.
    bool reading = false;  // A call of the source is running,
    bool telling = false;  // or one of the client.
    bool more = false;     // The client wants Continue.
    bool removed = false;
    Account account;

    // When the worker should next read or continue.
    TimePoint turn() const { return more ? more_since : due; }
  };
  using Entry = std::shared_ptr<Watched>;

  void Add(const Entry& watched) {
    const MutexLock lock(mutex_);
    watched->due = Now();
    watched_.push_back(watched);
    EnsureThreads();
    if (!worker_ && !watchdog_) throw std::bad_alloc();  // No thread would ever read it.
    if (watched->source->wake_fd() >= 0) {
      // Without such a thread the source is read at its pace.
      Spawn("spillway-wake", [watched](State& state) { state.Listen(watched); });
    }
    changed_.notify_all();
  }

  void Remove(const Entry& watched) {
    const MutexLock lock(mutex_);
    watched->removed = true;
    watched_.remove(watched);
    changed_.notify_all();
    while (watched->telling) changed_.wait(mutex_);
    changed_.wait_for(mutex_, kPatience,  // real world: a hung call is left behind
                      [&] { return !watched->reading; });
  }

  Account AccountOf(const Watched& watched) const {
    const MutexLock lock(mutex_);
    return watched.account;
  }

 private:
  template <typename Run>
  bool Spawn(const char* name, Run&& run) {
    try {
      QuietThread([self = shared_from_this(), name, run] {
        pthread_setname_np(pthread_self(), name);
        run(*self);
      }).detach();
      return true;
    } catch (const std::system_error&) {
      return false;  // The system refuses a thread; the watchdog tries again.
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void EnsureThreads() SPILLWAY_REQUIRES(mutex_) {
    if (!worker_) SpawnWorker();
    if (!watchdog_) {
      watchdog_ = Spawn("spillway-watch", [](State& state) { state.Guard(); });
    }
  }

  // A new worker gets a new number; a stuck one sees that it was replaced and ends.
  void SpawnWorker() SPILLWAY_REQUIRES(mutex_) {
    const std::uint64_t number = ++worker_number_;
    worker_ = Spawn("spillway-poll", [number](State& state) { state.Work(number); });
  }

  // --- the worker ---

  void Work(std::uint64_t number) {
    const MutexLock lock(mutex_);
    while (number == worker_number_) {
      if (watched_.empty()) {
        worker_ = false;
        return;
      }
      const Entry next = Earliest();
      if (next == nullptr) {
        changed_.wait(mutex_);
      } else if (next->turn() > Now()) {
        changed_.wait_until(mutex_, Real(next->turn()));  // real world: paces the readings
      } else if (next->more) {
        Tell(*next, [&] { return next->client->Continue(); });
      } else {
        ReadAndTell(number, *next);
      }
    }
  }

  // The source whose turn comes first, among those without a running call.
  Entry Earliest() const SPILLWAY_REQUIRES(mutex_) {
    Entry earliest;
    for (const Entry& one : watched_) {
      if (one->reading || one->telling) continue;
      if (earliest == nullptr || one->turn() < earliest->turn()) earliest = one;
    }
    return earliest;
  }

  // Reads a source and reports the reading to its client.
  void ReadAndTell(std::uint64_t number, Watched& watched) SPILLWAY_REQUIRES(mutex_) {
    watched.reading = true;
    watched.began = Now();
    const Result<Reading> reading = Read(*watched.source);
    watched.reading = false;
    watched.account.hung = false;
    changed_.notify_all();
    if (watched.removed) return;
    const TimePoint now = Now();
    watched.account.cost = now - watched.began;
    if (number != worker_number_) {
      // The call hung and was reported as late. Its result may be old: read again.
      watched.due = now;
      return;
    }
    Note(watched, reading, now);
    Tell(watched, [&] { return watched.client->OnReading(reading); });
  }

  // With the mutex released meanwhile.
  Result<Reading> Read(PressureSource& source) SPILLWAY_REQUIRES(mutex_) {
    const MutexUnlock unlock(mutex_);
    try {
      return source.Read();
    } catch (const std::bad_alloc&) {
      return Error{Code::kNoMemory, "no memory"};
    }
  }

  void Note(Watched& watched, const Result<Reading>& reading, TimePoint now)
      SPILLWAY_REQUIRES(mutex_) {
    Account& account = watched.account;
    ++account.reads;
    if (reading) {
      account.last_error.clear();
    } else {
      ++account.failures;
      try {
        account.last_error = reading.error().message;
      } catch (const std::bad_alloc&) {
        account.last_error = "no memory";
      }
    }
    const std::optional<double> pressure =
        reading ? std::optional(reading->pressure()) : std::nullopt;
    account.wait = watched.pace.After(pressure, account.cost, now);
    watched.due = now + account.wait;
  }

  // With the mutex released during the call.
  template <typename Call>
  void Tell(Watched& watched, Call&& call) SPILLWAY_REQUIRES(mutex_) {
    watched.telling = true;
    auto next = Client::Next::kWait;
    {
      const MutexUnlock unlock(mutex_);
      next = call();
    }
    watched.telling = false;
    watched.more = next == Client::Next::kMore;
    const TimePoint now = Now();
    if (watched.more) {
      watched.more_since = now;
    } else if (next == Client::Next::kAgain) {
      watched.due = std::min(watched.due, now + watched.pace.AfterActing());
    }
    // The end of a watch waits for this; so does the worker if the watchdog
    // made the call.
    changed_.notify_all();
  }

  // --- sources that call ---

  // Reads a source at once when its descriptor signals.
  void Listen(const Entry& watched) {
    for (;;) {
      pollfd waiting{watched->source->wake_fd(), POLLPRI, 0};
      const int said = poll(&waiting, 1, kListenMs);
      UniqueLock lock(mutex_);
      if (watched->removed || (waiting.revents & (POLLERR | POLLNVAL)) != 0) return;
      if (said <= 0) continue;
      const TimePoint now = Now();
      watched->due = std::min(watched->due, now);
      changed_.notify_all();
      lock.unlock();
      // A source that signals all the time is read at the fast pace, no faster.
      std::this_thread::sleep_for(watched->settings.pace.near);  // real world: it calls for real
    }
  }

  // --- the watchdog ---

  void Guard() {
    const MutexLock lock(mutex_);
    while (!watched_.empty()) {
      Duration shortest = std::chrono::seconds(1);
      for (const Entry& one : watched_) shortest = std::min(shortest, one->settings.deadline);
      // Real world: only time shows that a call does not return.
      guard_changed_.wait_for(mutex_, std::max(shortest, kShortestWatch));
      const Entry late = Late();
      if (late != nullptr) {
        ++late->account.hangs;
        late->account.hung = true;
        SpawnWorker();
        TellLate(*late);
      } else if (!worker_ && !watched_.empty()) {
        SpawnWorker();
      }
    }
    watchdog_ = false;
  }

  // A source whose call has exceeded its deadline and was not reported yet; null: none.
  Entry Late() const SPILLWAY_REQUIRES(mutex_) {
    const TimePoint now = Now();
    for (const Entry& one : watched_) {
      if (one->reading && !one->account.hung && now - one->began > one->settings.deadline) {
        return one;
      }
    }
    return nullptr;
  }

  void TellLate(Watched& watched) SPILLWAY_REQUIRES(mutex_) {
    Result<Reading> none = Error{Code::kDeadline, "no answer"};  // Needs no memory.
    try {
      none = Error{Code::kDeadline,
                   fmt::format("{}: no answer for {}; the call is still out",
                               watched.source->name(), FormatDuration(watched.settings.deadline))};
    } catch (const std::bad_alloc&) {
      ++watched.account.failures;
    }
    Note(watched, none, Now());
    Tell(watched, [&] {
      Client::Next next = watched.client->OnReading(none);
      while (next == Client::Next::kMore) next = watched.client->Continue();
      return next;
    });
  }

  mutable Mutex mutex_;
  CondVar changed_;
  CondVar guard_changed_;  // Never notified: the watchdog only sleeps.
  std::list<Entry> watched_ SPILLWAY_GUARDED_BY(mutex_);
  // Of the current worker; earlier ones have been replaced.
  std::uint64_t worker_number_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool worker_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool watchdog_ SPILLWAY_GUARDED_BY(mutex_) = false;
};

class Poller::WatchImpl final : public Watch {
 public:
  WatchImpl(std::shared_ptr<State> state, State::Entry watched)
      : state_(std::move(state)), watched_(std::move(watched)) {}
  // Separate from the constructor: Add can fail, and the destructor must undo it.
  void Begin() { state_->Add(watched_); }
  ~WatchImpl() override { state_->Remove(watched_); }
  Account account() const override { return state_->AccountOf(*watched_); }

 private:
  const std::shared_ptr<State> state_;
  const State::Entry watched_;
};

Poller::Poller() : state_(std::make_shared<State>()) {}

Poller::~Poller() = default;

Poller& Poller::Shared() {
  // Never destroyed: its threads may run until the process ends.
  static Poller* const kPoller = new Poller();
  return *kPoller;
}

std::unique_ptr<Poller::Watch> Poller::Add(std::shared_ptr<PressureSource> source,
                                           const Settings& settings, Client* client) {
  auto watch = std::make_unique<WatchImpl>(
      state_, std::make_shared<State::Watched>(std::move(source), settings, client));
  watch->Begin();
  return watch;
}

}  // namespace spillway
