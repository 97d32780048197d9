// What happens to a request before its handler runs, in the order in which Redis
// checks, and after.
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "base/printable.h"
#include "server/command.h"

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

void NoteTime(State& state, Session& session, const Command& command, Args args,
              std::int64_t microseconds) {
  CommandCounts& counts = state.counts[NumberOf(command)];
  ++counts.calls;
  counts.microseconds += static_cast<std::uint64_t>(microseconds);
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

void Queue(State& state, Session& session, Args args) {
  Words words(args.begin(), args.end());
  for (const std::string& word : words) session.queued_bytes += word.size() + sizeof(std::string);
  if (session.queued_bytes > kQueuedBytesMax) {
    Reject(state, session, nullptr,
           "ERR the commands queued since MULTI hold more than 64 MiB; send fewer or smaller ones");
    return;
  }
  session.queued.push_back(std::move(words));
  wire::ReplyWriter(&session.out.text(), session.protocol).Simple("QUEUED");
}

// Runs a checked command. False: it waits.
bool Run(State& state, Session& session, const Command& command, Args args) {
  const Output::Mark mark = session.out.mark();
  Call call{state, session, command, args,
            wire::ReplyWriter(&session.out.text(), session.protocol)};
  command.run(call);
  if (call.waits) {
    session.out.TakeBack(mark);
    return false;
  }
  session.held.clear();
  session.unreachable.clear();
  session.no_more_waiting = false;
  session.waits_since = {};
  if ((command.flags & kWrite) != 0) session.wrote = true;
  if (call.failed) {
    ++state.counts[NumberOf(command)].failed;
    state.counters.errors.fetch_add(1, std::memory_order_relaxed);
  }
  NoteTime(state, session, command, args, state.TimeSinceLast());
  session.last_command = command.name.data();
  return true;
}

}  // namespace

bool Dispatch(State& state, Session& session, Args args) {
  state.counters.commands.fetch_add(1, std::memory_order_relaxed);
  const Command* const command = Meant(state, session, args);
  if (command == nullptr) return true;
  if (!session.authenticated && !state.settings.password.empty() &&
      (command->flags & kNoAuth) == 0) {
    Reject(state, session, command, "NOAUTH Authentication required.");
    return true;
  }
  if (session.in_multi && (command->flags & kNoMulti) != 0) {
    Reject(state, session, command, "ERR Command not allowed inside a transaction");
    return true;
  }
  if (session.in_multi && (command->flags & kNoQueue) == 0) {
    Queue(state, session, args);
    return true;
  }
  return Run(state, session, *command, args);
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
