// SPDX-License-Identifier: Apache-2.0
// spillwayd: the cache as a daemon, for programs that speak the Redis protocol.
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/arguments.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/run_dir.h"
#include "base/small_file.h"
#include "cache/capacity_checks.h"
#include "cache/flush.h"
#include "server/dashboard.h"
#include "server/db_key.h"
#include "server/free_ports.h"
#include "server/notify.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/start_log.h"
#include "server/state.h"
#include "server/watching.h"
#include "spillway/version.h"

namespace spillway::server {
namespace {

constexpr std::size_t kConfigBytesMax = 1 << 20;

struct Flags {
  std::string config;
  std::string dir;
  std::string card;
  std::string trace;
  std::string socket;
  std::string for_time;
  std::string port;
  std::string http_port;
  bool has_port = false;
  bool has_http_port = false;
  bool has_socket = false;
  bool demo = false;
};

int Say(const Error& error) {
  fmt::print(stderr, "spillwayd: {}\n", error.message);
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

// `base` has the defaults from the start of the daemon, so that the same file gives the same
// settings when it is read again.
Result<Config> ReadConfig(const Flags& flags, const Config& base) {
  Config config = base;
  if (!flags.config.empty()) {
    const Result<std::optional<std::string>> text = ReadSmallFile(flags.config, kConfigBytesMax);
    if (!text) return text.error();
    if (!*text) {
      return Error{Code::kInvalidArgument, fmt::format("{}: there is no such file", flags.config)};
    }
    Result<Config> read = LoadConfig(**text, flags.config, config);
    if (!read) return read.error();
    config = std::move(*read);
  }
  for (const auto& [given, name, text] :
       {std::tuple{flags.has_port, "port", &flags.port},
        std::tuple{flags.has_http_port, "http_port", &flags.http_port}}) {
    if (!given) continue;
    if (Status ok = FindRow(name)->read(*text, &config.server); !ok) {
      const std::string_view flag = name == std::string_view("port") ? "--port" : "--http-port";
      return Error{Code::kInvalidArgument, fmt::format("{}: {}", flag, ok.error().message)};
    }
  }
  if (!flags.dir.empty()) config.cache.disk_dir = flags.dir;
  if (!flags.card.empty()) {
    config.cache.card = flags.card;
    // A share of the machine's memory may be more than a card that others use; all of the card is
    // its own limit.
    if (config.cache.capacity == base.cache.capacity) config.cache.capacity.reset();
  }
  if (!flags.trace.empty()) config.cache.trace = flags.trace;
  if (flags.has_socket) config.server.socket = flags.socket;
  return config;
}

// <disk_dir>/spillway.sock, else a name with the port in the run directory.
std::string DefaultSocket(const Config& config) {
  if (!config.cache.disk_dir.empty()) return config.cache.disk_dir + "/spillway.sock";
  const Result<std::string> dir = RunDir();
  return dir ? fmt::format("{}/spillway-{}.sock", *dir, config.server.port) : std::string();
}

// How the daemon was started. SIGHUP compares with it.
struct Start {
  Flags flags;
  Config base;  // Before the file and the flags.
  Config config;
};

void Reread(State* state, const Start& start) {
  if (start.flags.config.empty()) {
    LogInfo("SIGHUP: there is no file to read again");
    return;
  }
  NotifyManager("RELOADING=1");
  const Result<Config> read = ReadConfig(start.flags, start.base);
  Result<Reloaded> reloaded = Reloaded();
  std::string_view password;
  if (!read) {
    reloaded = read.error();
  } else {
    const std::lock_guard lock(state->commands);
    const Settings before = state->settings;
    reloaded = Reload(start.config, *read, &state->settings);
    password = PasswordChange(before, state->settings);
  }
  if (!reloaded) {
    LogWarning("SIGHUP: nothing was changed: {}", reloaded.error().message);
  } else {
    LogInfo("SIGHUP: {} was read again; changed: {}", start.flags.config,
            reloaded->changed.empty() ? "nothing"
                                      : fmt::format("{}", fmt::join(reloaded->changed, ", ")));
    if (!password.empty()) LogWarning("SIGHUP: the password was {}", password);
    if (!reloaded->kept.empty()) {
      LogWarning("SIGHUP: these differ from what runs and need a restart: {}",
                 fmt::join(reloaded->kept, ", "));
    }
  }
  NotifyManager("READY=1");
}

// Logs what the disk tier recovered, as soon as it has read all its files.
class TellRecovered {
 public:
  TellRecovered(Server* server, Cache* cache, const Config& config)
      : timer_(server->io()), cache_(cache), config_(config) {
    Look();
  }

 private:
  void Look() {
    const Stats stats = cache_->stats();
    if (const auto line = RecoveredLine(config_, stats)) return LogInfo("{}", *line);
    if (stats.disk.name.empty()) return;
    timer_.expires_after(std::chrono::milliseconds(100));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) Look();
    });
  }

  boost::asio::steady_timer timer_;
  Cache* const cache_;
  const Config& config_;
};

