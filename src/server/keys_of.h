// SPDX-License-Identifier: Apache-2.0
// Which keys a command touches, and holding them while it waits (key_locks.h).
#pragma once

#include <string>
#include <vector>

#include "server/command.h"

namespace spillway::server {

// As the cache knows them; those of all queued commands, for EXEC.
std::vector<std::string> KeysOf(const Call& call);

// Those of one command, sent or queued, in that database.
std::vector<std::string> KeysOf(const Command& command, Args args, int db);

// While the disk tier does not record what is overwritten or erased, an older value might
// come back after a kill: a command that writes, or EXEC of one, is answered with MISCONF.
bool MayWrite(Call& call);

// While the disk tier is read in, a key that is not there may yet be found: a command
// whose reply or effect could differ then waits. After ten seconds it is answered with
// LOADING. Reads of keys that are there already are served.
bool KnowsItsKeys(Call& call);

// Whether no other client's waiting command holds any of them. If one does, the
// command waits its turn, or has waited too long and is answered.
bool TakesTurn(Call& call);

// For a command that is about to wait.
void HoldKeys(Call& call);

}  // namespace spillway::server
