// Commands come from one table: what it says of a command is what is checked,
// what COMMAND tells, and what runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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
  bool failed = false;
  // It could not be done yet (Session says what for), has answered nothing, and
  // is to be run again.
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
  kNoQueue = 1U << 11U,     // Runs at once inside MULTI, too.
};

struct Command {
  std::string_view name;  // Lower case; a subcommand's without its parent.
  int arity = 0;          // Negative: at least so many.
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
// Its place among all commands and subcommands, for counting.
std::size_t NumberOf(const Command& command);
std::size_t CommandCount();

// Checks, queues or runs one request. False: it waits, and is to be given again.
bool Dispatch(State& state, Session& session, Args args);

// --- for handlers ---

bool SameWord(std::string_view a, std::string_view b);  // In any case of letters.
std::string Lower(std::string_view text);
bool IntegerArg(Call& call, std::size_t i, std::int64_t* number);

// The key of argument `i`, as the cache knows it; empty: refused, and answered.
std::string_view KeyArg(Call& call, std::size_t i, std::string* buffer);

// A value in memory. kWaits: call.waits is set.
enum class Read : std::uint8_t { kHit, kMiss, kWaits, kFailed };
Read ReadValue(Call& call, std::string_view cache_key, Lease* lease);
void ReplyValue(Call& call, Lease lease);

// What a write came to. kRefused: no tier may take it.
enum class Stored : std::uint8_t { kYes, kRefused, kWaits, kFailed };
struct Value {
  std::string_view bytes;
  bool apart = false;  // It has arrived in the session's room.
};
Value ValueArg(Call& call, std::size_t i);
Stored StoreValue(Call& call, std::string_view cache_key, int db, const Value& value,
                  const SetOptions& options, TimePoint deadline);
// For who was refused: drops or refuses, as on_blocked says. True: dropped, and
// to be acknowledged.
bool DropInstead(Call& call, std::string_view key, std::string_view cache_key);
// Gives a live key another deadline. False: it waits.
bool ChangeDeadline(Call& call, std::string_view cache_key, TimePoint deadline);

inline constexpr std::string_view kOutOfMemory =
    "OOM command not allowed when used memory > 'maxmemory'.";

}  // namespace spillway::server
