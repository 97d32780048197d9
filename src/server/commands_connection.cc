// SPDX-License-Identifier: Apache-2.0
// Connections: authentication, protocol version, database, and transactions.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/mutant.h"
#include "server/commands.h"
#include "spillway/version.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

// Takes the same time for a wrong password as for the right one, so that time does not tell how
// many letters of it were right.
bool SameSecret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(c) ^ static_cast<unsigned char>(secret[i]);
  }
  return difference == 0;
}

// There is one user: "default".
bool TryAuth(State& state, Session& session, std::string_view user, std::string_view password) {
  const bool known = user == "default";
  const bool right =
      state.settings.password.empty() || SameSecret(password, state.settings.password);
  if (!known || !right) return false;
  session.authenticated = true;
  return true;
}

constexpr std::string_view kWrongPassword =
    "WRONGPASS invalid username-password pair or user is disabled.";

bool NameFits(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c >= '!' && c <= '~'; });
}

}  // namespace

void Ping(Call& call) {
  if (call.args.size() > 2) {
    call.Error("ERR wrong number of arguments for 'ping' command");
  } else if (call.args.size() == 2) {
    call.reply.Bulk(call.arg(1));
  } else {
    call.reply.Simple("PONG");
  }
}

void Echo(Call& call) { call.reply.Bulk(call.arg(1)); }

void Select(Call& call) {
  std::int64_t db = 0;
  if (!IntegerArg(call, 1, &db)) return;
  if (db < std::numeric_limits<int>::min() || db > std::numeric_limits<int>::max()) {
    return call.Error("ERR value is out of range, value must between -2147483648 and 2147483647");
  }
  if (db < 0 || db >= kDatabases) return call.Error("ERR DB index is out of range");
  call.session.db = static_cast<int>(db);
  call.reply.Ok();
}

