// SPDX-License-Identifier: Apache-2.0
// CLIENT: the connected clients.
#include <algorithm>

#include <fmt/format.h>

#include "server/commands.h"
#include "wire/request.h"

namespace spillway::server {

namespace {

std::string Describe(State& state, const Session& session) {
  const auto seconds = [](Duration time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
  };
  const TimePoint now = state.direct().Now();
  const TimePoint active{Duration(session.last_active.load(std::memory_order_relaxed))};
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 "
      "multi={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl={} oll=0 omem={} "
      "tot-mem={} events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
      session.id, session.address, session.local_address, session.fd, session.name,
      seconds(now - session.since), seconds(now - active), session.in_multi ? "x" : "N", session.db,
      session.in_multi ? static_cast<std::int64_t>(session.queued.size()) : -1,
      session.queued_bytes, session.out_bytes.load(), session.out_leased.load(),
      session.out_bytes.load(), session.last_command, static_cast<int>(session.protocol),
      session.library, session.library_version);
}

bool Printing(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '!' && c <= '~'; });
}

}  // namespace

void ClientId(Call& call) { call.reply.Integer(static_cast<std::int64_t>(call.session.id)); }

void ClientInfo(Call& call) { call.reply.Verbatim(Describe(call.state, call.session) + "\n"); }

void ClientList(Call& call) {
  std::vector<std::uint64_t> wanted;
  bool none = false;
  if (call.args.size() == 4 && SameWord(call.arg(2), "type")) {
    const std::string_view type = call.arg(3);
    const bool known = SameWord(type, "normal") || SameWord(type, "master") ||
                       SameWord(type, "replica") || SameWord(type, "slave") ||
                       SameWord(type, "pubsub");
    if (!known) return call.Error(fmt::format("ERR Unknown client type '{}'", type));
    none = !SameWord(type, "normal");
  } else if (call.args.size() > 3 && SameWord(call.arg(2), "id")) {
    for (std::size_t i = 3; i < call.args.size(); ++i) {
      std::int64_t id = 0;
      if (!wire::ReadInteger(call.arg(i), &id)) return call.Error("ERR Invalid client ID");
      wanted.push_back(static_cast<std::uint64_t>(id));
    }
  } else if (call.args.size() != 2) {
    return call.SyntaxError();
  }
  std::string list;
  for (const auto& [id, session] : call.state.clients) {
    if (none || (!wanted.empty() && std::ranges::find(wanted, id) == wanted.end())) continue;
    list += Describe(call.state, *session) + "\n";
  }
  call.reply.Verbatim(list);
}

void ClientGetName(Call& call) {
  call.session.name.empty() ? call.reply.Null() : call.reply.Bulk(call.session.name);
}

void ClientSetName(Call& call) {
  if (!Printing(call.arg(2))) {
    return call.Error("ERR Client names cannot contain spaces, newlines or special characters.");
  }
  call.session.name = call.arg(2);
  call.reply.Ok();
}

void ClientSetInfo(Call& call) {
  const bool name = SameWord(call.arg(2), "lib-name");
  if (!name && !SameWord(call.arg(2), "lib-ver")) {
    return call.Error(fmt::format("ERR Unrecognized option '{}'", call.arg(2)));
  }
  if (!Printing(call.arg(3))) {
    return call.Error(fmt::format("ERR {} cannot contain spaces, newlines or special characters.",
                                  Lower(call.arg(2))));
  }
  (name ? call.session.library : call.session.library_version) = call.arg(3).substr(0, 256);
  call.reply.Ok();
}

namespace {
void OnOff(Call& call, bool* flag) {
  const bool on = SameWord(call.arg(2), "on");
  if (!on && !SameWord(call.arg(2), "off")) return call.SyntaxError();
  *flag = on;
  call.reply.Ok();
}
}  // namespace

void ClientNoEvict(Call& call) { OnOff(call, &call.session.no_evict); }
void ClientNoTouch(Call& call) { OnOff(call, &call.session.no_touch); }

