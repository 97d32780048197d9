// spillwayd: the cache as a service of its own, for programs that speak Redis.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "base/arguments.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/run_dir.h"
#include "base/small_file.h"
#include "cache/flush.h"
#include "demo/play.h"
#include "server/dashboard.h"
#include "server/notify.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/state.h"
#include "server/watching.h"
#include "spillway/version.h"

namespace spillway::server {
namespace {

constexpr std::size_t kConfigBytesMax = 1 << 20;

struct Flags {
  std::string config;
  std::string dir;
  std::string trace;
  std::string socket;
  std::string for_time;
  std::uint64_t port = 0;
  std::uint64_t http_port = 0;
  bool has_port = false;
  bool has_http_port = false;
  bool has_socket = false;
  bool demo = false;
};

int Say(const Error& error) {
  fmt::print(stderr, "spillwayd: {}\n", error.message);
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

Result<Config> ReadConfig(const Flags& flags) {
  Config config = DefaultConfig();
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
  if (flags.has_port) config.server.port = flags.port;
  if (flags.has_http_port) config.server.http_port = flags.http_port;
  if (!flags.dir.empty()) config.cache.disk_dir = flags.dir;
  if (!flags.trace.empty()) config.cache.trace = flags.trace;
  if (flags.has_socket) config.server.socket = flags.socket;
  return config;
}

// <dir>/spillway.sock, else the run directory with the port in its name.
std::string DefaultSocket(const Config& config) {
  if (!config.cache.disk_dir.empty()) return config.cache.disk_dir + "/spillway.sock";
  const Result<std::string> dir = RunDir();
  return dir ? fmt::format("{}/spillway-{}.sock", *dir, config.server.port) : std::string();
}

void Reload(State* state, const Flags& flags) {
  if (flags.config.empty()) {
    LogInfo("SIGHUP: there is no file to read again");
    return;
  }
  NotifyManager("RELOADING=1");
  const Result<Config> config = ReadConfig(flags);
  if (!config) {
    LogWarning("SIGHUP: nothing was changed: {}", config.error().message);
  } else {
    const std::lock_guard lock(state->commands);
    for (const SettingRow& row : SettingRows()) {
      if (row.live) static_cast<void>(row.read(row.print(config->server), &state->settings));
    }
    LogInfo("SIGHUP: {} was read again", flags.config);
  }
  NotifyManager("READY=1");
}

std::string WhereServed(const State& state, const Server& server) {
  const Settings& settings = state.settings;
  std::string where;
  if (settings.port != 0) where = fmt::format("{}:{}", settings.bind, server.port());
  if (settings.port != 0 && !settings.socket.empty()) where += " and ";
  return where + settings.socket;
}

// Until somebody says that it is enough. What hangs on the server's loops goes
// before them.
void RunUntilTold(State* state, Server* server, const Flags& flags, Duration for_time) {
  boost::asio::signal_set stop(server->io(), SIGTERM, SIGINT);
  stop.async_wait([&](const boost::system::error_code& error, int) {
    if (!error) server->Stop();
  });
  boost::asio::signal_set hang_up(server->io(), SIGHUP);
  std::function<void()> listen = [&] {
    hang_up.async_wait([&](const boost::system::error_code& error, int) {
      if (error) return;
      Reload(state, flags);
      listen();
    });
  };
  listen();
  boost::asio::steady_timer end(server->io());
  if (for_time > Duration::zero()) {
    end.expires_after(for_time);
    end.async_wait([&](const boost::system::error_code& error) {
      if (!error) server->Stop();
    });
  }
  LogInfo("spillwayd {}: serves Redis on {}", SPILLWAY_VERSION, WhereServed(*state, *server));
  NotifyManager("READY=1");
  server->Run();
  NotifyManager("STOPPING=1");
}

// Nobody is connected any more. What only memory has would be gone.
void Flush(Cache* cache, Duration within) {
  if (cache->stats().disk.name.empty()) return;
  const Flushed flushed = FlushToDisk(cache, within);
  LogInfo("spillwayd: wrote {} entries ({}) that only memory had", flushed.entries,
          FormatBytes(flushed.bytes));
  if (flushed.entries_left == 0) return;
  LogWarning("spillwayd: {} entries ({}) were left: {}", flushed.entries_left,
             FormatBytes(flushed.bytes_left),
             within == Duration::zero()
                 ? std::string("stop_flush is 0")
                 : fmt::format("the disk tier has no room, or {} (stop_flush) were not enough",
                               FormatDuration(within)));
}

int Serve(Config config, const Flags& flags, Duration for_time) {
  const auto events = std::make_shared<State::Events>();
  const auto feed = std::make_shared<http::Feed>();
  config.cache.on_event = [events, feed](const Event& event) {
    events->Hear(event);
    feed->Hear(event);
  };
  config.cache.on_level = [feed](const LevelChange& change) { feed->Hear(change); };
  Result<std::unique_ptr<Cache>> cache = Cache::Open(config.cache);
  if (!cache) return Say(cache.error());
  if (!flags.has_socket && config.server.socket.empty()) {
    config.server.socket = DefaultSocket(config);
  }
  Duration stop_flush{};
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
    RunUntilTold(&state, server->get(), flags, for_time);
    stop_flush = state.settings.stop_flush;
  }
  Flush(cache->get(), stop_flush);
  if (const Status closed = Cache::Close(std::move(*cache)); !closed) return Say(closed.error());
  LogInfo("spillwayd: closed");
  return 0;
}

// The demo starts this program anew, as its daemon, with settings of its own.
int PlayDemo(const Flags& flags, Duration for_time) {
  if (!flags.config.empty() || !flags.dir.empty() || !flags.trace.empty()) {
    return Say({Code::kInvalidArgument,
                "--demo brings settings of its own: leave out --config, --dir and --trace"});
  }
  for (const std::uint64_t port : {flags.port, flags.http_port}) {
    if (port <= 65'535) continue;
    return Say({Code::kInvalidArgument, fmt::format("{} is no port: they end at 65535", port)});
  }
  demo::DemoOptions options;
  if (!flags.for_time.empty()) options.length = for_time;
  options.socket = flags.socket;
  if (flags.has_port) options.port = static_cast<std::uint16_t>(flags.port);
  if (flags.has_http_port) options.http_port = static_cast<std::uint16_t>(flags.http_port);
  const Result<int> played = demo::Play(options);
  return played ? *played : Say(played.error());
}

int Main(int argc, char** argv) {
  CLI::App app("spillwayd: contexts for every program that speaks Redis", "spillwayd");
  Flags flags;
  app.add_option("--config", flags.config, "TOML file with settings");
  app.add_option("--dir", flags.dir, "Folder of the disk tier");
  app.add_option("--trace", flags.trace, "File to append all uses to, for spillway replay");
  CLI::Option* const port =
      app.add_option("--port", flags.port, "TCP port (default 7379); 0: none");
  CLI::Option* const http_port =
      app.add_option("--http-port", flags.http_port, "Port of HTTP (default 7380); 0: none");
  CLI::Option* const socket =
      app.add_option("--socket", flags.socket, "Path of the Unix socket; empty: none");
  app.add_option("--for", flags.for_time, "Ends by itself after this long, as in 20s");
  app.add_flag("--demo", flags.demo,
               "A demo, for 60s: agents as clients, neighbours, all live; HTTP on another port if "
               "its own is taken");
  bool version = false;
  app.add_flag("--version", version, "Print the version");
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  if (version) {
    fmt::print("spillwayd {}\n", SPILLWAY_VERSION);
    return 0;
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
  if (flags.demo) return PlayDemo(flags, for_time);
  Result<Config> config = ReadConfig(flags);
  if (!config) return Say(config.error());
  if (const Status ok = CheckSettings(config->server); !ok) return Say(ok.error());
  return Serve(std::move(*config), flags, for_time);
}

}  // namespace
}  // namespace spillway::server

int main(int argc, char** argv) { return spillway::server::Main(argc, argv); }
