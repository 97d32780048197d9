// SPDX-License-Identifier: Apache-2.0
// What happens to a request before its handler runs, in the order in which Redis
// checks, and after.
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "server/command.h"
#include "server/keys_of.h"

namespace spillway::server {

namespace {

constexpr std::size_t kNameShown = 128;
constexpr std::size_t kQueuedBytesMax = 64 * kMiB;

// As Redis shows a word in an error: up to a zero byte, and not all of it.
std::string_view Cut(std::string_view word, std::size_t most) {
  return word.substr(0, std::min(most, word.find('\0')));
}

// As much of the arguments as the error for an unknown command shows.
std::string UnknownCommand(Args args) {
  std::string shown;
  for (std::size_t i = 1; i < args.size() && shown.size() < kNameShown; ++i) {
    shown += fmt::format("'{}' ", Cut(args[i], kNameShown - shown.size()));
  }
  return fmt::format("ERR unknown command '{}', with args beginning with: {}",
                     Cut(args[0], kNameShown), shown);
}

std::string WrongArity(const Command& command) {
  return fmt::format("ERR wrong number of arguments for '{}' command", command.full_name());
}

bool ArityFits(const Command& command, std::size_t words) {
  const auto wanted = static_cast<std::size_t>(std::abs(command.arity));
  return command.arity >= 0 ? words == wanted : words >= wanted;
}

void Reject(State& state, Session& session, const Command* command, std::string_view why) {
  if (session.in_multi) session.multi_failed = true;
  if (command != nullptr) ++state.counts[NumberOf(*command)].rejected;
  state.counters.errors.fetch_add(1, std::memory_order_relaxed);
  wire::ReplyWriter(&session.out.text(), session.protocol).Error(why);
}

// The command meant, or null and an answer.
const Command* Meant(State& state, Session& session, Args args) {
  const Command* command = FindCommand(args[0]);
  if (command == nullptr) {
    Reject(state, session, nullptr, UnknownCommand(args));
    return nullptr;
  }
  if (!command->subcommands.empty() && args.size() > 1) {
    const Command* const sub = FindSubcommand(*command, args[1]);
    if (sub == nullptr && command->run == nullptr) {
      std::string name = Lower(command->name);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
      Reject(
          state, session, command,
          fmt::format("ERR unknown subcommand '{}'. Try {} HELP.", Cut(args[1], kNameShown), name));
      return nullptr;
    }
    if (sub != nullptr) command = sub;
  }
  if (!ArityFits(*command, args.size()) || command->run == nullptr) {
    Reject(state, session, command, WrongArity(*command));
    return nullptr;
  }
  return command;
}

// What the slow log keeps: names and keys, never a value.
std::vector<std::string> WordsForLog(const Command& command, Args args) {
  constexpr std::size_t kWordsMax = 32;
  std::vector<std::string> words;
  const bool secret = command.name == "auth" || command.name == "hello" ||
                      (command.parent == "config" && command.name == "set");
  const std::size_t first = command.parent.empty() ? 1 : 2;
  for (std::size_t i = 0; i < args.size() && words.size() < kWordsMax; ++i) {
    const bool name = i < first;
    const auto at = static_cast<int>(i);
    const int last =
        command.last_key < 0 ? static_cast<int>(args.size()) + command.last_key : command.last_key;
    const bool key = command.first_key > 0 && at >= command.first_key && at <= last &&
                     (at - command.first_key) % std::max(command.key_step, 1) == 0;
    if (name || (key && !secret)) {
      words.push_back(Printable(args[i], 128));
    } else {
      words.push_back(fmt::format("({} bytes)", args[i].size()));
    }
  }
  return words;
}

constexpr std::array<std::string_view, 5> kReads = {"get", "getex", "getrange", "mget",
                                                    "spill.get"};

// `since`: of the command's first wait, zero if it did not wait.
void NoteTime(State& state, Session& session, const Command& command, Args args,
              std::int64_t microseconds, TimePoint since) {
  CommandCounts& counts = state.counts[NumberOf(command)];
  ++counts.calls;
  counts.microseconds += static_cast<std::uint64_t>(microseconds);
  if (std::ranges::find(kReads, command.name) != kReads.end()) {
    const std::chrono::duration<double> waited =
        since == TimePoint{} ? Duration::zero() : state.last_time() - since;
    state.read_times.Add(static_cast<double>(microseconds) / 1e6 + waited.count());
  }
  if (state.settings.slowlog_us < 0 || microseconds < state.settings.slowlog_us) return;
  if (command.name == "exec") return;  // Its commands are noted one by one.
  SlowCommand slow;
  slow.id = state.slow_next++;
  slow.unix_seconds = state.UnixMs() / 1000;
  slow.microseconds = microseconds;
  slow.words = WordsForLog(command, args);
  slow.address = session.address;
  slow.name = session.name;
  state.slow.push_front(std::move(slow));
  while (state.slow.size() > state.settings.slowlog_max) state.slow.pop_back();
}

// False: it was refused.
bool Queue(State& state, Session& session, Args args) {
  Words words(args.begin(), args.end());
  for (const std::string& word : words) session.queued_bytes += word.size() + sizeof(std::string);
  if (session.queued_bytes > kQueuedBytesMax) {
    Reject(state, session, nullptr,
           "ERR the commands queued since MULTI hold more than 64 MiB; send fewer or smaller ones");
    return false;
  }
  session.queued.push_back(std::move(words));
  wire::ReplyWriter(&session.out.text(), session.protocol).Simple("QUEUED");
  return true;
}

// How serving a request ended.
enum class Outcome : std::uint8_t { kWaits, kWell, kWithError };

// What a command kept while it waited, and held, is given up with its end.
void EndWaits(State& state, Session& session) {
  session.held.clear();
  session.unreachable.clear();
  session.lacked_room = false;
  if (!MutantOn(Mutant::kStalePendingAnswers)) session.pending.reset();
  session.suspended = {};
  if (session.exec) return;
  session.half_done = false;
  state.key_locks.Release(session.id);
}

// Of EXEC's commands those that waited and got nothing have one bound together; else an EXEC of
// many would hold its keys for as long as all of them.
void NoteWaitInVain(const Call& call, TimePoint since) {
  Session& session = call.session;
  const bool in_vain = call.failed || call.dropped || !session.unreachable.empty();
  if (!session.exec || since == TimePoint{} || !in_vain) return;
  if (!MutantOn(Mutant::kExecWaitsAnew)) session.waited += call.state.direct().Now() - since;
}

// Runs a checked command, or goes on with one that has waited.
Outcome Run(State& state, Session& session, const Command& command, Args args,
            Continuation then = {}) {
  const Output::Mark mark = session.out.mark();
  Call call{state, session, command, args,
            wire::ReplyWriter(&session.out.text(), session.protocol)};
  if (then) {
    then(call);
  } else if (MayWrite(call) && KnowsItsKeys(call) && TakesTurn(call)) {
    command.run(call);
  }
  if (call.waits) {
    // Where it goes on later, what it has answered stands.
    if (!session.suspended.then || MutantOn(Mutant::kExecHeaderTakenBack)) {
      session.out.TakeBack(mark);
    }
    session.suspended.command = &command;
    return Outcome::kWaits;
  }
  const TimePoint since = session.suspended.bound.since;
  NoteWaitInVain(call, since);
  EndWaits(state, session);
  if ((command.flags & kWrite) != 0) session.wrote = true;
  if (call.failed) {
    ++state.counts[NumberOf(command)].failed;
    state.counters.errors.fetch_add(1, std::memory_order_relaxed);
  }
  NoteTime(state, session, command, args, state.TimeSinceLast(), since);
  session.last_command = command.name.data();
  return call.failed ? Outcome::kWithError : Outcome::kWell;
}

Outcome Serve(State& state, Session& session, Args args) {
  state.counters.commands.fetch_add(1, std::memory_order_relaxed);
  const Command* const command = Meant(state, session, args);
  if (command == nullptr) return Outcome::kWithError;
  if (!session.authenticated && !state.settings.password.empty() &&
      (command->flags & kNoAuth) == 0) {
    Reject(state, session, command, "NOAUTH Authentication required.");
    return Outcome::kWithError;
  }
  if (session.in_multi && (command->flags & kNoMulti) != 0) {
    Reject(state, session, command, "ERR Command not allowed inside a transaction");
    return Outcome::kWithError;
  }
  if (session.in_multi && (command->flags & kNoQueue) == 0) {
    return Queue(state, session, args) ? Outcome::kWell : Outcome::kWithError;
  }
  return Run(state, session, *command, args);
}

}  // namespace

namespace {
bool Served(State& state, Session& session, Args args, Outcome outcome) {
  if (outcome == Outcome::kWaits) return false;
  if (state.on_command) state.on_command(session, args, outcome == Outcome::kWithError);
  return true;
}
}  // namespace

bool Dispatch(State& state, Session& session, Args args) {
  return Served(state, session, args, Serve(state, session, args));
}

bool Continue(State& state, Session& session, Args args) {
  const Command& command = *session.suspended.command;
  Continuation then = std::exchange(session.suspended.then, {});
  if (MutantOn(Mutant::kWaitRepeatsCommand) && !session.exec) then = {};
  session.suspended.why = Wait::kNone;
  return Served(state, session, args, Run(state, session, command, args, std::move(then)));
}

bool SameWord(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

}  // namespace spillway::server
