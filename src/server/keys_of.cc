// SPDX-License-Identifier: Apache-2.0
#include "server/keys_of.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "base/mutant.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

void AddKeys(const Command& command, Args args, int db, std::vector<std::string>* keys) {
  if (command.first_key == 0) return;
  const auto words = static_cast<int>(args.size());
  const int last = command.last_key < 0 ? words + command.last_key : command.last_key;
  std::string buffer;
  for (int i = command.first_key; i <= std::min(last, words - 1);
       i += std::max(command.key_step, 1)) {
    keys->emplace_back(CacheKey(db, args[static_cast<std::size_t>(i)], &buffer));
  }
}

// The database that a queued SELECT changes to.
int DbAfter(const Command& command, const Words& words, int db) {
  std::int64_t number = 0;
  const bool selects = command.name == "select" && words.size() == 2 &&
                       wire::ReadInteger(words[1], &number) && number >= 0 && number < kDatabases;
  return selects ? static_cast<int>(number) : db;
}

// Null: no such command. A queued one has been checked.
const Command* CommandOf(Args args) {
  const Command* const command = FindCommand(args[0]);
  if (command == nullptr || command->subcommands.empty() || args.size() < 2) return command;
  const Command* const sub = FindSubcommand(*command, args[1]);
  return sub != nullptr ? sub : command;
}

void AddQueued(const std::vector<Words>& queued, int db, std::vector<std::string>* keys) {
  for (const Words& words : queued) {
    const std::vector<std::string_view> args(words.begin(), words.end());
    const Command* const command = CommandOf(args);
    if (command == nullptr) continue;
    AddKeys(*command, args, db, keys);
    db = DbAfter(*command, words, db);
  }
}

bool IsExec(const Command& command) { return command.name == "exec"; }

// Whether the command, or one that EXEC is to run, changes anything.
bool Writes(const Call& call) {
  if (!IsExec(call.command)) return (call.command.flags & kWrite) != 0;
  return std::ranges::any_of(call.session.queued, [](const Words& words) {
    const std::vector<std::string_view> args(words.begin(), words.end());
    const Command* const command = CommandOf(args);
    return command != nullptr && (command->flags & kWrite) != 0;
  });
}

// A command that has not begun; EXEC forgets what was queued, as in Redis.
void RefuseToRun(Call& call, std::string_view why) {
  if (!IsExec(call.command)) return call.Error(why);
  call.session.EndMulti();
  call.Error(fmt::format("EXECABORT Transaction discarded because of: {}", why));
}

// Whether one command may answer or do something else once all keys are known.
bool NeedsOtherKeys(Direct& direct, const Command& command, Args args, int db) {
  constexpr std::size_t kLookedUp = 64;  // Each is looked up again at every try.
  if ((command.flags & kWrite) != 0) return true;
  if ((command.flags & kReadOnly) == 0) return false;
  if (command.first_key == 0) return (command.flags & kLoading) == 0;
  const std::vector<std::string> keys = KeysOf(command, args, db);
  return keys.size() > kLookedUp ||
         std::ranges::any_of(keys, [&](const std::string& key) { return !direct.Contains(key); });
}

// The same for a command that is to run, or for those that EXEC is to run.
bool NeedsOtherKeys(const Call& call) {
  Direct& direct = call.state.direct();
  if (!IsExec(call.command)) {
    return NeedsOtherKeys(direct, call.command, call.args, call.session.db);
  }
  int db = call.session.db;
  for (const Words& words : call.session.queued) {
    const std::vector<std::string_view> args(words.begin(), words.end());
    const Command* const command = CommandOf(args);
    if (command == nullptr) continue;
    if (NeedsOtherKeys(direct, *command, args, db)) return true;
    db = DbAfter(*command, words, db);
  }
  return false;
}

}  // namespace

std::vector<std::string> KeysOf(const Command& command, Args args, int db) {
  std::vector<std::string> keys;
  AddKeys(command, args, db, &keys);
  return keys;
}

bool MayWrite(Call& call) {
  if (!call.state.not_durable.load(std::memory_order_relaxed) || !Writes(call)) return true;
  RefuseToRun(call, kNotDurable);
  return false;
}

bool KnowsItsKeys(Call& call) {
  if (!call.state.direct().loading() || MutantOn(Mutant::kAnswersWhileLoading)) return true;
  if (!NeedsOtherKeys(call)) return true;
  if (!call.session.may_wait()) {
    RefuseToRun(
        call,
        "LOADING Redis is loading the dataset in memory: the disk tier is still being read in; try "
        "again");
  } else {
    call.Suspend(Wait::kLoading);
  }
  return false;
}

std::vector<std::string> KeysOf(const Call& call) {
  std::vector<std::string> keys;
  if (IsExec(call.command)) {
    AddQueued(call.session.queued, call.session.db, &keys);
  } else if (call.session.upload && call.command.name == "spill.commit") {
    keys.push_back(call.session.upload->key);
  } else {
    AddKeys(call.command, call.args, call.session.db, &keys);
  }
  return keys;
}

bool TakesTurn(Call& call) {
  const KeyLocks& locks = call.state.key_locks;
  if (locks.empty()) return true;
  const bool write = (call.command.flags & kWrite) != 0 || IsExec(call.command);
  const std::vector<std::string> keys = KeysOf(call);
  const bool free = std::ranges::all_of(
      keys, [&](const std::string& key) { return locks.IsFree(call.session.id, key, write); });
  if (free) return true;
  if (!call.session.may_wait()) {
    RefuseToRun(
        call, "ERR another client's write of this key still waits for room or the disk; try again");
  } else {
    call.Suspend(Wait::kTurn);
  }
  return false;
}

void HoldKeys(Call& call) {
  if (MutantOn(Mutant::kWaitHoldsNoKeys)) return;
  Session& session = call.session;
  if (session.exec) {
    // All of the transaction, so that nobody sees or changes a part of it.
    std::vector<std::string> keys;
    AddQueued(session.exec->queued, session.exec->db, &keys);
    return call.state.key_locks.Hold(session.id, keys, true);
  }
  const std::vector<std::string> keys = KeysOf(call);
  const bool write = (call.command.flags & kWrite) != 0;
  call.state.key_locks.Hold(session.id, keys, write && keys.size() > 1);
}

}  // namespace spillway::server
