// Connections: who a client is, how it speaks, and transactions.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "server/commands.h"
#include "spillway/version.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

// Takes as long for a wrong password as for a right one, whatever they share.
bool SameSecret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(c) ^ static_cast<unsigned char>(secret[i]);
  }
  return difference == 0;
}

// The one user is "default".
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

void EndMulti(Session& session) {
  session.in_multi = session.multi_failed = false;
  session.queued = {};
  session.queued_bytes = 0;
  session.exec_at = 0;
}

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
  EndMulti(session);
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
  EndMulti(call.session);
  call.reply.Ok();
}

void Exec(Call& call) {
  Session& session = call.session;
  if (!session.in_multi) return call.Error("ERR EXEC without MULTI");
  if (session.multi_failed) {
    EndMulti(session);
    return call.Error("EXECABORT Transaction discarded because of previous errors.");
  }
  // One that had to wait goes on where it was. Its replies up to there stand; only
  // what the waiting command itself said has been taken back.
  if (session.exec_at == 0) call.reply.Array(session.queued.size());
  session.in_multi = false;
  while (session.exec_at < session.queued.size()) {
    const Words& words = session.queued[session.exec_at];
    const std::vector<std::string_view> args(words.begin(), words.end());
    if (!Dispatch(call.state, session, args)) {
      session.in_multi = true;
      call.waits = true;
      return;
    }
    ++session.exec_at;
  }
  EndMulti(session);
}

}  // namespace spillway::server
