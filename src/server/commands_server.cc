// SPDX-License-Identifier: Apache-2.0
// COMMAND, CONFIG, SLOWLOG, TIME and HELP.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/log.h"
#include "base/renamed.h"
#include "server/commands.h"
#include "wire/glob.h"
#include "wire/request.h"

namespace spillway::server {

void Time(Call& call) {
  const auto now = std::chrono::system_clock::now();  // real world: TIME returns it
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  call.reply.Array(2);
  call.reply.BulkInteger(us / 1'000'000);
  call.reply.BulkInteger(us % 1'000'000);
}

// --- COMMAND ---

namespace {

void ReplyFlags(Call& call, const Command& command) {
  constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
      {kWrite, "write"},       {kReadOnly, "readonly"}, {kDenyOom, "denyoom"}, {kAdmin, "admin"},
      {kNoScript, "noscript"}, {kLoading, "loading"},   {kStale, "stale"},     {kFast, "fast"},
      {kNoAuth, "no_auth"},    {kNoMulti, "no_multi"}};
  std::vector<std::string_view> names;
  for (const auto& [flag, name] : kNames) {
    if ((command.flags & flag) != 0) names.push_back(name);
  }
  call.reply.Set(names.size());
  for (const std::string_view name : names) call.reply.Simple(name);
}

void ReplyInfo(Call& call, const Command& command, bool with_subcommands) {
  call.reply.Array(10);
  call.reply.Bulk(command.full_name());
  call.reply.Integer(command.arity);
  ReplyFlags(call, command);
  call.reply.Integer(command.first_key);
  call.reply.Integer(command.last_key);
  call.reply.Integer(command.key_step);
  const std::string_view access = (command.flags & kWrite) != 0      ? "@write"
                                  : (command.flags & kReadOnly) != 0 ? "@read"
                                                                     : "@connection";
  call.reply.Set(1);
  call.reply.Simple(access);
  call.reply.Array(0);  // Tips.
  call.reply.Array(0);  // Key specifications.
  call.reply.Array(with_subcommands ? command.subcommands.size() : 0);
  if (!with_subcommands) return;
  for (const Command& sub : command.subcommands) ReplyInfo(call, sub, false);
}

// By the name of a command, or "parent|sub".
const Command* Named(std::string_view name) {
  const std::size_t bar = name.find('|');
  const Command* const command = FindCommand(name.substr(0, bar));
  if (command == nullptr || bar == std::string_view::npos) return command;
  return FindSubcommand(*command, name.substr(bar + 1));
}

void ReplyDocs(Call& call, const Command& command, bool with_subcommands) {
  const bool subs = with_subcommands && !command.subcommands.empty();
  call.reply.Bulk(command.full_name());
  call.reply.Map(subs ? 4 : 3);
  call.reply.Bulk("summary");
  call.reply.Bulk(command.summary);
  call.reply.Bulk("since");
  call.reply.Bulk(command.since);
  call.reply.Bulk("group");
  call.reply.Bulk(command.group);
  if (!subs) return;
  call.reply.Bulk("subcommands");
  call.reply.Map(command.subcommands.size());
  for (const Command& sub : command.subcommands) ReplyDocs(call, sub, false);
}

}  // namespace

void CommandAll(Call& call) {
  call.reply.Array(Commands().size());
  for (const Command& command : Commands()) ReplyInfo(call, command, true);
}

void CommandCountOf(Call& call) {
  call.reply.Integer(static_cast<std::int64_t>(Commands().size()));
}

void CommandInfo(Call& call) {
  if (call.args.size() == 2) return CommandAll(call);
  call.reply.Array(call.args.size() - 2);
  for (const std::string_view name : call.args.subspan(2)) {
    const Command* const command = Named(name);
    command == nullptr ? call.reply.NullArray() : ReplyInfo(call, *command, true);
  }
}

void CommandDocs(Call& call) {
  std::vector<const Command*> wanted;
  if (call.args.size() == 2) {
    for (const Command& command : Commands()) wanted.push_back(&command);
  }
  for (const std::string_view name : call.args.subspan(2)) {
    if (const Command* const command = Named(name); command != nullptr) wanted.push_back(command);
  }
  call.reply.Map(wanted.size());
  for (const Command* command : wanted) ReplyDocs(call, *command, true);
}

void CommandList(Call& call) {
  if (call.args.size() > 2) return call.SyntaxError();
  call.reply.Array(Commands().size());
  for (const Command& command : Commands()) call.reply.Bulk(command.name);
}

// --- CONFIG ---

namespace {

// Settings of Redis that clients read. They are fixed here.
constexpr std::pair<std::string_view, std::string_view> kFixed[] = {
    {"databases", "16"},
    {"save", ""},
    {"appendonly", "no"},
    {"maxmemory", "0"},
    {"maxmemory-policy", "noeviction"}};

}  // namespace