std::string WhereServed(const State& state, const Server& server) {
  const Settings& settings = state.settings;
  std::string where;
  if (settings.port != 0) where = fmt::format("{}:{}", settings.bind, server.port());
  if (settings.port != 0 && !settings.socket.empty()) where += " and ";
  return where + settings.socket;
}

// Signals while the daemon stops: SIGTERM and SIGINT end the flush at once, SIGHUP does nothing.
// Constructed while the running daemon's own handlers are still installed, so that no signal ever
// meets the default action.
class StopSignals {
 public:
  StopSignals() : signals_(io_, SIGTERM, SIGINT, SIGHUP) {}

  // Ignores the signals so far: they were meant for the running daemon.
  void Begin() {
    Listen();
    io_.poll();
    told_ = false;
  }
  bool told() {
    io_.poll();
    return told_;
  }

 private:
  void Listen() {
    signals_.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;
      told_ = told_ || signal != SIGHUP;
      Listen();
    });
  }

  boost::asio::io_context io_;
  boost::asio::signal_set signals_;
  bool told_ = false;
};

// SIGHUP ends a process that has no handler for it. From the moment that clients can connect one
// may come, so it is held from before until the handler is installed, and then delivered. Threads
// that are started meanwhile leave it to the main thread.
class HeldHangUp {
 public:
  HeldHangUp() { Set(SIG_BLOCK); }
  void Deliver() { Set(SIG_UNBLOCK); }

 private:
  static void Set(int how) {
    sigset_t hang_up;
    sigemptyset(&hang_up);
    sigaddset(&hang_up, SIGHUP);
    pthread_sigmask(how, &hang_up, nullptr);
  }
};

// Serves until a signal or `for_time`. Timers and signal sets use the server's loop, so they are
// local here and destroyed before it.
void RunUntilTold(State* state, Server* server, const Start& start, Duration for_time,
                  std::optional<StopSignals>* signals, HeldHangUp* held) {
  boost::asio::signal_set stop(server->io(), SIGTERM, SIGINT);
  stop.async_wait([&](const boost::system::error_code& error, int) {
    if (!error) server->Stop();
  });
  boost::asio::signal_set hang_up(server->io(), SIGHUP);
  std::function<void()> listen = [&] {
    hang_up.async_wait([&](const boost::system::error_code& error, int) {
      if (error) return;
      Reread(state, start);
      listen();
    });
  };
  listen();
  held->Deliver();
  signals->emplace();
  boost::asio::steady_timer end(server->io());
  if (for_time > Duration::zero()) {
    end.expires_after(for_time);
    end.async_wait([&](const boost::system::error_code& error) {
      if (!error) server->Stop();
    });
  }
  for (const std::string& line :
       StartLines(start.config, start.flags.config, state->cache().stats())) {
    LogInfo("{}", line);
  }
  LogInfo("spillwayd: serves Redis on {}", WhereServed(*state, *server));
  const TellRecovered tell(server, &state->cache(), start.config);
  NotifyManager("READY=1");
  server->Run();
  NotifyManager("STOPPING=1");
}

// Logs why entries were not written: failures first, since an operator can act on them.
void SayWhatWasLeft(const Flushed& flushed, Duration within) {
  const auto say = [](const Flushed::Count& count, const std::string& why) {
    if (count.entries == 0) return;
    LogWarning("spillwayd: {} entries ({}) were left: {}", count.entries, FormatBytes(count.bytes),
               why);
  };
  const std::string said = flushed.why_failed.empty() ? "" : ": " + flushed.why_failed;
  say(flushed.failed, "the disk tier failed to write them" + said);
  say(flushed.no_room, "the disk tier has no room" + said);
  const Flushed::Count rest{flushed.entries_left - flushed.failed.entries - flushed.no_room.entries,
                            flushed.bytes_left - flushed.failed.bytes - flushed.no_room.bytes};
  if (within == Duration::zero()) return say(rest, "stop_flush is 0");
  if (flushed.is_stopped) return say(rest, "a second signal ended the flush");
  std::string why = fmt::format("{} (stop_flush) had passed", FormatDuration(within));
  if (!flushed.why_busy.empty())
    why += fmt::format("; the disk tier accepted none: {}", flushed.why_busy);
  say(rest, why);
}

// Writes dirty entries to the disk tier, after the last client was disconnected: without it they
// would be lost.
void Flush(Cache* cache, Duration within, StopSignals* signals) {
  if (cache->stats().disk.name.empty()) return;
  FlushOptions options;
  options.within = within;
  options.stop = [signals] { return signals->told(); };
  options.report = [](const Flushed& so_far) {
    LogInfo("spillwayd: stopping: wrote {} entries ({}), {} ({}) left", so_far.entries,
            FormatBytes(so_far.bytes), so_far.entries_left, FormatBytes(so_far.bytes_left));
    // A service manager does not take a long flush for a hang.
    NotifyManager(
        fmt::format("EXTEND_TIMEOUT_USEC=10000000\nSTATUS=Stopping: {} entries left to "
                    "write to disk",
                    so_far.entries_left));
  };
  signals->Begin();
  const auto began = SystemClock()->Now();
  const Flushed flushed = FlushToDisk(cache, options);
  LogInfo("spillwayd: wrote {} entries ({}) that only memory had, in {}", flushed.entries,
          FormatBytes(flushed.bytes), FormatDuration(SystemClock()->Now() - began));
  SayWhatWasLeft(flushed, within);
}

