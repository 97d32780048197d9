// SPDX-License-Identifier: Apache-2.0
#include "server/watching.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "server/command.h"

namespace spillway::server {

namespace {

std::vector<std::string> HostsOf(const Settings& settings) {
  std::vector<std::string> hosts;
  const bool v6 = settings.http_bind.find(':') != std::string::npos;
  hosts.push_back(v6 ? fmt::format("[{}]", settings.http_bind) : settings.http_bind);
  std::string name;
  for (const char c : settings.http_hosts + ",") {
    if (c != ',' && c != ' ') {
      name += c;
    } else if (!name.empty()) {
      hosts.push_back(std::exchange(name, {}));
    }
  }
  return hosts;
}

// Calls `each` for all commands and subcommands that were called.
template <typename Each>
void ForEachCalled(const State& state, Each&& each) {
  const auto visit = [&](const Command& command) {
    const CommandCounts& counts = state.counts[NumberOf(command)];
    if (counts.calls > 0) each(command.full_name(), counts);
  };
  for (const Command& command : Commands()) {
    visit(command);
    for (const Command& subcommand : command.subcommands) visit(subcommand);
  }
}

}  // namespace

Watching::Watching(State* state, const Server* server, const Watched& watched)
    : state_(state), server_(server), feed_(watched.feed) {
  http::Api::Settings settings;
  settings.cache = &state->cache();
  settings.feed = feed_.get();
  settings.hosts = HostsOf(state->settings);
  settings.files = watched.files;
  settings.history = &history_;
  settings.thresholds = watched.thresholds;
  settings.facts = [state] {
    const std::lock_guard lock(state->commands);
    const ReadTimes& reads = state->read_times;
    return http::ServerFacts{
        .started_unix_ms = state->started_unix_ms,
        .hit_tokens = state->counters.hit_tokens.load(),
        .read_bounds_s = {ReadTimes::kBounds.begin(), ReadTimes::kBounds.end()},
        .reads_within = {reads.within.begin(), reads.within.end()}};
  };
  settings.password = [state] {
    const std::lock_guard lock(state->commands);  // CONFIG SET may change it.
    return state->settings.password;
  };
  settings.not_ready = [this] { return WhyNotReady(); };
  settings.metrics = [this](http::Exposition* page) { AddMetrics(page); };
  api_.emplace(std::move(settings));
}

Result<std::unique_ptr<Watching>> Watching::Open(State* state, const Server* server,
                                                 const Watched& watched) {
  std::unique_ptr<Watching> watching(new Watching(state, server, watched));
  const Settings& settings = state->settings;
  if (settings.http_port == 0) return watching;
  http::HttpSettings http;
  http.bind = settings.http_bind == "localhost" ? "127.0.0.1" : settings.http_bind;
  http.port = static_cast<std::uint16_t>(settings.http_port);
  http.tick = [self = watching.get()] { return self->Remember(); };
  Result<std::unique_ptr<http::HttpServer>> opened = http::HttpServer::Open(http, &*watching->api_);
  if (!opened) return opened.error();
  watching->http_ = std::move(*opened);
  LogInfo("spillwayd: http://{}:{}/ serves {}metrics and the API", http.bind,
          watching->http_->port(), watched.files.empty() ? "" : "the dashboard, ");
  return watching;
}

// One sample a second; less often if a sample takes long, so that history costs at most 1/200 of a
// core.
Duration Watching::Remember() {
  using Clock = std::chrono::steady_clock;
  constexpr int kShare = 200;
  const Clock::time_point began = Clock::now();
  history_.Add(state_->cache().stats(), state_->UnixMs());
  return std::max<Duration>(std::chrono::seconds(1), kShare * (Clock::now() - began));
}

std::string Watching::WhyNotReady() const {
  if (server_->stopping()) return "the daemon is stopping";
  if (state_->cache().stats().loading) return "the disk tier is still reading its files";
  return {};
}

void Watching::AddMetrics(http::Exposition* page) const {
  const State::Counters& counters = state_->counters;
  page->Gauge("spillway_clients", "Clients connected now.", state_->connected.load());
  page->Counter("spillway_clients_accepted_total", "Clients that connected.",
                counters.connections.load());
  page->Counter("spillway_clients_refused_total",
                "Connections refused because clients_max was reached.",
                counters.refused_connections.load());
  page->Counter("spillway_clients_stalled_total",
                "Clients closed for no progress within stall_max.", counters.closed_slow.load());
  page->Counter("spillway_commands_total", "Commands answered.", counters.commands.load());
  page->Counter("spillway_command_errors_total", "Commands answered with an error.",
                counters.errors.load());
  page->Counter("spillway_received_bytes_total", "Bytes received from clients.",
                counters.net_in.load());
  page->Counter("spillway_sent_bytes_total", "Bytes sent to clients.", counters.net_out.load());
  page->Counter("spillway_writes_refused_total", "Writes refused for pressure.",
                counters.refused_writes.load());
  page->Counter("spillway_writes_dropped_total",
                "Writes answered with OK and dropped (on_blocked).",
                counters.dropped_writes.load());
  const std::lock_guard lock(state_->commands);
  page->Histogram("spillway_read_seconds",
                  "Time from a read's start to its reply, with its wait for a lower tier.",
                  ReadTimes::kBounds, state_->read_times.within, state_->read_times.seconds);
  page->Counter("spillway_command_calls_total", "Calls of each command.");
  ForEachCalled(*state_, [&](const std::string& name, const CommandCounts& counts) {
    page->Sample(counts.calls, {{"command", name}});
  });
  page->Counter("spillway_command_seconds_total", "Time spent in each command.");
  ForEachCalled(*state_, [&](const std::string& name, const CommandCounts& counts) {
    page->Sample(static_cast<double>(counts.microseconds) / 1e6, {{"command", name}});
  });
}

}  // namespace spillway::server
