// SPDX-License-Identifier: Apache-2.0
// The commands, as one table. Checks of arity and flags, the replies of COMMAND, and dispatch all
// read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/session.h"
#include "server/state.h"
#include "wire/reply.h"

namespace spillway::server {

using Args = std::span<const std::string_view>;
struct Command;

// One command as it runs.
struct Call {
  State& state;
  Session& session;
  const Command& command;
  Args args;
  wire::ReplyWriter reply;

  std::string_view arg(std::size_t i) const { return args[i]; }
  void Error(std::string_view text) {
    failed = true;
    reply.Error(text);
  }
  void SyntaxError() { Error("ERR syntax error"); }
  // Suspends the command until `why` has happened, then runs `then`. Without `then` the command
  // runs from its start, so it must have changed nothing and replied nothing before.
  void Suspend(Wait why, Continuation then = {}) {
    waits = true;
    session.suspended.why = why;
    session.suspended.then = std::move(then);
  }
  bool failed = false;
  bool dropped = false;  // A write found no room and was acknowledged.
  bool waits = false;
};

enum Flag : std::uint32_t {
  kWrite = 1U << 0U,
  kReadOnly = 1U << 1U,
  kDenyOom = 1U << 2U,
  kFast = 1U << 3U,
  kNoAuth = 1U << 4U,
  kNoMulti = 1U << 5U,
  kAdmin = 1U << 6U,
  kLoading = 1U << 7U,
  kStale = 1U << 8U,
  kNoScript = 1U << 9U,
  kReadsValue = 1U << 10U,  // The values of its keys must be in memory.
  kNoQueue = 1U << 11U,     // Is not queued inside MULTI: it runs at once.
};

struct Command {
  std::string_view name;  // Lower case. Of a subcommand: without its parent.
  int arity = 0;          // Number of arguments with the name. Negative: at least that many.
  std::uint32_t flags = 0;
  int first_key = 0;
  int last_key = 0;
  int key_step = 0;
  void (*run)(Call& call) = nullptr;
  std::string_view group;
  std::string_view since;
  std::string_view summary;
  std::span<const Command> subcommands = {};
  std::string_view parent = {};

  std::string full_name() const {
    return parent.empty() ? std::string(name) : std::string(parent) + "|" + std::string(name);
  }
};

std::span<const Command> Commands();
// Null: no such command.
const Command* FindCommand(std::string_view name);
const Command* FindSubcommand(const Command& command, std::string_view name);
// The command's index among all commands and subcommands, for counters.
std::size_t NumberOf(const Command& command);
std::size_t CommandCount();

// Checks, queues or runs one request. False: it is suspended, for the reason in
// `session.suspended`; once that has happened, call Continue with the same arguments.
bool Dispatch(State& state, Session& session, Args args);
bool Continue(State& state, Session& session, Args args);

// --- for handlers ---

bool SameWord(std::string_view a, std::string_view b);  // Ignores case.
std::string Lower(std::string_view text);
bool IntegerArg(Call& call, std::size_t i, std::int64_t* number);

// The cache key of argument `i`. Empty: it was refused, and an error has been replied.
std::string_view KeyArg(Call& call, std::size_t i, std::string* buffer);

// Leases a value in memory. kWaits: the command has been suspended and will run from its start when
// the value is in memory; so a command must read before it writes.
enum class Read : std::uint8_t { kHit, kMiss, kWaits, kFailed };
Read ReadValue(Call& call, std::string_view cache_key, Lease* lease);
void ReplyValue(Call& call, Lease lease);
// Replies `bytes` of the value, from offset `from`.
void ReplyRange(Call& call, Lease lease, std::size_t from, std::size_t bytes);

// Changes the deadline of a live key, whichever tier has its value. Never waits.
void ChangeDeadline(Call& call, std::string_view cache_key, TimePoint deadline);

inline constexpr std::string_view kOutOfMemory =
    "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view kNotDurable =
    "MISCONF The disk tier does not record deletes: writes are refused until it does, since an "
    "older value might come back after a crash. See the log.";

}  // namespace spillway::server
