#include "monitor/poller.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/quiet_thread.h"

namespace spillway {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(1);
constexpr int kListenMs = 500;  // Then a listener looks whether it is still wanted.
constexpr Duration kShortestWatch = std::chrono::milliseconds(5);

TimePoint Now() { return TimePoint(Clock::now().time_since_epoch()); }

Clock::time_point Real(TimePoint at) { return Clock::time_point(at.time_since_epoch()); }

}  // namespace

// Shared with the threads, which may outlive the Poller if a source hangs.
class Poller::State : public std::enable_shared_from_this<State> {
 public:
  struct Watched {
    Watched(std::shared_ptr<PressureSource> from, const Settings& with, Client* whom)
        : source(std::move(from)), settings(with), client(whom), pace(with.pace) {}

    const std::shared_ptr<PressureSource> source;
    const Settings settings;
    Client* const client;
    Pace pace;
    // All guarded by the mutex.
    TimePoint due;         // The next reading.
    TimePoint more_since;  // While `more`.
    TimePoint began;       // Of the call that is out.
    bool reading = false;  // A source's call is out,
    bool telling = false;  // or the client's.
    bool more = false;     // The client wants to continue.
    bool removed = false;
    Account account;

    TimePoint turn() const { return more ? more_since : due; }
  };
  using Entry = std::shared_ptr<Watched>;

  void Add(const Entry& watched) {
    const std::lock_guard lock(mutex_);
    watched->due = Now();
    watched_.push_back(watched);
    EnsureThreads();
    if (!worker_ && !watchdog_) throw std::bad_alloc();  // Nobody would ever look.
    if (watched->source->wake_fd() >= 0) {
      // Without a thread to be had it is read at its pace.
      Spawn("spillway-wake", [watched](State& state) { state.Listen(watched); });
    }
    changed_.notify_all();
  }