void ConfigGet(Call& call) {
  for (const std::string_view name : call.args.subspan(2)) {
    if (const std::string now = ItIsNow(Lower(name)); !now.empty()) {
      return call.Error(fmt::format("ERR unknown setting '{}'{}", name, now));
    }
  }
  std::vector<std::pair<std::string, std::string>> found;
  const auto offer = [&](std::string_view name, const std::string& value) {
    if (name.empty()) return;
    const bool wanted = std::ranges::any_of(call.args.subspan(2), [&](std::string_view pattern) {
      return wire::GlobMatchesAnyCase(pattern, name);
    });
    const bool known =
        std::ranges::any_of(found, [&](const auto& one) { return one.first == name; });
    if (wanted && !known) found.emplace_back(name, value);
  };
  for (const SettingRow& row : SettingRows()) {
    const std::string value = row.secret ? "" : row.print(call.state.settings);
    offer(row.redis, value);
    offer(row.name, value);
  }
  for (const auto& [name, value] : kFixed) offer(name, std::string(value));
  call.reply.Map(found.size());
  for (const auto& [name, value] : found) {
    call.reply.Bulk(name);
    call.reply.Bulk(value);
  }
}

void ConfigSet(Call& call) {
  if (call.args.size() % 2 != 0) {
    return call.Error("ERR wrong number of arguments for 'config|set' command");
  }
  Settings changed = call.state.settings;
  for (std::size_t i = 2; i < call.args.size(); i += 2) {
    const SettingRow* const row = FindRow(call.arg(i));
    if (row == nullptr) {
      if (const std::string now = ItIsNow(Lower(call.arg(i))); !now.empty()) {
        return call.Error(fmt::format("ERR unknown setting '{}'{}", call.arg(i), now));
      }
      return call.Error(fmt::format(
          "ERR Unknown option or number of arguments for CONFIG SET - '{}'", call.arg(i)));
    }
    if (!row->live) {
      return call.Error(fmt::format(
          "ERR CONFIG SET failed (possibly related to argument '{}') - can't set immutable config",
          call.arg(i)));
    }
    if (const Status ok = row->read(call.arg(i + 1), &changed); !ok) {
      return call.Error(
          fmt::format("ERR CONFIG SET failed (possibly related to argument '{}') - {}", call.arg(i),
                      ok.error().message));
    }
  }
  const std::string_view password = PasswordChange(call.state.settings, changed);
  if (const Status ok = CheckChange(call.state.settings, changed); !ok) {
    if (!password.empty()) {
      LogWarning("CONFIG SET by {}: the password was not {}: {}", call.session.address, password,
                 ok.error().message);
    }
    return call.Error(fmt::format("ERR CONFIG SET failed - {}", ok.error().message));
  }
  if (!password.empty()) {
    LogWarning("CONFIG SET by {}: the password was {}", call.session.address, password);
  }
  call.state.settings = std::move(changed);
  call.reply.Ok();
}

void ConfigResetStat(Call& call) {
  std::ranges::fill(call.state.counts, CommandCounts{});
  State::Counters& counters = call.state.counters;
  for (auto* counter : {&counters.connections, &counters.commands, &counters.errors,
                        &counters.net_in, &counters.net_out, &counters.hits, &counters.misses}) {
    counter->store(0, std::memory_order_relaxed);
  }
  call.reply.Ok();
}

void ModuleList(Call& call) { call.reply.Array(0); }

void FunctionFlush(Call& call) {
  if (call.args.size() > 3 || (call.args.size() == 3 && !SameWord(call.arg(2), "async") &&
                               !SameWord(call.arg(2), "sync"))) {
    return call.Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
  }
  call.reply.Ok();
}

void AclWhoAmI(Call& call) { call.reply.Bulk("default"); }

// --- SLOWLOG ---

void SlowLogGet(Call& call) {
  std::int64_t count = 10;
  if (call.args.size() == 3) {
    if (!wire::ReadInteger(call.arg(2), &count) || count < -1) {
      return call.Error("ERR count should be greater than or equal to -1");
    }
  }
  const std::size_t most = count < 0 ? call.state.slow.size() : static_cast<std::size_t>(count);
  const std::size_t shown = std::min(most, call.state.slow.size());
  call.reply.Array(shown);
  for (std::size_t i = 0; i < shown; ++i) {
    const SlowCommand& slow = call.state.slow[i];
    call.reply.Array(6);
    call.reply.Integer(slow.id);
    call.reply.Integer(slow.unix_seconds);
    call.reply.Integer(slow.microseconds);
    call.reply.Array(slow.words.size());
    for (const std::string& word : slow.words) call.reply.Bulk(word);
    call.reply.Bulk(slow.address);
    call.reply.Bulk(slow.name);
  }
}

void SlowLogLen(Call& call) {
  call.reply.Integer(static_cast<std::int64_t>(call.state.slow.size()));
}

void SlowLogReset(Call& call) {
  call.state.slow.clear();
  call.reply.Ok();
}

void Help(Call& call) {
  const Command* const command = FindCommand(call.arg(0));
  std::string name = Lower(command->name);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  call.reply.Array(1 + 2 * command->subcommands.size());
  call.reply.Simple(
      fmt::format("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name));
  for (const Command& sub : command->subcommands) {
    std::string upper(sub.name);
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    call.reply.Simple(upper);
    call.reply.Simple(fmt::format("    {}", sub.summary));
  }
}

}  // namespace spillway::server
