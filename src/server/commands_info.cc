// SPDX-License-Identifier: Apache-2.0
// INFO: the sections of Redis, and one named Spillway.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/parse.h"
#include "server/commands.h"
#include "spillway/version.h"

namespace spillway::server {

namespace {

using Lines = std::string;

Bytes ResidentBytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");  // real world: our own size
  if (file == nullptr) return 0;
  unsigned long pages = 0;
  unsigned long resident = 0;
  if (std::fscanf(file, "%lu %lu", &pages, &resident) != 2) resident = 0;
  std::fclose(file);
  return Bytes{resident} * static_cast<Bytes>(sysconf(_SC_PAGESIZE));
}

Lines Server(State& state) {
  const std::int64_t up = (state.UnixMs() - state.started_unix_ms) / 1000;
  return fmt::format(
      "redis_version:7.0.15\r\nspillway_version:{}\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0"
      "\r\nredis_build_id:0\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\n"
      "multiplexing_api:epoll\r\nprocess_id:{}\r\nrun_id:{}\r\ntcp_port:{}\r\nserver_time_usec:{}"
      "\r\nuptime_in_seconds:{}\r\nuptime_in_days:{}\r\nhz:10\r\nconfigured_hz:10\r\nlru_clock:0"
      "\r\nexecutable:spillwayd\r\nconfig_file:{}\r\nio_threads_active:{}\r\n",
      SPILLWAY_VERSION, getpid(), state.run_id, state.settings.port, state.UnixMs() * 1000, up,
      up / 86'400, state.config_file, state.settings.io_threads > 1 ? 1 : 0);
}

Lines Clients(State& state) {
  return fmt::format(
      "connected_clients:{}\r\ncluster_connections:0\r\nmaxclients:{}\r\n"
      "client_recent_max_input_buffer:0\r\nclient_recent_max_output_buffer:0\r\nblocked_clients:0"
      "\r\ntracking_clients:0\r\nclients_in_timeout_table:0\r\n",
      state.connected.load(), state.settings.clients_max);
}

Lines Memory(State&, const Stats& stats) {
  const Bytes used = stats.device.bytes + stats.host.bytes + stats.index_bytes;
  const Bytes resident = ResidentBytes();
  return fmt::format(
      "used_memory:{}\r\nused_memory_human:{}\r\nused_memory_rss:{}\r\nused_memory_dataset:{}\r\n"
      "used_memory_overhead:{}\r\ntotal_system_memory:{}\r\nmaxmemory:{}\r\n"
      "maxmemory_policy:noeviction\r\nmem_fragmentation_ratio:{:.2f}\r\nmem_allocator:spillway\r\n",
      used, FormatBytes(used), resident, stats.device.bytes + stats.host.bytes, stats.index_bytes,
      stats.device.total, stats.device.capacity,
      static_cast<double>(resident) / static_cast<double>(std::max<Bytes>(used, 1)));
}

Lines StatsOf(State& state, const Stats& stats) {
  const State::Counters& c = state.counters;
  const std::uint64_t expired = stats.removed_by_reason[static_cast<std::size_t>(Reason::kExpired)];
  std::uint64_t evicted = 0;
  for (std::size_t i = 0; i < stats.removed_by_reason.size(); ++i) {
    const auto reason = static_cast<Reason>(i);
    if (reason == Reason::kErased || reason == Reason::kReplaced || reason == Reason::kCleared ||
        reason == Reason::kExpired) {
      continue;
    }
    evicted += stats.removed_by_reason[i];
  }
  return fmt::format(
      "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n"
      "instantaneous_ops_per_sec:0\r\ntotal_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\n"
      "rejected_connections:{}\r\nexpired_keys:{}\r\nevicted_keys:{}\r\nkeyspace_hits:{}\r\n"
      "keyspace_misses:{}\r\npubsub_channels:0\r\npubsub_patterns:0\r\ntotal_error_replies:{}\r\n",
      c.connections.load(), c.commands.load(), c.net_in.load(), c.net_out.load(),
      c.refused_connections.load(), expired, evicted, c.hits.load(), c.misses.load(),
      c.errors.load());
}

Lines Cpu(State&) {
  rusage self{};
  rusage children{};
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &children);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return fmt::format(
      "used_cpu_sys:{:.6f}\r\nused_cpu_user:{:.6f}\r\nused_cpu_sys_children:{:.6f}\r\n"
      "used_cpu_user_children:{:.6f}\r\n",
      seconds(self.ru_stime), seconds(self.ru_utime), seconds(children.ru_stime),
      seconds(children.ru_utime));
}

Lines Keyspace(State& state) {
  Lines lines;
  const auto counts = state.CountDatabases();
  for (std::size_t db = 0; db < counts.size(); ++db) {
    const Index::Count& count = counts.at(db);
    if (count.entries == 0) continue;
    lines += fmt::format("db{}:keys={},expires={},avg_ttl=0\r\n", db, count.entries,
                         MutantOn(Mutant::kKeyspaceExpiresZero) ? 0 : count.with_deadline);
  }
  return lines;
}

// The lines of a master without replicas: tools expect them.
Lines Replication(State& state) {
  return fmt::format(
      "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n"
      "master_replid:{}\r\nmaster_replid2:{:040d}\r\nmaster_repl_offset:0\r\n"
      "second_repl_offset:-1\r\nrepl_backlog_active:0\r\nrepl_backlog_size:0\r\n"
      "repl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n",
      state.run_id, 0);
}

void CountsOf(State& state, const Command& command, Lines* lines) {
  const CommandCounts& counts = state.counts[NumberOf(command)];
  if (counts.calls + counts.rejected > 0) {
    *lines += fmt::format(
        "cmdstat_{}:calls={},usec={},usec_per_call={:.2f},rejected_calls={},failed_calls={}\r\n",
        command.full_name(), counts.calls, counts.microseconds,
        counts.calls == 0
            ? 0.0
            : static_cast<double>(counts.microseconds) / static_cast<double>(counts.calls),
        counts.rejected, counts.failed);
  }
}

Lines CommandStats(State& state) {
  Lines lines;
  for (const Command& command : Commands()) {
    CountsOf(state, command, &lines);
    for (const Command& sub : command.subcommands) CountsOf(state, sub, &lines);
  }
  return lines;
}

Lines Spillway(State& state, const Stats& stats) {
  const State::Counters& c = state.counters;
  Lines lines = fmt::format(
      "mode:{}\r\nlevel:{}\r\nblocked:{}\r\nentries:{}\r\ntokens:{}\r\nleases:{}\r\n"
      "dropped_writes:{}\r\nrefused_writes:{}\r\npairs_erased:{}\r\nclosed_slow_clients:{}\r\n",
      Name(state.cache().mode()), Name(state.cache().level()), state.cache().is_blocked() ? 1 : 0,
      stats.entries, stats.tokens, stats.leases, c.dropped_writes.load(), c.refused_writes.load(),
      c.pairs_erased.load(), c.closed_slow.load());
  for (const TierStats* tier : {&stats.device, &stats.host, &stats.disk}) {
    if (tier->name.empty()) continue;
    lines += fmt::format("tier_{}:capacity={},bytes={},entries={},level={},pressure={}\r\n",
                         tier->name, tier->capacity, tier->bytes, tier->entries, Name(tier->level),
                         tier->pressure ? fmt::format("{:.4f}", *tier->pressure) : "unknown");
  }
  return lines;
}

}  // namespace

