// SPDX-License-Identifier: Apache-2.0
#include "ask/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "ask/ask_socket.h"
#include "ask/protocol.h"
#include "ask/steady_time.h"
#include "ask/unix_socket.h"
#include "base/socket.h"

namespace spillway {
namespace {

// Time to answer HELD. An event on a cache's strand takes far less.
constexpr Duration kHeldWithin = std::chrono::seconds(1);
// Added to the time a peer has to answer, for the transfer of both lines.
constexpr Duration kOnTheWay = std::chrono::milliseconds(250);
// Rounds in which the rest is asked from peers that can still give.
constexpr int kRounds = 4;

}  // namespace

class Asking {
 public:
  explicit Asking(const AskOptions& options) : options_(options) {}

  AskedRoom Run();

 private:
  struct Peer {
    AskedRoom::Answer answer;
    int fd = -1;  // -1: left out.
    std::string buffer;
    std::optional<AskReply> reply;
    Bytes wanted = 0;  // In this round.
  };

  void Connect(SteadyTime until);
  // Sends each peer the line that `line` returns for it, unless that is empty, and waits for the
  // answers.
  template <typename Line>
  void Round(SteadyTime until, Line&& line);
  void Receive(Peer& peer);
  static void LeaveOut(Peer& peer, std::string why);
  bool Share(Bytes lacking);
  Bytes freed() const;

  const AskOptions& options_;
  std::vector<Peer> peers_;
};

void Asking::LeaveOut(Peer& peer, std::string why) {
  if (peer.fd >= 0) ::close(std::exchange(peer.fd, -1));
  peer.answer.why_not_more = std::move(why);
}

void Asking::Connect(SteadyTime until) {
  for (AskSocketName& name : FindAskSockets(options_.run_dirs, options_.device)) {
    int fd = ConnectUnix(name.path);
    while (fd == -EAGAIN && Now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // real world: its queue is full
      fd = ConnectUnix(name.path);
    }
    if (fd == -ECONNREFUSED || fd == -ENOENT) continue;  // Its process has ended.
    Peer peer;
    peer.answer.path = std::move(name.path);
    peer.answer.pid = name.pid;
    peer.fd = fd;
    if (fd < 0) LeaveOut(peer, fmt::format("can't be reached: {}", std::strerror(-fd)));
    peers_.push_back(std::move(peer));
  }
}

void Asking::Receive(Peer& peer) {
  std::array<char, kAskLineMax> piece;
  const ssize_t got = ::recv(peer.fd, piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return LeaveOut(peer, "it closed the connection");
  peer.buffer.append(piece.data(), static_cast<std::size_t>(got));
  const std::size_t end = peer.buffer.find('\n');
  if (end == std::string::npos) {
    if (peer.buffer.size() >= kAskLineMax) LeaveOut(peer, "its answer is longer than a line");
    return;
  }
  const Result<AskReply> reply = ParseAskReply(std::string_view(peer.buffer).substr(0, end));
  peer.buffer.erase(0, end + 1);
  if (!reply) return LeaveOut(peer, reply.error().message);
  peer.reply = *reply;
}

template <typename Line>
void Asking::Round(SteadyTime until, Line&& line) {
  std::vector<Peer*> waiting;
  for (Peer& peer : peers_) {
    peer.reply.reset();
    if (peer.fd < 0) continue;
    const std::string text = line(peer);
    if (text.empty()) continue;
    // If it has refused us, its reason can still be read.
    if (!SendWhole(peer.fd, text + "\n") && errno != EPIPE) LeaveOut(peer, "does not read");
    if (peer.fd >= 0) waiting.push_back(&peer);
  }
  while (!waiting.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Now());
    std::vector<pollfd> polled;
    for (const Peer* peer : waiting) polled.push_back({peer->fd, POLLIN, 0});
    const int ready =
        ::poll(polled.data(), polled.size(), static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready <= 0 && left.count() <= 0) break;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) Receive(*waiting[i]);
    }
    std::erase_if(waiting, [](const Peer* peer) { return peer->fd < 0 || peer->reply; });
  }
  for (Peer* peer : waiting) LeaveOut(*peer, "did not answer in time");
}

Bytes Asking::freed() const {
  Bytes freed = 0;
  for (const Peer& peer : peers_) freed += peer.answer.freed;
  return freed;
}

