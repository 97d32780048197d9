// SPDX-License-Identifier: Apache-2.0
#include "ask/server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ask/protocol.h"
#include "ask/steady_time.h"
#include "ask/unix_socket.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/quiet_thread.h"
#include "base/small_file.h"

namespace spillway {
namespace {

// The pause between steps while memory is being freed.
constexpr Duration kBetweenSteps = std::chrono::microseconds(200);
// More wrong lines than a person types, fewer than a program sends in a loop.
constexpr int kErrorsMax = 16;
// Lines answered in one turn, so that a busy connection does not delay others.
constexpr int kLinesPerTurn = 8;

// Between lines of the log about asks.
constexpr Duration kBetweenLines = std::chrono::seconds(1);

// 0: it can't be seen from here, as from another container.
pid_t PeerOf(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

// "pid 4711 (python3)". The process may have ended.
std::string ProcessText(pid_t pid) {
  if (pid <= 0) return "a process that cannot be seen from here";
  const Result<std::optional<std::string>> name = ReadSmallFile(fmt::format("/proc/{}/comm", pid));
  if (!name || !*name) return fmt::format("pid {}", pid);
  const std::string_view line(**name);
  return fmt::format("pid {} ({})", pid, Printable(line.substr(0, line.find('\n')), 32));
}

}  // namespace

// Members are used by the server thread only, except `connections_`: a fork must be able to close
// them, so changes hold the mutex of ForkGuard.
class AskServer::Loop {
 public:
  explicit Loop(AskServer* server) : server_(*server) {}
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void Run();
  // Called in the child, while the thread may have been in the middle of anything: only the
  // descriptors are safe to use.
  void CloseInChild() {
    for (Connection& connection : connections_) ::close(std::exchange(connection.fd, -1));
  }

 private:
  struct Reserved {
    Bytes bytes = 0;
    SteadyTime until{};
  };
  struct Connection {
    std::uint64_t id = 0;
    int fd = -1;
    pid_t peer = 0;
    std::string buffer;  // Received and not yet answered.
    SteadyTime spoke_at{};
    int errors = 0;
    bool gone = false;
    Reserved hold;       // By HOLD.
    Reserved asked;      // By ASK. The larger of both counts.
    Bytes promised = 0;  // The reservation the handler knows of.
    // The ASK being answered.
    bool giving = false;
    Bytes wanted = 0;
    Bytes lacking = 0;
    Bytes freed = 0;
    SteadyTime asked_at{};
    SteadyTime give_until{};
  };

  void Turn();
  Duration Patience() const;
  void Accept();
  void Read(Connection& connection);
  void AnswerLines(Connection& connection);
  void Answer(Connection& connection, std::string_view line);
  void Refuse(Connection& connection, std::string_view what);
  void Say(Connection& connection, std::string line);
  void GiveSome(Connection& connection);
  void LogAnswer(const Connection& connection, std::string_view why_not_more);
  void Lapse(Connection& connection, SteadyTime now);
  void Reserve(Connection& connection);
  void RemoveGone();

  AskServer& server_;
  std::vector<Connection> connections_;
  std::vector<pollfd> polled_;
  std::uint64_t next_id_ = 1;
  SteadyTime log_at_{};  // No line about an ask before this time.
  std::uint64_t unlogged_ = 0;
  SteadyTime accept_at_{};  // After an error, accept is not tried before this time.
};

// A forked child must not answer requests, and must not keep our connections, and with them
// reservations, alive.
struct AskServer::ForkGuard {
  Mutex mutex;
  std::vector<AskServer*> servers SPILLWAY_GUARDED_BY(mutex);

  static ForkGuard& Instance() {
    static auto* guard = new ForkGuard;  // Never destroyed: servers may outlive static objects.
    return *guard;
  }