int Serve(const Start& start, Duration for_time) {
  HeldHangUp held;
  Config config = start.config;
  const Flags& flags = start.flags;
  const auto events = std::make_shared<State::Events>();
  const auto feed = std::make_shared<http::Feed>();
  config.cache.on_event = [events, feed](const Event& event) {
    events->OnEvent(event);
    feed->OnEvent(event);
  };
  config.cache.key_group = &GroupOfKey;
  config.cache.on_level = [feed](const LevelChange& change) { feed->OnEvent(change); };
  if (const Status free = CheckPorts(config.server); !free) return Say(free.error());
  Result<std::unique_ptr<Cache>> cache = Cache::Open(config.cache);
  if (!cache) return Say(cache.error());
  if (!flags.has_socket && config.server.socket.empty()) {
    config.server.socket = DefaultSocket(config);
  }
  Duration stop_flush{};
  std::optional<StopSignals> signals;
  {
    State state(config, cache->get(), events);
    state.config_file = flags.config;
    Result<std::unique_ptr<Server>> server = Server::Open(&state);
    if (!server) return Say(server.error());
    const Watched watched{feed, config.cache.thresholds, DashboardFiles()};
    const Result<std::unique_ptr<Watching>> watching =
        Watching::Open(&state, server->get(), watched);
    if (!watching) return Say(watching.error());
    if (const Status started = (*cache)->Start(); !started) return Say(started.error());
    RunUntilTold(&state, server->get(), start, for_time, &signals, &held);
    stop_flush = state.settings.stop_flush;
  }
  Flush(cache->get(), stop_flush, &*signals);
  if (const Status closed = Cache::Close(std::move(*cache)); !closed) return Say(closed.error());
  LogInfo("spillwayd: closed");
  return 0;
}

// The checks that a start would make before it opens anything.
int TellChecked(const Flags& flags, const Config& config) {
  if (const Status ok = CheckCapacities(config.cache); !ok) return Say(ok.error());
  fmt::print("spillwayd: {}: the settings are right\n",
             flags.config.empty() ? "no file" : flags.config);
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("spillwayd: a cache for agents' contexts, over the Redis protocol", "spillwayd");
  Flags flags;
  app.add_option("--config", flags.config, "TOML file with settings");
  app.add_option("--dir", flags.dir, "Folder of the disk tier");
  app.add_option("--card", flags.card,
                 "Shares a virtual card of this name with other processes, as in --card default: "
                 "`spillway squeeze` can take memory of it");
  app.add_option("--trace", flags.trace, "File to append all uses to, for spillway replay");
  CLI::Option* const port =
      app.add_option("--port", flags.port, "TCP port (default 7379); 0: none");
  CLI::Option* const http_port =
      app.add_option("--http-port", flags.http_port, "Port of HTTP (default 7380); 0: none");
  CLI::Option* const socket =
      app.add_option("--socket", flags.socket, "Path of the Unix socket; empty: none");
  app.add_option("--for", flags.for_time, "Stops by itself after this long, as in 20s");
  app.add_flag("--demo", flags.demo)->group("");  // Removed; the error says where it went.
  bool check_config = false;
  bool sample_config = false;
  app.add_flag("--check-config", check_config,
               "Read the settings, say whether they are right, start nothing");
  app.add_flag("--sample-config", sample_config,
               "Print a configuration file with every setting, commented out");
  bool version = false;
  app.add_flag("--version", version, "Print the version");
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  if (version) {
    fmt::print("spillwayd {}\n", SPILLWAY_VERSION);
    return 0;
  }
  if (sample_config) {
    fmt::print("{}", SampleConfig());
    return 0;
  }
  if (flags.demo) {
    return Say({Code::kInvalidArgument,
                "--demo: the demo is a program of its own: `make run` in the source tree, or "
                "python3 examples/demo, which starts this daemon"});
  }
  flags.has_port = port->count() > 0;
  flags.has_http_port = http_port->count() > 0;
  flags.has_socket = socket->count() > 0;
  Duration for_time{};
  if (!flags.for_time.empty()) {
    const Result<Duration> time = ParseDuration(flags.for_time);
    if (!time) return Say({time.error().code, "--for: " + time.error().message});
    for_time = *time;
  }
  const Config base = DefaultConfig();
  Result<Config> config = ReadConfig(flags, base);
  if (!config) return Say(config.error());
  if (const Status ok = CheckSettings(config->server); !ok) return Say(ok.error());
  if (check_config) return TellChecked(flags, *config);
  return Serve({flags, base, std::move(*config)}, for_time);
}

}  // namespace
}  // namespace spillway::server

int main(int argc, char** argv) { return spillway::server::Main(argc, argv); }