void Info(Call& call) {
  struct Section {
    std::string_view name;
    bool by_default;
  };
  constexpr Section kSections[] = {
      {"Server", true},  {"Clients", true},     {"Memory", true},  {"Persistence", true},
      {"Stats", true},   {"Replication", true}, {"CPU", true},     {"Commandstats", false},
      {"Cluster", true}, {"Keyspace", true},    {"Spillway", true}};
  const auto wanted = [&](const Section& section) {
    if (call.args.size() == 1) return section.by_default;
    return std::ranges::any_of(call.args.subspan(1), [&](std::string_view name) {
      return SameWord(name, section.name) || SameWord(name, "all") ||
             SameWord(name, "everything") || (SameWord(name, "default") && section.by_default);
    });
  };
  const Stats stats = call.state.cache().stats();
  std::string text;
  for (const Section& section : kSections) {
    if (!wanted(section)) continue;
    if (!text.empty()) text += "\r\n";
    text += fmt::format("# {}\r\n", section.name);
    State& state = call.state;
    if (section.name == "Server") text += Server(state);
    if (section.name == "Clients") text += Clients(state);
    if (section.name == "Memory") text += Memory(state, stats);
    if (section.name == "Persistence") text += fmt::format("loading:{}\r\n", stats.loading ? 1 : 0);
    if (section.name == "Stats") text += StatsOf(state, stats);
    if (section.name == "Replication") text += Replication(state);
    if (section.name == "CPU") text += Cpu(state);
    if (section.name == "Commandstats") text += CommandStats(state);
    if (section.name == "Cluster") text += "cluster_enabled:0\r\n";
    if (section.name == "Keyspace") text += Keyspace(state);
    if (section.name == "Spillway") text += Spillway(state, stats);
  }
  call.reply.Verbatim(text);
}

}  // namespace spillway::server