 private:
  ForkGuard() { ::pthread_atfork(&Before, &InParent, &InChild); }
  // The mutex is held from the first of these to one of the others, across the fork.
  static void Before() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { Instance().mutex.lock(); }
  static void InParent() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { Instance().mutex.unlock(); }
  static void InChild() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    for (AskServer* server : Instance().servers) server->CloseInChild();
    Instance().mutex.unlock();
  }
};

AskServer::Loop::~Loop() {
  if (server_.in_child_) return;
  for (Connection& connection : connections_) connection.gone = true;
  RemoveGone();
}

void AskServer::Loop::Run() {
  while (!server_.stop_.load(std::memory_order_acquire)) {
    try {
      Turn();
    } catch (const std::bad_alloc&) {
      // Out of memory: all connections are closed, and their reservations end. The next connection
      // starts fresh.
      for (Connection& connection : connections_) connection.gone = true;
    }
    RemoveGone();
  }
}

void AskServer::Loop::Turn() {
  polled_.clear();
  polled_.push_back({server_.wake_fd_, POLLIN, 0});
  const bool accepting = Now() >= accept_at_;
  polled_.push_back({accepting ? server_.socket_.fd() : -1, POLLIN, 0});
  for (const Connection& connection : connections_) {
    // While an ASK is served, no further request is read, but a closed connection must be noticed.
    const short events = connection.giving ? POLLRDHUP : POLLIN | POLLRDHUP;
    polled_.push_back({connection.fd, events, 0});
  }
  const Duration patience = Patience();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
  const timespec wait{.tv_sec = seconds.count(), .tv_nsec = (patience - seconds).count()};
  if (::ppoll(polled_.data(), polled_.size(), &wait, nullptr) < 0) return;

  const SteadyTime now = Now();
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    const int events = polled_[i + 2].revents;
    if ((events & POLLIN) != 0) {
      Read(connection);
    } else if ((events & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL)) != 0) {
      connection.gone = true;
    }
    if (!connection.gone && !connection.giving) AnswerLines(connection);
    if (!connection.gone && connection.giving) GiveSome(connection);
    if (!connection.gone) Lapse(connection, now);
  }
  if ((polled_[1].revents & POLLIN) != 0) Accept();
}

// Time until the next event that is due without any input.
Duration AskServer::Loop::Patience() const {
  const SteadyTime now = Now();
  SteadyTime first = now + std::chrono::seconds(60);
  if (accept_at_ > now) first = std::min(first, accept_at_);
  for (const Connection& connection : connections_) {
    if (connection.giving) return kBetweenSteps;
    if (connection.buffer.find('\n') != std::string::npos) return Duration::zero();
    if (connection.promised == 0) {
      first = std::min(first, connection.spoke_at + server_.settings_.idle_max);
    }
    for (const Reserved* promised : {&connection.hold, &connection.asked}) {
      if (promised->bytes > 0) first = std::min(first, promised->until);
    }
  }
  return std::max<Duration>(first - now, Duration::zero());
}

void AskServer::Loop::Accept() {
  const MutexLock lock(ForkGuard::Instance().mutex);
  const int fd = ::accept4(server_.socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // Most likely out of file descriptors: tried again a little later.
    if (errno != EAGAIN && errno != EINTR) accept_at_ = Now() + std::chrono::milliseconds(100);
    return;
  }
  Status may = MayAsk(fd, server_.settings_.group);
  if (may && connections_.size() >= server_.settings_.connections_max) {
    may = Error{Code::kBusy, fmt::format("{} connections are open already; try again later",
                                         server_.settings_.connections_max)};
  }
  if (!may) {
    (void)SendWhole(fd, FormatAskError(may.error().message) + "\n");
    ::close(fd);
    ++server_.errors_;
    return;
  }
  Connection connection;
  connection.id = next_id_++;
  connection.fd = fd;
  connection.peer = PeerOf(fd);
  connection.spoke_at = Now();
  try {
    connections_.push_back(std::move(connection));
  } catch (const std::bad_alloc&) {
    ::close(fd);
  }
  server_.connections_ = connections_.size();
}

