// SPDX-License-Identifier: Apache-2.0
// The command table. Names, arities, flags and key positions are those of Redis 7 where Redis has
// the command.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "server/command.h"
#include "server/commands.h"

namespace spillway::server {

namespace {

constexpr std::uint32_t kRead = kReadOnly;
constexpr std::uint32_t kAnytime = kLoading | kStale;
constexpr std::uint32_t kSub = kAnytime | kNoScript;

constexpr Command Sub(std::string_view parent, std::string_view name, int arity,
                      std::uint32_t flags, void (*run)(Call&), std::string_view summary,
                      int key = 0) {
  return {.name = name,
          .arity = arity,
          .flags = flags,
          .first_key = key,
          .last_key = key,
          .key_step = key > 0 ? 1 : 0,
          .run = run,
          .group = "server",
          .since = "7.0.0",
          .summary = summary,
          .parent = parent};
}

constexpr std::array kClientSubs = {
    Sub("client", "caching", 3, kSub, ClientCaching, "Not offered: tracking is always off."),
    Sub("client", "getname", 2, kSub, ClientGetName, "The name of this connection."),
    Sub("client", "getredir", 2, kSub, ClientGetRedir, "-1: tracking is always off."),
    Sub("client", "help", 2, kSub, Help, "This list."),
    Sub("client", "id", 2, kSub, ClientId, "The number of this connection."),
    Sub("client", "info", 2, kSub, ClientInfo, "The attributes of this connection."),
    Sub("client", "kill", -3, kSub | kAdmin, ClientKill, "Closes connections."),
    Sub("client", "list", -2, kSub | kAdmin, ClientList, "All connections."),
    Sub("client", "no-evict", 3, kSub | kAdmin, ClientNoEvict, "Accepted; no client is evicted."),
    Sub("client", "no-touch", 3, kSub, ClientNoTouch, "Accepted."),
    Sub("client", "reply", 3, kSub, ClientReply, "Whether replies are sent."),
    Sub("client", "setinfo", 4, kSub, ClientSetInfo, "The name or version of the client library."),
    Sub("client", "setname", 3, kSub, ClientSetName, "Names this connection."),
    Sub("client", "tracking", -3, kSub, ClientTracking, "OFF; ON is not offered."),
    Sub("client", "trackinginfo", 2, kSub, ClientTrackingInfo, "Tracking is always off."),
};
constexpr std::array kConfigSubs = {
    Sub("config", "get", -3, kSub | kAdmin, ConfigGet, "Settings by name or pattern."),
    Sub("config", "help", 2, kSub, Help, "This list."),
    Sub("config", "resetstat", 2, kSub | kAdmin, ConfigResetStat, "Sets counters to 0."),
    Sub("config", "set", -4, kSub | kAdmin, ConfigSet, "Changes settings, all or none."),
};
constexpr std::array kCommandSubs = {
    Sub("command", "count", 2, kAnytime, CommandCountOf, "How many commands there are."),
    Sub("command", "docs", -2, kAnytime, CommandDocs, "Descriptions of commands."),
    Sub("command", "help", 2, kAnytime, Help, "This list."),
    Sub("command", "info", -2, kAnytime, CommandInfo, "Arity, flags and keys of commands."),
    Sub("command", "list", -2, kAnytime, CommandList, "The names of all commands."),
};
constexpr std::array kObjectSubs = {
    Sub("object", "encoding", 3, kRead | kReadsValue, ObjectEncoding,
        "The encoding Redis would use for the value.", 2),
    Sub("object", "freq", 3, kRead, ObjectFreq, "Not tracked.", 2),
    Sub("object", "help", 2, kAnytime, Help, "This list."),
    Sub("object", "idletime", 3, kRead, ObjectIdleTime, "Seconds since the last use.", 2),
    Sub("object", "refcount", 3, kRead, ObjectRefCount, "Always 1.", 2),
};
constexpr std::array kMemorySubs = {
    Sub("memory", "help", 2, kAnytime, Help, "This list."),
    Sub("memory", "usage", -3, kRead, MemoryUsage, "Bytes held for a key.", 2),
};
constexpr std::array kModuleSubs = {
    Sub("module", "help", 2, kAnytime, Help, "This list."),
    Sub("module", "list", 2, kAdmin | kNoScript, ModuleList, "Always empty."),
};
constexpr std::array kFunctionSubs = {
    Sub("function", "flush", -2, kWrite | kNoScript, FunctionFlush, "There are none; accepted."),
    Sub("function", "help", 2, kAnytime, Help, "This list."),
};
constexpr std::array kSlowLogSubs = {
    Sub("slowlog", "get", -2, kSub | kAdmin, SlowLogGet, "The last slow commands."),
    Sub("slowlog", "help", 2, kSub, Help, "This list."),
    Sub("slowlog", "len", 2, kSub | kAdmin, SlowLogLen, "The length of the slow log."),
    Sub("slowlog", "reset", 2, kSub | kAdmin, SlowLogReset, "Clears the slow log."),
};
constexpr std::array kAclSubs = {
    Sub("acl", "help", 2, kSub, Help, "This list."),
    Sub("acl", "whoami", 2, kSub, AclWhoAmI, "Always the user default."),
};

constexpr std::array kGraphSubs = {
    Sub("spill.graph", "end", 3, 0, GraphEnd, "RUN: the run has ended."),
    Sub("spill.graph", "finish", -4, 0, GraphFinish,
        "RUN STEP [TAKEN step...]: the step is finished; TAKEN names the choices that were taken."),
    Sub("spill.graph", "help", 2, 0, Help, "This list."),
    Sub("spill.graph", "load", 3, 0, GraphLoad,
        "JSON: adds a whole run, all or nothing; returns its name."),
    Sub("spill.graph", "loop", 5, 0, GraphLoop, "RUN FROM TO: the back edge is taken."),
    Sub("spill.graph", "order", 2, 0, GraphOrder,
        "Keys in eviction order by the graph, evict-first in front."),
    Sub("spill.graph", "skip", 4, 0, GraphSkip, "RUN STEP: the step will not run."),
    Sub("spill.graph", "start", 4, 0, GraphStart, "RUN STEP: the step has started."),
    Sub("spill.graph", "steps", 3, 0, GraphSteps, "RUN: how many completions each step is away."),
};

constexpr Command Keyed(std::string_view name, int arity, std::uint32_t flags, void (*run)(Call&),
                        std::string_view group, std::string_view since, std::string_view summary,
                        int last = 1, int step = 1) {
  return {.name = name,
          .arity = arity,
          .flags = flags,
          .first_key = 1,
          .last_key = last,
          .key_step = step,
          .run = run,
          .group = group,
          .since = since,
          .summary = summary};
}
constexpr Command Plain(std::string_view name, int arity, std::uint32_t flags, void (*run)(Call&),
                        std::string_view group, std::string_view since, std::string_view summary) {
  return {.name = name,
          .arity = arity,
          .flags = flags,
          .run = run,
          .group = group,
          .since = since,
          .summary = summary};
}
constexpr Command Parent(std::string_view name, int arity, void (*run)(Call&),
                         std::string_view summary, std::span<const Command> subs) {
  return {.name = name,
          .arity = arity,
          .flags = kAnytime,
          .run = run,
          .group = "server",
          .since = "1.0.0",
          .summary = summary,
          .subcommands = subs};
}
constexpr Command Edit(std::string_view name, int arity, int last = 1) {
  return Keyed(name, arity, kWrite, NotOffered, "string", "1.0.0",
               "Not offered: values never change in place.", last);
}

constexpr std::uint32_t kGetFlags = kRead | kFast | kReadsValue;
constexpr std::uint32_t kSetFlags = kWrite | kDenyOom;
constexpr std::uint32_t kConnection = kAnytime | kFast | kNoScript;

constexpr std::array kCommands = {
    Parent("acl", -2, nullptr, "There is one user, default.", kAclSubs),
    Edit("append", 3),
    Plain("auth", -2, kConnection | kNoAuth, Auth, "connection", "1.0.0",
          "Authenticates with the password."),
    Edit("bitfield", -2),
    Parent("client", -2, nullptr, "Connections.", kClientSubs),
    Parent("command", -1, CommandAll, "Arity, flags and keys of all commands.", kCommandSubs),
    Parent("config", -2, nullptr, "The daemon's settings.", kConfigSubs),
    Edit("copy", -3, 2),
    Plain("dbsize", 1, kRead | kFast, DbSize, "server", "1.0.0",
          "The number of keys in the database."),
    Edit("decr", 2),
    Edit("decrby", 3),
    Keyed("del", -2, kWrite, Del, "generic", "1.0.0", "Erases keys.", -1),
    Plain("discard", 1, kConnection | kNoQueue, Discard, "transactions", "2.0.0",
          "Drops the commands queued since MULTI."),
    Plain("echo", 2, kFast, Echo, "connection", "1.0.0", "Returns its argument."),
    Plain("exec", 1, kAnytime | kNoScript | kNoQueue, Exec, "transactions", "1.2.0",
          "Runs the commands queued since MULTI."),
    Keyed("exists", -2, kRead | kFast, Exists, "generic", "1.0.0",
          "How many of the keys are present.", -1),
    Keyed("expire", -3, kWrite | kFast, Expire, "generic", "1.0.0",
          "Sets a key's time to live in seconds."),
    Keyed("expireat", -3, kWrite | kFast, ExpireAt, "generic", "1.2.0",
          "Sets the Unix time in seconds at which a key expires."),
    Keyed("expiretime", 2, kRead | kFast, ExpireTime, "generic", "7.0.0",
          "The Unix time in seconds at which a key expires."),
    Plain("flushall", -1, kWrite, FlushAll, "server", "1.0.0", "Erases all keys of all databases."),
    Plain("flushdb", -1, kWrite, FlushDb, "server", "1.0.0", "Erases all keys of the database."),
    Parent("function", -2, nullptr, "There are no functions.", kFunctionSubs),
    Keyed("get", 2, kGetFlags, Get, "string", "1.0.0", "The value of a key."),
    Keyed("getbit", 3, kGetFlags, GetBit, "bitmap", "2.2.0", "One bit of a value."),
    Keyed("getdel", 2, kWrite | kFast | kReadsValue, GetDel, "string", "6.2.0",
          "Returns the value of a key and erases it."),
    Keyed("getex", -2, kWrite | kFast | kReadsValue, GetEx, "string", "6.2.0",
          "Returns the value of a key and changes its time to live."),
    Keyed("getrange", 4, kRead | kReadsValue, GetRange, "string", "2.4.0", "A part of a value."),
    Keyed("getset", 3, kSetFlags | kFast | kReadsValue, GetSet, "string", "1.0.0",
          "Sets a key and returns its old value."),
    Plain("hello", -1, kConnection | kNoAuth, Hello, "connection", "6.0.0",
          "Chooses RESP2 or RESP3, authenticates, and names the connection."),
    Edit("incr", 2),
    Edit("incrby", 3),
    Edit("incrbyfloat", 3),
    Plain("info", -1, kAnytime, Info, "server", "1.0.0", "State and counters of the daemon."),
    Plain("keys", 2, kRead, Keys, "generic", "1.0.0", "All keys that match a pattern."),
    Parent("memory", -2, nullptr, "The memory of keys.", kMemorySubs),
    Keyed("mget", -2, kGetFlags, MGet, "string", "1.0.0", "The values of several keys.", -1),
    Parent("module", -2, nullptr, "There are no modules.", kModuleSubs),
    Edit("move", 3),
    Keyed("mset", -3, kSetFlags, MSet, "string", "1.0.1", "Sets several keys.", -1, 2),
    Keyed("msetnx", -3, kSetFlags, MSetNx, "string", "1.0.1",
          "Sets several keys if none of them is present.", -1, 2),
    Plain("multi", 1, kConnection | kNoQueue, Multi, "transactions", "1.2.0",
          "Queues the following commands until EXEC."),
    Parent("object", -2, nullptr, "Attributes of a value.", kObjectSubs),
    Keyed("persist", 2, kWrite | kFast, Persist, "generic", "2.2.0",
          "Removes a key's time to live."),
    Keyed("pexpire", -3, kWrite | kFast, PExpire, "generic", "2.6.0",
          "Sets a key's time to live in milliseconds."),
    Keyed("pexpireat", -3, kWrite | kFast, PExpireAt, "generic", "2.6.0",
          "Sets the Unix time in milliseconds at which a key expires."),
    Keyed("pexpiretime", 2, kRead | kFast, PExpireTime, "generic", "7.0.0",
          "The Unix time in milliseconds at which a key expires."),
    Plain("ping", -1, kFast, Ping, "connection", "1.0.0", "Returns PONG, or its argument."),
    Keyed("psetex", 4, kSetFlags, PSetEx, "string", "2.6.0",
          "Sets a key with a time to live in milliseconds."),
    Keyed("pttl", 2, kRead | kFast, PTtl, "generic", "2.6.0",
          "A key's remaining time to live in milliseconds."),
    Plain("quit", -1, kConnection | kNoAuth | kNoQueue, Quit, "connection", "1.0.0",
          "Closes the connection."),
    Plain("randomkey", 1, kRead, RandomKey, "generic", "1.0.0", "Any key."),
    Edit("rename", 3, 2),
    Edit("renamenx", 3, 2),
    Plain("reset", 1, kConnection | kNoAuth | kNoQueue, Reset, "connection", "6.2.0",
          "Resets the connection to the state of a new one."),
    Plain("scan", -2, kRead, Scan, "generic", "2.8.0", "Iterates over keys."),
    Plain("select", 2, kAnytime | kFast, Select, "connection", "1.0.0", "Chooses a database."),
    Keyed("set", -3, kSetFlags, Set, "string", "1.0.0", "Sets a key."),
    Edit("setbit", 4),
    Keyed("setex", 4, kSetFlags, SetEx, "string", "2.0.0",
          "Sets a key with a time to live in seconds."),
    Keyed("setnx", 3, kSetFlags | kFast, SetNx, "string", "1.0.0",
          "Sets a key if it is not present."),
    Edit("setrange", 4),
    Parent("slowlog", -2, nullptr, "The last slow commands.", kSlowLogSubs),
    Plain("spill.append", 2, kWrite, SpillAppend, "spillway", "0.1",
          "PIECE: the next bytes of the value that SPILL.BEGIN announced."),
    Keyed("spill.begin", -3, kSetFlags, SpillBegin, "spillway", "0.1",
          "KEY BYTES [options of SPILL.SET]: reserves memory for a value that is sent in pieces."),
    Plain("spill.commit", 1, kWrite, SpillCommit, "spillway", "0.1",
          "Makes the value that was sent in pieces visible."),
    Keyed("spill.explain", 2, kRead, SpillExplain, "spillway", "0.1",
          "KEY: where it is, why it was evicted, what would bring it back."),
    Keyed("spill.get", -2, kRead | kReadsValue, SpillGet, "spillway", "0.1",
          "KEY [RANGE offset bytes] [HINT again|done] [ETA 30s] [STEP name]: value, tokens, "
          "generation, agent and meta."),
    Parent("spill.graph", -2, nullptr, "The steps of agents, reported as they happen.", kGraphSubs),
    Keyed("spill.match", -2, kRead, SpillMatch, "spillway", "0.1",
          "KEY...: how many of them are present, from the first up to the first gap.", -1),
    Plain("spill.help", -1, kFast | kAnytime, SpillHelp, "spillway", "0.1",
          "[COMMAND]: the SPILL commands, or one of them."),
    Plain("spill.mode", 1, kRead | kFast | kAnytime, SpillMode, "spillway", "0.1",
          "Mode, level and pressure, and whether writes are refused."),
    Keyed("spill.prefetch", -2, kRead, SpillPrefetch, "spillway", "0.1",
          "KEY...: starts to copy them into free memory of the device tier.", -1),
    Plain("spill.pressure", 2, kAdmin, SpillPressure, "spillway", "0.1",
          "VALUE: runs one pass of the policy with this pressure, from 0 to 1."),
    Plain("spill.reclaim", 2, kAdmin, SpillReclaim, "spillway", "0.1",
          "BYTES: frees memory at once. Never destroys a last copy."),
    Keyed("spill.set", -3, kSetFlags, SpillSet, "spillway", "0.1",
          "KEY VALUE [TOKENS n] [AGENT a] [PARENT key] [TTL 30s] [META m] [HINT again|done] [ETA "
          "30s] [STEP name] [RECOMPUTE 2s]: sets a context."),
    Plain("spill.stats", -1, kRead | kAnytime, SpillStats, "spillway", "0.1",
          "What the cache holds and has done."),
    Keyed("spill.touch", -2, kRead | kFast, SpillTouch, "spillway", "0.1",
          "KEY [HINT again|done] [ETA 30s] [STEP name]: counts as a use."),
    Keyed("strlen", 2, kRead | kFast, StrLen, "string", "2.2.0", "Bytes of a value."),
    Keyed("substr", 4, kRead | kReadsValue, GetRange, "string", "1.0.0", "As GETRANGE."),
    Plain("time", 1, kAnytime | kFast, Time, "server", "2.6.0", "The time of day."),
    Keyed("touch", -2, kRead | kFast, Touch, "generic", "3.2.1", "Counts as a use of the keys.",
          -1),
    Keyed("ttl", 2, kRead | kFast, Ttl, "generic", "1.0.0",
          "A key's remaining time to live in seconds."),
    Keyed("type", 2, kRead | kFast, Type, "generic", "1.0.0", "string, or none."),
    Keyed("unlink", -2, kWrite | kFast, Del, "generic", "4.0.0", "Erases keys.", -1),
};

// Hash table by lower-case name: open addressing, at least four places for each command.
constexpr std::size_t kPlaces = 512;
static_assert(kPlaces > 4 * kCommands.size());

constexpr std::size_t PlaceOf(std::string_view name) {
  std::uint32_t hash = 2'166'136'261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return (hash ^ (hash >> 15U)) % kPlaces;
}

constexpr auto kByName = [] {
  std::array<std::uint8_t, kPlaces> places{};  // Number + 1; 0: empty.
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    std::size_t at = PlaceOf(kCommands[i].name);
    while (places[at] != 0) at = (at + 1) % kPlaces;
    places[at] = static_cast<std::uint8_t>(i + 1);
  }
  return places;
}();

constexpr std::size_t kNameMax = 32;

// The name in lower case. Empty: longer than any command's name.
std::string_view LowerName(std::string_view name, std::array<char, kNameMax>* buffer) {
  if (name.size() > kNameMax) return {};
  std::ranges::transform(name, buffer->begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return {buffer->data(), name.size()};
}

const std::unordered_map<const Command*, std::size_t>& SubNumbers() {
  static const auto* const map = [] {
    auto* made = new std::unordered_map<const Command*, std::size_t>;
    std::size_t next = kCommands.size();
    for (const Command& command : kCommands) {
      for (const Command& sub : command.subcommands) made->emplace(&sub, next++);
    }
    return made;
  }();
  return *map;
}

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  std::array<char, kNameMax> buffer{};
  const std::string_view lower = LowerName(name, &buffer);
  for (std::size_t at = PlaceOf(lower); kByName[at] != 0; at = (at + 1) % kPlaces) {
    if (kCommands[kByName[at] - 1U].name == lower) return &kCommands[kByName[at] - 1U];
  }
  return nullptr;
}

const Command* FindSubcommand(const Command& command, std::string_view name) {
  std::array<char, kNameMax> buffer{};
  const std::string_view lower = LowerName(name, &buffer);
  const auto it = std::ranges::find(command.subcommands, lower, &Command::name);
  return it == command.subcommands.end() ? nullptr : &*it;
}

std::size_t NumberOf(const Command& command) {
  const Command* const first = kCommands.data();
  if (&command >= first && &command < first + kCommands.size()) {
    return static_cast<std::size_t>(&command - first);
  }
  return SubNumbers().at(&command);
}

std::size_t CommandCount() { return kCommands.size() + SubNumbers().size(); }

}  // namespace spillway::server
