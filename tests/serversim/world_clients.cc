// SPDX-License-Identifier: Apache-2.0
// Clients: what they send, what they get, and whether that is right.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "serversim/say.h"

namespace spillway::serversim {

namespace {
// As the server's own.
constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr int kTicksPerLook = 10;
}  // namespace

bool World::IsWaiting(const server::Session& session) {
  return session.suspended.command != nullptr || session.suspended.bound.began();
}

void World::Connect() {
  auto client = std::make_unique<Client>();
  client->wire = std::make_shared<Wire>();
  state_->connected.fetch_add(1);
  auto connection = std::make_shared<server::Connection>(
      state_.get(), &settler_, net_.MakeLink(client->wire), "client:1", "server:1");
  net_.Add(connection);
  connection->Start();
  client->id = state_->clients.rbegin()->first;
  client->session = state_->clients.rbegin()->second;
  client->talker.start = model_.moment();
  client->talker.start_ms = UnixMs();
  Say("client {} connects", client->id);
  clients_.push_back(std::move(client));
  if (rng_.OneIn(4)) Send(*clients_.back(), {"HELLO", "3"});
}

void World::Disconnect(Client& client) {
  Say("client {} hangs up", client.id);
  client.wire->client_gone = true;
  client.wire->to_client.clear();
}

void World::Send(Client& client, const Words& words) {
  Say("client {} sends {}", client.id, Shown(words));
  client.wire->to_server += Request(words);
  client.sent.push_back(words);
  ++client.unanswered;
  if (words[0] == "QUIT") client.quits = true;
}

void World::SendSome() {
  if (clients_.empty()) return Connect();
  Client& client = *clients_[rng_.Below(clients_.size())];
  if (client.wire->client_gone || client.quits || client.unanswered >= plan_.pipeline) return;
  // Who has sent much that was not read waits: so do clients with a full socket.
  if (client.wire->to_server.size() > 8 * plan_.value_max + 64 * kKiB) return;
  for (const Words& words : requests_.Next(UnixMs())) Send(client, words);
}

// What a command has said that has not ended yet is not known to be right.
std::size_t World::Readable(const Client& client) const {
  return std::min(client.wire->to_client.size(), client.expected.size());
}

void World::Read(Client& client) {
  std::string& bytes = client.wire->to_client;
  const std::size_t most = Readable(client);
  const bool part = rng_.OneIn(3) && !plan_.net.whole;
  const std::size_t count = part ? rng_.Between(1, most) : most;
  Acknowledge(client);
  if (bytes.compare(0, count, client.expected, 0, count) != 0) {
    return Fail(sim::kValues, fmt::format("client {} gets '{}' in place of '{}'", client.id,
                                          Shown(bytes.substr(0, count)),
                                          Shown(client.expected.substr(0, count))));
  }
  bytes.erase(0, count);
  client.expected.erase(0, count);
  client.read += count;
  while (client.acknowledged > 0 && client.due.front().end <= client.read) {
    if (client.due.front().ends_reply) --client.unanswered;
    client.due.pop_front();
    --client.acknowledged;
  }
}

// What has been handed to its socket reaches it, even if we are killed.
void World::Acknowledge(Client& client) {
  while (client.acknowledged < client.due.size() &&
         client.due[client.acknowledged].end <= client.wire->sent) {
    model_.Acknowledge(client.due[client.acknowledged++].command);
  }
}

World::Client* World::ClientOf(const server::Session& session) {
  for (const auto& client : clients_) {
    if (client->id == session.id) return client.get();
  }
  return nullptr;
}

// What the session has said since the last command took effect.
std::string World::TakeReply(Client& client, const server::Session& session) {
  std::vector<iovec> pieces(64);
  std::size_t count = 0;
  for (;;) {
    count = session.out.Pieces(pieces.data(), pieces.size());
    if (count < pieces.size()) break;
    pieces.resize(pieces.size() * 4);
  }
  std::uint64_t pending = 0;
  for (std::size_t i = 0; i < count; ++i) pending += pieces[i].iov_len;
  Wire& wire = *client.wire;
  const std::uint64_t all = wire.sent + session.out.cleared() + pending;
  std::string reply;
  if (all < client.told) {
    Fail(sim::kValues,
         fmt::format("client {}: replies were taken back that had been given", client.id));
    return reply;
  }
  const std::uint64_t bytes = all - client.told;
  if (bytes > pending) {
    // A part of it was sent, or was cleared when the client went: that part is not known.
    const std::uint64_t of_sent = wire.sent - std::min(wire.sent, client.told);
    const std::uint64_t sent = std::min<std::uint64_t>(of_sent, wire.log.size());
    reply = wire.log.substr(wire.log.size() - sent);
  }
  std::uint64_t skip = pending - std::min(pending, bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t here = std::min<std::uint64_t>(skip, pieces[i].iov_len);
    skip -= here;
    reply.append(static_cast<const char*>(pieces[i].iov_base) + here, pieces[i].iov_len - here);
  }
  client.told = all;
  wire.log.clear();
  return reply;
}

void World::OnCommand(const server::Session& session, std::span<const std::string_view> args,
                      bool) {
  if (dead_ || verdict_.failed()) return;
  CheckReplaced();
  Client* const client = ClientOf(session);
  Words words(args.begin(), args.end());
  if (client == nullptr) return Fail(sim::kLiveness, "a command of nobody: " + Shown(words));
  std::string reply = TakeReply(*client, session);
  if (verdict_.failed()) return;
  // A large value has been received apart.
  const std::size_t apart = session.apart_at;
  if (apart > 0 && apart < words.size() && !client->sent.empty() &&
      client->sent.front().size() == words.size()) {
    words[apart] = client->sent.front()[apart];
  }
  Talker& talker = client->talker;
  const bool in_exec = talker.in_multi && !client->sent.empty() && words != client->sent.front() &&
                       Lower(client->sent.front()[0]) == "exec";
  Say("client {} db {}: {}{}{} -> {}", client->id, talker.db, in_exec ? "in EXEC: " : "",
      Shown(words), client->waited ? " (waited)" : "", Shown(reply));
  Mark(Requests::IdOf(words[0]));
  Mark(DigestOf(reply, Requests::AnswersInWords(words[0])));
  std::string header;
  if (in_exec) {
    if (talker.exec_at >= talker.queued.size() || words != talker.queued[talker.exec_at]) {
      return Fail(sim::kValues, fmt::format("EXEC runs '{}', which is not its turn", Shown(words)));
    }
    if (talker.exec_at++ == 0) {
      header = fmt::format("*{}\r\n", talker.queued.size());
      if (session.out.cleared() > 0 && !reply.starts_with(header)) {
        header.clear();
      } else if (!reply.starts_with(header)) {
        return Fail(sim::kValues, fmt::format("client {}: EXEC of {} commands begins with '{}'",
                                              client->id, talker.queued.size(), Shown(reply)));
      }
    }
  } else {
    if (client->sent.empty() || words != client->sent.front()) {
      return Fail(sim::kValues,
                  fmt::format("client {}: '{}' ran in place of '{}'", client->id, Shown(words),
                              client->sent.empty() ? "" : Shown(client->sent.front())));
    }
    client->sent.pop_front();
  }
  const std::string_view body = std::string_view(reply).substr(header.size());
  const bool had_its_time = client->waited || client->waited_in_vain > Duration::zero();
  if (body == kOom && !had_its_time) CheckStalledRoom(*client);
  client->refused_at.reset();
  const std::uint64_t number = client->number != 0 ? std::exchange(client->number, 0) : ++commands_;
  const std::uint64_t dropped = state_->counters.dropped_writes;
  Command command{talker, words, body, number, client->waited, dropped - dropped_};
  dropped_ = dropped;
  const bool was_exec = std::exchange(talker.in_multi, talker.in_multi && !in_exec);
  const std::string wrong = model_.Check(command);
  if (in_exec) talker.in_multi = was_exec;
  // What waits in vain in one EXEC has one bound.
  const bool in_vain = command.dropped > 0 || body.starts_with('-');
  if (!in_exec) {
    client->waited_in_vain = {};
  } else if (client->waits_since && in_vain) {
    client->waited_in_vain += now() - *client->waits_since;
  }
  client->waited = false;
  client->waits_since.reset();
  if (!wrong.empty()) {
    return Fail(sim::kValues, fmt::format("client {}: {}{}: {}", client->id,
                                          in_exec ? "in EXEC: " : "", Shown(words), wrong));
  }
  client->expected += reply;
  client->due.push_back({client->told, number, !in_exec});
}

// Room that a client has announced and does not fill goes to writes that have none. A
// value that arrives apart is refused before its bytes come, which then go nowhere: room
// that could be had later is of no use to it.
void World::CheckStalledRoom(const Client& refused) {
  constexpr Duration kStall = server::RoomPace::kWithin + std::chrono::milliseconds(300);
  const TimePoint at = refused.refused_at.value_or(now());
  for (const auto& client : clients_) {
    if (client.get() == &refused || client->session == nullptr || !client->session->upload)
      continue;
    if (!client->upload_since || at - *client->upload_since < kStall) continue;
    return Fail(sim::kLiveness,
                fmt::format("client {} is refused for want of room, and client {} holds {} bytes "
                            "that it does not fill",
                            refused.id, client->id, client->session->upload->room.size()));
  }
}

// Whether its value is refused, whose bytes are still to come.
void World::WatchRefusal(Client* client) const {
  if (!client->session->room_refused) {
    client->refused_at.reset();
  } else if (!client->refused_at) {
    client->refused_at = now();
  }
}

// Since when fewer bytes have come of a value in pieces than keep its room.
void World::WatchUpload(Client* client) const {
  const auto& upload = client->session->upload;
  const Bytes filled = upload ? upload->filled : 0;
  const bool enough =
      filled < client->upload_filled || filled - client->upload_filled >= server::RoomPace::kBytes;
  if (upload && client->upload_since && !enough) return;
  client->upload_filled = filled;
  client->upload_since = upload ? std::optional(now()) : std::nullopt;
}

// --- commands that have not been answered ---

std::optional<OpenCommand> World::OpenOf(Client& client) {
  if (client.sent.empty()) return {};
  // Of one that was closed it is not known how far it came.
  if (!client.wire->server_gone && !IsWaiting(*client.session)) return {};
  if (client.number == 0) client.number = ++commands_;
  OpenCommand open;
  open.talker = &client.talker;
  open.db = client.talker.db;
  open.start = client.talker.start;
  open.start_ms = client.talker.start_ms;
  open.command = client.number;
  open.words = client.sent.front();
  const Talker& talker = client.talker;
  if (talker.in_multi && Lower(open.words[0]) == "exec") {
    if (talker.exec_at >= talker.queued.size()) return {};
    open.words = talker.queued[talker.exec_at];
  }
  return open;
}

std::vector<OpenCommand> World::OpenCommands(const Talker* but) {
  std::vector<OpenCommand> all = orphans_;
  for (const auto& client : clients_) {
    if (&client->talker == but) continue;
    if (std::optional<OpenCommand> open = OpenOf(*client)) all.push_back(std::move(*open));
  }
  return all;
}

// Connections that the server has closed.
void World::DropGone() {
  for (std::size_t i = 0; i < clients_.size();) {
    Client& client = *clients_[i];
    if (!client.wire->server_gone) {
      ++i;
      continue;
    }
    Acknowledge(client);
    Say("client {} is closed", client.id);
    const bool may_close = client.quits || stopping_ || dead_ || state_->not_durable;
    if (!client.wire->client_gone && !may_close) {
      return Fail(sim::kLiveness, fmt::format("client {} was closed by the server", client.id));
    }
    // A command that had not ended has not done anything, then.
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// --- what the server does ten times a second ---

void World::Tick() {
  next_tick_ = now() + kTick;
  {
    const std::lock_guard lock(state_->commands);
    state_->ErasePairs();
  }
  const bool looks = ticks_++ % kTicksPerLook == 0;
  if (!looks) return;
  for (const auto& client : clients_) {
    const bool waits =
        client->wire->client_gone && IsWaiting(*client->session) && !client->session->half_done;
    if (waits && client->looks_since_gone++ > 2) {
      return Fail(sim::kLiveness,
                  fmt::format("client {} hung up long ago, and its command still waits: {}",
                              client->id, client->sent.empty() ? "" : Shown(client->sent.front())));
    }
  }
  std::vector<std::shared_ptr<server::Connection>> over;
  for (const auto& connection : net_.connections()) {
    if (connection->IsOver(now(), plan_.server.stall_max, Duration::zero())) {
      over.push_back(connection);
    }
  }
  for (const auto& connection : over) connection->Close();
}

// --- questions of our own ---

// The reply to one request of a client without another request in progress.
std::string World::Ask(Client& client, const Words& words) {
  client.reads_slowly = false;
  Send(client, words);
  const std::uint64_t before = client.read;
  const auto answered = [&] { return client.unanswered == 0; };
  if (!RunUntil(answered, std::chrono::seconds(60)) && !verdict_.failed()) {
    Fail(sim::kLiveness, fmt::format("client {}: {} is not answered", client.id, Shown(words)));
  }
  return verdict_.failed() || client.read == before ? "" : "read";
}

// Reads all that any key may hold: the model says what is right.
void World::VerifyAll() {
  if (verdict_.failed()) return;
  BeginEvent();
  Connect();
  Client* const client = clients_.back().get();
  if (!RunUntil([&] { return client->unanswered == 0; }, std::chrono::seconds(60))) return;
  const auto keys = model_.keys();
  for (const auto& [name, key] : keys) {
    if (verdict_.failed()) return;
    if (client->talker.db != name.first) Ask(*client, {"SELECT", fmt::to_string(name.first)});
    if (verdict_.failed()) return;
    Ask(*client, {"GET", name.second});
    if (!verdict_.failed()) Ask(*client, {"PTTL", name.second});
  }
  if (!verdict_.failed()) Disconnect(*client);
}

}  // namespace spillway::serversim