void AskServer::Loop::Read(Connection& connection) {
  // Reads at most one line and the beginning of the next. The rest stays in the socket, which
  // finally blocks the sender.
  std::array<char, kAskLineMax> piece;
  if (connection.buffer.size() >= 2 * kAskLineMax) return;
  const ssize_t got = ::recv(connection.fd, piece.data(), piece.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) connection.gone = true;
  if (got > 0) connection.buffer.append(piece.data(), static_cast<std::size_t>(got));
}

void AskServer::Loop::AnswerLines(Connection& connection) {
  for (int lines = 0; lines < kLinesPerTurn && !connection.gone && !connection.giving; ++lines) {
    const std::size_t end = connection.buffer.find('\n');
    if (end >= kAskLineMax && connection.buffer.size() >= kAskLineMax) {
      Refuse(connection, fmt::format("a line has at most {} bytes", kAskLineMax));
      connection.gone = true;  // The begin of the next line is unknown.
      return;
    }
    if (end == std::string::npos) return;
    const std::string line = connection.buffer.substr(0, end);
    connection.buffer.erase(0, end + 1);
    connection.spoke_at = Now();
    Answer(connection, line);
  }
}

void AskServer::Loop::Answer(Connection& connection, std::string_view line) {
  const Result<AskRequest> request = ParseAskRequest(line);
  if (!request) return Refuse(connection, request.error().message);
  if (request->device != server_.settings_.device) {
    return Refuse(connection, fmt::format("device '{}' is not served here; '{}' is",
                                          request->device, server_.settings_.device));
  }
  const SteadyTime now = Now();
  switch (request->verb) {
    case AskRequest::Verb::kHeld: {
      const AskHandler::Holdings holdings = server_.handler_->Held();
      return Say(connection, FormatAskOk(holdings.held, fmt::to_string(holdings.at_once)));
    }
    case AskRequest::Verb::kHold:
      connection.hold = {request->bytes, now + request->time};
      Reserve(connection);
      return Say(connection, FormatAskOk(connection.promised, {}));
    case AskRequest::Verb::kAsk:
      ++server_.asks_;
      // Reserved before it is freed: what one step frees must not be used before the next step.
      connection.asked = {std::min(connection.asked.bytes + request->bytes, kAskBytesMax),
                          std::max(connection.asked.until, now + request->time)};
      Reserve(connection);
      connection.giving = true;
      connection.asked_at = now;
      connection.wanted = connection.lacking = request->bytes;
      connection.freed = 0;
      connection.give_until = now + std::min(request->time, kAskGiveMax);
      return;
  }
}

void AskServer::Loop::GiveSome(Connection& connection) {
  AskHandler::Given given;
  if (connection.lacking > 0) given = server_.handler_->Give(connection.lacking);
  connection.freed += given.freed;
  connection.lacking -= std::min(connection.lacking, given.freed);
  const bool late = Now() >= connection.give_until;
  if (connection.lacking > 0 && given.more && !late) return;
  connection.giving = false;
  connection.spoke_at = Now();
  server_.freed_ += connection.freed;
  if (connection.freed > 0) {
    server_.handler_->Gave(connection.freed, connection.spoke_at - connection.asked_at);
  }
  if (connection.lacking > 0) {
    // What was not freed is not reserved either.
    connection.asked.bytes -= std::min(connection.asked.bytes, connection.lacking);
    Reserve(connection);
  } else {
    given.why_not_more.clear();
  }
  LogAnswer(connection, given.why_not_more);
  Say(connection, FormatAskOk(connection.freed, given.why_not_more));
}

// Says which process asked. Programs may ask in a loop: one line a second.
void AskServer::Loop::LogAnswer(const Connection& connection, std::string_view why_not_more) {
  const SteadyTime now = connection.spoke_at;
  if (now < log_at_) {
    ++unlogged_;
    return;
  }
  log_at_ = now + kBetweenLines;
  const std::uint64_t before = std::exchange(unlogged_, 0);
  LogInfo("{} asked for {} of device '{}': {} given in {}{}{}{}", ProcessText(connection.peer),
          FormatBytes(connection.wanted), server_.settings_.device, FormatBytes(connection.freed),
          FormatDuration(now - connection.asked_at), why_not_more.empty() ? "" : "; ", why_not_more,
          before == 0 ? "" : fmt::format("; {} more asks since the last such line", before));
}