  void Remove(const Entry& watched) {
    std::unique_lock lock(mutex_);
    watched->removed = true;
    watched_.remove(watched);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !watched->telling; });
    changed_.wait_for(lock, kPatience,  // real world: a hung call is left behind
                      [&] { return !watched->reading; });
  }

  Account AccountOf(const Watched& watched) const {
    const std::lock_guard lock(mutex_);
    return watched.account;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  template <typename Run>
  bool Spawn(const char* name, Run&& run) {
    try {
      QuietThread([self = shared_from_this(), name, run] {
        pthread_setname_np(pthread_self(), name);
        run(*self);
      }).detach();
      return true;
    } catch (const std::system_error&) {
      return false;  // No thread to be had now: the watchdog tries again.
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void EnsureThreads() {
    if (!worker_) SpawnWorker();
    if (!watchdog_) {
      watchdog_ = Spawn("spillway-watch", [](State& state) { state.Guard(); });
    }
  }

  void SpawnWorker() {
    const std::uint64_t number = ++worker_number_;
    worker_ = Spawn("spillway-poll", [number](State& state) { state.Work(number); });
  }

  // --- the worker ---

  void Work(std::uint64_t number) {
    Lock lock(mutex_);
    while (number == worker_number_) {
      if (watched_.empty()) {
        worker_ = false;
        return;
      }
      const Entry next = Earliest();
      if (next == nullptr) {
        changed_.wait(lock);
      } else if (next->turn() > Now()) {
        changed_.wait_until(lock, Real(next->turn()));  // real world: paces the readings
      } else if (next->more) {
        Tell(lock, *next, [&] { return next->client->Continue(); });
      } else {
        ReadAndTell(lock, number, *next);
      }
    }
  }

  Entry Earliest() const {
    Entry earliest;
    for (const Entry& one : watched_) {
      if (one->reading || one->telling) continue;
      if (earliest == nullptr || one->turn() < earliest->turn()) earliest = one;
    }
    return earliest;
  }

  void ReadAndTell(Lock& lock, std::uint64_t number, Watched& watched) {
    watched.reading = true;
    watched.began = Now();
    lock.unlock();
    const Result<Reading> reading = Read(*watched.source);
    lock.lock();
    watched.reading = false;
    watched.account.hung = false;
    changed_.notify_all();
    if (watched.removed) return;
    const TimePoint now = Now();
    watched.account.cost = now - watched.began;
    if (number != worker_number_) {
      // It hung, and was told so. What it says now may be old: ask again.
      watched.due = now;
      return;
    }
    Note(watched, reading, now);
    Tell(lock, watched, [&] { return watched.client->OnReading(reading); });
  }

  static Result<Reading> Read(PressureSource& source) {
    try {
      return source.Read();
    } catch (const std::bad_alloc&) {
      return Error{Code::kNoMemory, "no memory"};
    }
  }

  static void Note(Watched& watched, const Result<Reading>& reading, TimePoint now) {
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

  template <typename Call>
  void Tell(Lock& lock, Watched& watched, Call&& call) {
    watched.telling = true;
    lock.unlock();
    const Client::Next next = call();
    lock.lock();
    watched.telling = false;
    watched.more = next == Client::Next::kMore;
    const TimePoint now = Now();
    if (watched.more) {
      watched.more_since = now;
    } else if (next == Client::Next::kAgain) {
      watched.due = std::min(watched.due, now + watched.pace.AfterActing());
    }
    // Whoever ends the watch waits for this, and so does the worker when it was
    // the watchdog that told.
    changed_.notify_all();
  }

  // --- sources that call ---

  // Reads a source at once when its descriptor says so.
  void Listen(const Entry& watched) {
    for (;;) {
      pollfd waiting{watched->source->wake_fd(), POLLPRI, 0};
      const int said = poll(&waiting, 1, kListenMs);
      Lock lock(mutex_);
      if (watched->removed || (waiting.revents & (POLLERR | POLLNVAL)) != 0) return;
      if (said <= 0) continue;
      const TimePoint now = Now();
      watched->due = std::min(watched->due, now);
      changed_.notify_all();
      lock.unlock();
      // One that never falls silent is heard at a fast pace, no faster.
      std::this_thread::sleep_for(watched->settings.pace.near);  // real world: it calls for real
    }
  }

  // --- the watchdog ---

  void Guard() {
    Lock lock(mutex_);
    while (!watched_.empty()) {
      Duration shortest = std::chrono::seconds(1);
      for (const Entry& one : watched_) shortest = std::min(shortest, one->settings.deadline);
      // Real world: only time tells that a call does not return.
      guard_changed_.wait_for(lock, std::max(shortest, kShortestWatch));
      const Entry late = Late();
      if (late != nullptr) {
        ++late->account.hangs;
        late->account.hung = true;
        SpawnWorker();
        TellLate(lock, *late);
      } else if (!worker_ && !watched_.empty()) {
        SpawnWorker();
      }
    }
    watchdog_ = false;
  }

  Entry Late() const {
    const TimePoint now = Now();
    for (const Entry& one : watched_) {
      if (one->reading && !one->account.hung && now - one->began > one->settings.deadline) {
        return one;
      }
    }
    return nullptr;
  }

  void TellLate(Lock& lock, Watched& watched) {
    Result<Reading> none = Error{Code::kDeadline, "no answer"};  // Needs no memory.
    try {
      none = Error{Code::kDeadline,
                   fmt::format("{}: no answer for {}; the call is still out",
                               watched.source->name(), FormatDuration(watched.settings.deadline))};
    } catch (const std::bad_alloc&) {
      ++watched.account.failures;
    }
    Note(watched, none, Now());
    Tell(lock, watched, [&] {
      Client::Next next = watched.client->OnReading(none);
      while (next == Client::Next::kMore) next = watched.client->Continue();
      return next;
    });
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable guard_changed_;  // Nobody notifies it: the watchdog only sleeps.
  std::list<Entry> watched_;
  std::uint64_t worker_number_ = 0;  // Of the one that works; others have been replaced.
  bool worker_ = false;
  bool watchdog_ = false;
};

class Poller::WatchImpl final : public Watch {
 public:
  WatchImpl(std::shared_ptr<State> state, State::Entry watched)
      : state_(std::move(state)), watched_(std::move(watched)) {}
  // Both know of one another before anything can fail halfway.
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