void Auth(Call& call) {
  if (call.args.size() > 3) return call.SyntaxError();
  if (call.args.size() == 2 && call.state.settings.password.empty()) {
    return call.Error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const std::string_view user = call.args.size() == 3 ? call.arg(1) : "default";
  if (!TryAuth(call.state, call.session, user, call.args.back())) {
    return call.Error(kWrongPassword);
  }
  call.reply.Ok();
}

void Hello(Call& call) {
  std::int64_t version = 0;
  Session& session = call.session;
  if (call.args.size() >= 2) {
    if (!wire::ReadInteger(call.arg(1), &version)) {
      return call.Error("ERR Protocol version is not an integer or out of range");
    }
    if (version < 2 || version > 3) return call.Error("NOPROTO unsupported protocol version");
  }
  std::string_view user;
  std::string_view password;
  std::string_view name;
  bool has_name = false;
  bool has_auth = false;
  for (std::size_t i = 2; i < call.args.size(); ++i) {
    const std::size_t more = call.args.size() - 1 - i;
    if (SameWord(call.arg(i), "auth") && more >= 2) {
      user = call.arg(i + 1);
      password = call.arg(i + 2);
      has_auth = true;
      i += 2;
    } else if (SameWord(call.arg(i), "setname") && more >= 1) {
      name = call.arg(++i);
      has_name = true;
      if (!NameFits(name)) {
        return call.Error(
            "ERR Client names cannot contain spaces, newlines or special characters.");
      }
    } else {
      return call.Error(fmt::format("ERR Syntax error in HELLO option '{}'", call.arg(i)));
    }
  }
  if (has_auth && !TryAuth(call.state, session, user, password)) return call.Error(kWrongPassword);
  if (!session.authenticated && !call.state.settings.password.empty()) {
    return call.Error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
  }
  if (has_name) session.name = name;
  session.said_hello = true;
  if (version != 0) session.protocol = static_cast<wire::Protocol>(version);
  wire::ReplyWriter reply(&session.out.text(), session.protocol);
  reply.Map(7);
  reply.Bulk("server");
  reply.Bulk("redis");
  reply.Bulk("version");
  reply.Bulk("7.0.15");
  reply.Bulk("proto");
  reply.Integer(static_cast<std::int64_t>(session.protocol));
  reply.Bulk("id");
  reply.Integer(static_cast<std::int64_t>(session.id));
  reply.Bulk("mode");
  reply.Bulk("standalone");
  reply.Bulk("role");
  reply.Bulk("master");
  reply.Bulk("modules");
  reply.Array(0);
}

void Quit(Call& call) {
  call.reply.Ok();
  call.session.close_after_replies = true;
}

void Reset(Call& call) {
  Session& session = call.session;
  session.EndMulti();
  session.protocol = wire::Protocol::kResp2;
  session.said_hello = false;
  session.authenticated = call.state.settings.password.empty();
  session.db = 0;
  session.name.clear();
  session.no_evict = session.no_touch = false;
  session.replies = Session::Replies::kOn;
  session.upload.reset();
  wire::ReplyWriter(&session.out.text(), session.protocol).Simple("RESET");
}

// --- transactions ---

void Multi(Call& call) {
  if (call.session.in_multi) return call.Error("ERR MULTI calls can not be nested");
  call.session.in_multi = true;
  call.reply.Ok();
}

void Discard(Call& call) {
  if (!call.session.in_multi) return call.Error("ERR DISCARD without MULTI");
  call.session.EndMulti();
  call.reply.Ok();
}

namespace {

void RunQueued(Call& call);
void WaitForQueued(Call& call);

// Continues the queued command that was suspended, and then runs those behind it. The session's
// `suspended` belongs to EXEC while EXEC waits, so that of the queued command is kept in the
// transaction and swapped in while the command runs.
void GoOnQueued(Call& call) {
  Session& session = call.session;
  Transaction& exec = *session.exec;
  const Words& words = exec.queued[exec.at];
  const std::vector<std::string_view> args(words.begin(), words.end());
  std::swap(session.suspended, exec.suspended);
  session.suspended.bound = exec.suspended.bound;
  if (Continue(call.state, session, args)) {
    ++exec.at;
    if (session.wrote) session.half_done = true;
    return RunQueued(call);
  }
  WaitForQueued(call);
}

// A queued command was suspended: suspends EXEC for the same reason.
void WaitForQueued(Call& call) {
  Session& session = call.session;
  Transaction& exec = *session.exec;
  exec.suspended = std::exchange(session.suspended, {});
  session.suspended.bound = exec.suspended.bound;
  call.Suspend(exec.suspended.why, GoOnQueued);
}

void RunQueued(Call& call) {
  Session& session = call.session;
  Transaction& exec = *session.exec;
  for (; exec.at < exec.queued.size(); ++exec.at) {
    if (session.out.over() && !MutantOn(Mutant::kExecIgnoresOutputBound)) {
      // The client must read replies first. Its locks are released: a slow client must not keep
      // others from the keys.
      call.state.key_locks.Release(session.id);
      return call.Suspend(Wait::kOutput, RunQueued);
    }
    const Words& words = exec.queued[exec.at];
    const std::vector<std::string_view> args(words.begin(), words.end());
    if (!Dispatch(call.state, session, args)) return WaitForQueued(call);
    if (session.wrote) session.half_done = true;
  }
  session.exec.reset();
}

}  // namespace

void Exec(Call& call) {
  Session& session = call.session;
  if (!session.in_multi) return call.Error("ERR EXEC without MULTI");
  if (session.multi_failed) {
    session.EndMulti();
    return call.Error("EXECABORT Transaction discarded because of previous errors.");
  }
  call.reply.Array(session.queued.size());
  session.exec.emplace();
  session.exec->queued = std::move(session.queued);
  session.exec->db = session.db;
  session.EndMulti();
  RunQueued(call);
}

}  // namespace spillway::server
