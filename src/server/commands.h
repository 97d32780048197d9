// SPDX-License-Identifier: Apache-2.0
// The commands' handlers, one file for each family. A handler replies exactly once, or suspends the
// command (call.waits).
#pragma once

#include "server/command.h"

namespace spillway::server {

// strings (commands_string.cc)
void Get(Call& call);
void Set(Call& call);
void SetNx(Call& call);
void SetEx(Call& call);
void PSetEx(Call& call);
void GetSet(Call& call);
void GetDel(Call& call);
void GetEx(Call& call);
void MGet(Call& call);
void MSet(Call& call);
void MSetNx(Call& call);
void StrLen(Call& call);
void GetRange(Call& call);
void GetBit(Call& call);
void NotOffered(Call& call);  // Commands that edit a value in place.

// keys (commands_key.cc)
void Del(Call& call);
void Exists(Call& call);
void Touch(Call& call);
void Type(Call& call);
void Keys(Call& call);
void Scan(Call& call);
void RandomKey(Call& call);
void DbSize(Call& call);
void FlushDb(Call& call);
void FlushAll(Call& call);
void ObjectEncoding(Call& call);
void ObjectFreq(Call& call);
void ObjectIdleTime(Call& call);
void ObjectRefCount(Call& call);
void MemoryUsage(Call& call);

// expiry (commands_expire.cc)
void Expire(Call& call);
void PExpire(Call& call);
void ExpireAt(Call& call);
void PExpireAt(Call& call);
void Ttl(Call& call);
void PTtl(Call& call);
void ExpireTime(Call& call);
void PExpireTime(Call& call);
void Persist(Call& call);
// Reads the option EX, PX, EXAT or PXAT as milliseconds of Unix time. False: an error was replied.
bool ExpireOption(Call& call, std::string_view option, std::string_view text,
                  std::int64_t* unix_ms);

// connections (commands_connection.cc)
void Ping(Call& call);
void Echo(Call& call);
void Select(Call& call);
void Auth(Call& call);
void Hello(Call& call);
void Quit(Call& call);
void Reset(Call& call);
void Multi(Call& call);
void Exec(Call& call);
void Discard(Call& call);

// CLIENT (commands_client.cc)
void ClientId(Call& call);
void ClientInfo(Call& call);
void ClientList(Call& call);
void ClientGetName(Call& call);
void ClientSetName(Call& call);
void ClientSetInfo(Call& call);
void ClientNoEvict(Call& call);
void ClientNoTouch(Call& call);
void ClientKill(Call& call);
void ClientReply(Call& call);
void ClientTracking(Call& call);
void ClientTrackingInfo(Call& call);
void ClientGetRedir(Call& call);
void ClientCaching(Call& call);

// the daemon (commands_server.cc, commands_info.cc)
void Time(Call& call);
void Info(Call& call);
void CommandAll(Call& call);
void CommandCountOf(Call& call);
void CommandInfo(Call& call);
void CommandDocs(Call& call);
void CommandList(Call& call);
void ConfigGet(Call& call);
void ConfigSet(Call& call);
void ConfigResetStat(Call& call);
void ModuleList(Call& call);
void FunctionFlush(Call& call);
void SlowLogGet(Call& call);
void SlowLogLen(Call& call);
void SlowLogReset(Call& call);
void AclWhoAmI(Call& call);
void Help(Call& call);  // Of a command with subcommands.

// SPILL.* (commands_spill.cc)
void SpillSet(Call& call);
void SpillGet(Call& call);
void SpillMatch(Call& call);
void SpillTouch(Call& call);
void SpillPrefetch(Call& call);
void SpillExplain(Call& call);
void SpillStats(Call& call);
void SpillHelp(Call& call);
void SpillMode(Call& call);
void SpillReclaim(Call& call);
void SpillPressure(Call& call);
void SpillBegin(Call& call);
void SpillAppend(Call& call);
void SpillCommit(Call& call);

// SPILL.GRAPH (commands_graph.cc)
void GraphLoad(Call& call);
void GraphStart(Call& call);
void GraphFinish(Call& call);
void GraphSkip(Call& call);
void GraphLoop(Call& call);
void GraphEnd(Call& call);
void GraphSteps(Call& call);
void GraphOrder(Call& call);

}  // namespace spillway::server