// Divides `lacking` in proportion to what each peer still holds. A peer that could not give all it
// was asked for is not asked again. False: no peer is left.
bool Asking::Share(Bytes lacking) {
  const auto left = [](const Peer& peer) {
    const bool out = peer.fd < 0 || !peer.answer.why_not_more.empty();
    return out ? 0 : peer.answer.held - std::min(peer.answer.held, peer.answer.freed);
  };
  double all = 0;
  for (const Peer& peer : peers_) all += static_cast<double>(left(peer));
  for (Peer& peer : peers_) {
    const double share =
        all > 0 ? static_cast<double>(lacking) * static_cast<double>(left(peer)) / all : 0;
    peer.wanted = std::min(static_cast<Bytes>(std::ceil(share)), left(peer));
  }
  return all > 0;
}

AskedRoom Asking::Run() {
  const SteadyTime start = Now();
  const SteadyTime until = start + std::clamp(options_.within, Duration::zero(), kAskGiveMax);
  const SteadyTime held_until = std::min(until + kOnTheWay, start + kHeldWithin);
  const Duration life =
      std::clamp(options_.hold, Duration::zero(), kAskTimeMax - kAskGiveMax) + (until - start);
  const Bytes keep = std::min(std::max(options_.keep, options_.bytes), kAskBytesMax);
  const auto request = [&](AskRequest::Verb verb, Bytes bytes, Duration time) {
    return FormatAskRequest({verb, options_.device, std::min(bytes, kAskBytesMax),
                             std::chrono::floor<std::chrono::milliseconds>(time)});
  };

  Connect(held_until);
  Round(held_until, [&](Peer&) { return request(AskRequest::Verb::kHeld, 0, {}); });
  for (Peer& peer : peers_) {
    if (peer.reply) peer.answer.held = peer.reply->bytes;
  }
  // All peers reserve the memory before any of them frees it, so that none takes what another
  // frees.
  const auto hold = [&](Bytes bytes) {
    Round(Now() + kHeldWithin,
          [&](Peer&) { return request(AskRequest::Verb::kHold, bytes, life); });
  };
  hold(keep);
  for (int round = 0; round < kRounds && freed() < options_.bytes; ++round) {
    const Duration time = std::max<Duration>(until - Now(), Duration::zero());
    if (!Share(options_.bytes - freed()) || (round > 0 && time == Duration::zero())) break;
    Round(Now() + time + kOnTheWay, [&](Peer& peer) {
      if (peer.wanted == 0) return std::string();
      peer.answer.asked += peer.wanted;
      return request(AskRequest::Verb::kAsk, peer.wanted, time);
    });
    for (Peer& peer : peers_) {
      if (!peer.reply) continue;
      peer.answer.freed += peer.reply->bytes;
      peer.answer.why_not_more = peer.reply->rest;
      if (peer.reply->bytes < peer.wanted && peer.answer.why_not_more.empty()) {
        peer.answer.why_not_more = "it gave no reason";
      }
    }
  }
  // Memory that no peer could free need not be reserved.
  if (const Bytes got = freed(); got < options_.bytes) {
    const Bytes short_of = options_.bytes - got;
    hold(keep - std::min(keep, short_of));
  }
  AskedRoom room;
  for (Peer& peer : peers_) {
    if (peer.fd >= 0) room.fds_.push_back(peer.fd);
    room.answers_.push_back(std::move(peer.answer));
  }
  return room;
}

AskedRoom::~AskedRoom() {
  for (const int fd : fds_) ::close(fd);
}

Bytes AskedRoom::freed() const {
  Bytes freed = 0;
  for (const Answer& answer : answers_) freed += answer.freed;
  return freed;
}

std::string AskedRoom::why_not_more() const {
  std::string why;
  for (const Answer& answer : answers_) {
    if (answer.why_not_more.empty()) continue;
    why += fmt::format("{}pid {}: {}", why.empty() ? "" : "; ", answer.pid, answer.why_not_more);
  }
  return why;
}

AskedRoom Ask(const AskOptions& options) { return Asking(options).Run(); }

std::vector<std::string> AskableDevices(const std::vector<std::string>& run_dirs) {
  std::vector<std::string> devices;
  for (const AskSocketName& name : FindAskSockets(run_dirs, "")) {
    const int fd = ConnectUnix(name.path);
    if (fd >= 0) ::close(fd);
    if (fd < 0 && fd != -EAGAIN) continue;
    if (std::ranges::find(devices, name.device) == devices.end()) devices.push_back(name.device);
  }
  std::ranges::sort(devices);
  return devices;
}

}  // namespace spillway