void AskServer::Loop::Lapse(Connection& connection, SteadyTime now) {
  if (connection.giving) return;  // Giving ends no later than its reservation.
  bool lapsed = false;
  for (Reserved* promised : {&connection.hold, &connection.asked}) {
    if (promised->bytes == 0 || now < promised->until) continue;
    promised->bytes = 0;
    lapsed = true;
  }
  if (lapsed) {
    Reserve(connection);
    // A connection ends with its reservation.
    if (connection.promised == 0) connection.gone = true;
  } else if (connection.promised == 0 && now >= connection.spoke_at + server_.settings_.idle_max) {
    Refuse(connection, "no request came for too long");
    connection.gone = true;
  }
}

void AskServer::Loop::Reserve(Connection& connection) {
  const Bytes bytes = std::max(connection.hold.bytes, connection.asked.bytes);
  if (bytes == connection.promised) return;
  connection.promised = bytes;
  server_.handler_->Reserve(connection.id, bytes);
}

void AskServer::Loop::Refuse(Connection& connection, std::string_view what) {
  ++server_.errors_;
  Say(connection, FormatAskError(what));
  if (++connection.errors >= kErrorsMax) connection.gone = true;
}

void AskServer::Loop::Say(Connection& connection, std::string line) {
  line += '\n';
  // Answers are short. If one does not fit into the socket's buffer, the peer is not reading.
  if (!SendWhole(connection.fd, line)) connection.gone = true;
}

void AskServer::Loop::RemoveGone() {
  for (Connection& connection : connections_) {
    if (!connection.gone || connection.promised == 0) continue;
    connection.promised = 0;
    try {
      server_.handler_->Reserve(connection.id, 0);
    } catch (const std::bad_alloc&) {
      connection.gone = false;  // It is closed in the next turn.
      connection.promised = 1;
    }
  }
  const MutexLock lock(ForkGuard::Instance().mutex);
  std::erase_if(connections_, [](const Connection& connection) {
    if (connection.gone) ::close(connection.fd);
    return connection.gone;
  });
  server_.connections_ = connections_.size();
}

Result<std::unique_ptr<AskServer>> AskServer::Open(Settings settings, AskHandler* handler) {
  Result<AskSocket> socket = AskSocket::Open(settings.run_dir, settings.device, settings.group);
  if (!socket) return socket.error();
  const int wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    return Error{Code::kUnavailable, fmt::format("ask: eventfd: {}", std::strerror(errno))};
  }
  std::unique_ptr<AskServer> server(
      new AskServer(std::move(settings), std::move(*socket), wake_fd, handler));
  try {
    server->thread_ = QuietThread([loop = server->loop_.get()] { loop->Run(); });
  } catch (const std::system_error& error) {
    return Error{Code::kUnavailable, fmt::format("ask: no thread: {}", error.what())};
  }
  return server;
}

AskServer::AskServer(Settings settings, AskSocket socket, int wake_fd, AskHandler* handler)
    : settings_(std::move(settings)),
      socket_(std::move(socket)),
      wake_fd_(wake_fd),
      handler_(handler),
      loop_(std::make_unique<Loop>(this)) {
  const MutexLock lock(ForkGuard::Instance().mutex);
  ForkGuard::Instance().servers.push_back(this);
}

AskServer::~AskServer() {
  if (in_child_) {
    thread_.detach();  // The thread exists only in the parent.
  } else if (thread_.joinable()) {
    stop_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    while (::write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  loop_.reset();
  {
    const MutexLock lock(ForkGuard::Instance().mutex);
    std::erase(ForkGuard::Instance().servers, this);
  }
  ::close(wake_fd_);
}

void AskServer::CloseInChild() {
  in_child_ = true;
  socket_.CloseInChild();
  loop_->CloseInChild();
}

AskServer::Account AskServer::account() const {
  return {asks_.load(), freed_.load(), errors_.load(), connections_.load()};
}

}  // namespace spillway