void ClientReply(Call& call) {
  if (SameWord(call.arg(2), "on")) {
    call.session.replies = Session::Replies::kOn;
    call.reply.Ok();
  } else if (SameWord(call.arg(2), "off")) {
    call.session.replies = Session::Replies::kOff;
  } else if (SameWord(call.arg(2), "skip")) {
    if (call.session.replies == Session::Replies::kOn) {
      call.session.replies = Session::Replies::kSkipNext;
    }
  } else {
    call.SyntaxError();
  }
}

// --- client-side caching: never on ---

void ClientTracking(Call& call) {
  for (std::size_t i = 3; i < call.args.size(); ++i) {
    const bool with_value = SameWord(call.arg(i), "redirect") || SameWord(call.arg(i), "prefix");
    const bool alone = SameWord(call.arg(i), "bcast") || SameWord(call.arg(i), "optin") ||
                       SameWord(call.arg(i), "optout") || SameWord(call.arg(i), "noloop");
    if (with_value && i + 1 < call.args.size()) {
      ++i;
    } else if (!alone) {
      return call.SyntaxError();
    }
  }
  if (SameWord(call.arg(2), "off")) return call.reply.Ok();
  if (!SameWord(call.arg(2), "on")) return call.SyntaxError();
  call.Error(
      "ERR client-side caching is not offered: values are evicted under memory pressure, and "
      "clients are not told; keep CLIENT TRACKING off");
}

void ClientTrackingInfo(Call& call) {
  call.reply.Map(3);
  call.reply.Bulk("flags");
  call.reply.Set(1);
  call.reply.Bulk("off");
  call.reply.Bulk("redirect");
  call.reply.Integer(-1);
  call.reply.Bulk("prefixes");
  call.reply.Array(0);
}

void ClientGetRedir(Call& call) { call.reply.Integer(-1); }

void ClientCaching(Call& call) {
  call.Error(
      "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
      "OPTOUT mode enabled");
}

void ClientKill(Call& call) {
  const bool old_form = call.args.size() == 3;
  std::string_view address;
  std::string_view local;
  std::int64_t id = 0;
  bool skip_me = !old_form;
  bool normal = true;
  if (old_form) address = call.arg(2);
  if (!old_form && call.args.size() % 2 != 0) return call.SyntaxError();
  for (std::size_t i = 2; !old_form && i + 1 < call.args.size(); i += 2) {
    const std::string_view value = call.arg(i + 1);
    if (SameWord(call.arg(i), "id")) {
      if (!wire::ReadInteger(value, &id)) {
        return call.Error("ERR client-id should be greater than 0");
      }
      if (id < 1) return call.Error("ERR client-id should be greater than 0");
    } else if (SameWord(call.arg(i), "addr")) {
      address = value;
    } else if (SameWord(call.arg(i), "laddr")) {
      local = value;
    } else if (SameWord(call.arg(i), "type")) {
      normal = SameWord(value, "normal");
    } else if (SameWord(call.arg(i), "user")) {
      if (value != "default") {
        return call.Error(fmt::format("ERR No such user '{}'", value));
      }
    } else if (SameWord(call.arg(i), "skipme") &&
               (SameWord(value, "yes") || SameWord(value, "no"))) {
      skip_me = SameWord(value, "yes");
    } else {
      return call.SyntaxError();
    }
  }
  std::int64_t killed = 0;
  for (const auto& [number, session] : call.state.clients) {
    if (!address.empty() && session->address != address) continue;
    if (!local.empty() && session->local_address != local) continue;
    if (id != 0 && number != static_cast<std::uint64_t>(id)) continue;
    if (!normal || (skip_me && session == &call.session)) continue;
    ++killed;
    if (session == &call.session) {
      session->close_after_replies = true;
    } else {
      session->kill.store(true, std::memory_order_relaxed);
      call.state.any_kill.store(true, std::memory_order_relaxed);
    }
  }
  if (!old_form) return call.reply.Integer(killed);
  killed > 0 ? call.reply.Ok() : call.Error("ERR No such client");
}

}  // namespace spillway::server
