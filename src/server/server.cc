// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "server/asio_link.h"

namespace spillway::server {

namespace {

namespace asio = boost::asio;

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kTicksPerLook = 10;
constexpr auto kFinishLook = std::chrono::milliseconds(10);
constexpr int kFinishLooks = (WaitBound::kMost + std::chrono::seconds(1)) / kFinishLook;
constexpr int kGoodbyeLooks = 150;  // 15 s: a read takes at most 10.

std::size_t LoopsFor(const Settings& settings) {
  if (settings.io_threads > 0) return settings.io_threads;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(cores / 2, 1, 8);
}

Error Unavailable(std::string message) { return {Code::kUnavailable, std::move(message)}; }

std::string Text(const asio::ip::tcp::endpoint& endpoint) {
  const asio::ip::address address = endpoint.address();
  return address.is_v6() ? fmt::format("[{}]:{}", address.to_string(), endpoint.port())
                         : fmt::format("{}:{}", address.to_string(), endpoint.port());
}

}  // namespace

Server::Server(State* state)
    : state_(state),
      delete_flusher_(std::make_unique<ThreadDeleteFlusher>(&state->cache(), &state->not_durable)) {
  const std::size_t count = LoopsFor(state->settings);
  state->settings.io_threads = count;
  for (std::size_t i = 0; i < count; ++i) loops_.push_back(std::make_unique<Loop>());
  pause_ = std::make_unique<asio::steady_timer>(loops_.front()->io);
}

Server::~Server() {
  if (!socket_path_.empty()) unlink(socket_path_.c_str());
  delete_flusher_.reset();
  // A read from a lower tier ends within its own time limit and then posts to its loop, so the
  // loops must live until the last read has ended.
  for (int i = 0; i < kGoodbyeLooks && state_->in_flight.load() > 0; ++i) {
    std::this_thread::sleep_for(kTick);  // real world: a disk is being read
  }
  if (state_->in_flight.load() == 0) return;
  LogWarning("a read from a lower tier did not end within 15 s of the stop");
  for (auto& loop : loops_) static_cast<void>(loop.release());
}

Result<std::unique_ptr<Server>> Server::Open(State* state) {
  if (state->settings.port == 0 && state->settings.socket.empty()) {
    return Error{Code::kInvalidArgument,
                 "neither a port nor a socket to listen on (--port, --socket)"};
  }
  std::unique_ptr<Server> server(new Server(state));
  if (state->settings.port != 0) {
    if (Status ok = server->ListenTcp(); !ok) return ok.error();
  }
  if (!state->settings.socket.empty()) {
    if (Status ok = server->ListenUnix(); !ok) return ok.error();
  }
  return server;
}

Status Server::ListenTcp() {
  const Settings& settings = state_->settings;
  boost::system::error_code error;
  const std::string name = settings.bind == "localhost" ? "127.0.0.1" : settings.bind;
  const asio::ip::address address = asio::ip::make_address(name, error);
  if (error) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("server.bind: '{}' is not an address, as in 127.0.0.1", settings.bind)};
  }
  const Tcp::endpoint endpoint(address, static_cast<std::uint16_t>(settings.port));
  tcp_ = std::make_unique<Tcp::acceptor>(io());
  const bool failed = tcp_->open(endpoint.protocol(), error) ||
                      tcp_->set_option(Tcp::acceptor::reuse_address(true), error) ||
                      tcp_->bind(endpoint, error) || tcp_->listen(1024, error);
  if (error == asio::error::address_in_use) {
    return Unavailable(fmt::format(
        "{}: another process listens on it, perhaps another spillwayd; choose another port "
        "(--port, server.port)",
        Text(endpoint)));
  }
  if (failed) return Unavailable(fmt::format("{}: {}", Text(endpoint), error.message()));
  port_ = tcp_->local_endpoint().port();
  return {};
}

Status Server::ListenUnix() {
  const std::string& path = state_->settings.socket;
  if (path.size() >= sizeof(sockaddr_un{}.sun_path)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("server.socket: {} is too long a path for a socket", path)};
  }
  struct stat about{};
  if (lstat(path.c_str(), &about) == 0) {
    if (!S_ISSOCK(about.st_mode)) {
      return Unavailable(fmt::format("server.socket: {} exists and is not a socket", path));
    }
    Local::socket trial(io());
    boost::system::error_code error;
    if (!trial.connect(Local::endpoint(path), error)) {
      return Unavailable(fmt::format(
          "server.socket: another process listens on {}; choose another path (--socket)", path));
    }
    unlink(path.c_str());  // Its process is dead.
  }
  boost::system::error_code error;
  unix_ = std::make_unique<Local::acceptor>(io());
  const mode_t before = umask(0177);  // 0600 from the first moment.
  const bool bound = !unix_->open(Local(), error) && !unix_->bind(Local::endpoint(path), error);
  umask(before);
  if (!bound || unix_->listen(1024, error))
    return Unavailable(fmt::format("server.socket: {}: {}", path, error.message()));
  socket_path_ = path;
  return {};
}

template <typename Acceptor>
void Server::Accept(Acceptor* acceptor) {
  Loop* const loop = loops_[next_++ % loops_.size()].get();
  using Socket = typename Acceptor::protocol_type::socket;
  // The type of the socket has the generic executor, which AsioLink::Socket needs.
  auto socket = std::make_shared<Socket>(loop->io);
  Socket& into = *socket;
  acceptor->async_accept(
      into, [this, acceptor, loop, socket](const boost::system::error_code& error) {
        if (stopping_.load() || error == asio::error::operation_aborted) return;
        if (error) {
          // Most likely out of file descriptors: try again when others were closed.
          pause_->expires_after(kTick);
          pause_->async_wait([this, acceptor](const boost::system::error_code& stopped) {
            if (!stopped) Accept(acceptor);
          });
          return;
        }
        std::string address = fmt::format("{}:0", socket_path_);
        std::string local = address;
        if constexpr (std::is_same_v<Acceptor, Tcp::acceptor>) {
          boost::system::error_code ignored;
          std::ignore = socket->set_option(Tcp::no_delay(true), ignored);
          address = Text(socket->remote_endpoint(ignored));
          local = Text(socket->local_endpoint(ignored));
        }
        Take(loop, std::move(*socket), std::move(address), std::move(local));
        Accept(acceptor);
      });
}

template <typename Socket>
void Server::Take(Loop* loop, Socket socket, std::string address, std::string local_address) {
  std::uint64_t most = 0;
  {
    const std::lock_guard lock(state_->commands);
    most = state_->settings.clients_max;
  }
  if (state_->connected.load(std::memory_order_relaxed) >= most) {
    constexpr std::string_view kFull = "-ERR max number of clients reached\r\n";
    static_cast<void>(
        send(socket.native_handle(), kFull.data(), kFull.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    state_->counters.refused_connections.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  boost::system::error_code ignored;
  std::ignore = socket.native_non_blocking(true, ignored);
  state_->connected.fetch_add(1, std::memory_order_relaxed);
  state_->counters.connections.fetch_add(1, std::memory_order_relaxed);
  auto connection = std::make_shared<Connection>(
      state_, delete_flusher_.get(),
      std::make_unique<AsioLink>(loop, AsioLink::Socket(std::move(socket))), std::move(address),
      std::move(local_address));
  asio::post(loop->io, [loop, connection] {
    loop->connections.insert(connection);
    connection->Start();
  });
}

void Server::Tick(Loop* loop, int count) {
  loop->tick.expires_after(kTick);
  loop->tick.async_wait([this, loop, count](const boost::system::error_code& error) {
    if (error || stopping_.load()) return;
    const TimePoint now = state_->direct().Now();
    Duration stall_max{};
    Duration idle_max{};
    {
      const std::lock_guard lock(state_->commands);
      state_->ErasePairs();
      stall_max = state_->settings.stall_max;
      idle_max = state_->settings.idle_max;
    }
    if (count % kTicksPerLook == 0 || state_->any_kill.exchange(false)) {
      std::vector<std::shared_ptr<Connection>> over;  // Close erases them from the set.
      for (const auto& connection : loop->connections) {
        if (connection->IsOver(now, stall_max, idle_max)) over.push_back(connection);
      }
      for (const auto& connection : over) connection->Close();
    }
    Tick(loop, count + 1);
  });
}

void Server::Run() {
  if (tcp_) Accept(tcp_.get());
  if (unix_) Accept(unix_.get());
  std::vector<std::thread> threads;
  for (const auto& loop : loops_) Tick(loop.get(), 0);
  const auto serve = [](Loop* loop) {
    const auto guard = asio::make_work_guard(loop->io);
    loop->io.run();
  };
  for (std::size_t i = 1; i < loops_.size(); ++i) {
    threads.emplace_back(serve, loops_[i].get());
  }
  serve(loops_.front().get());
  for (std::thread& thread : threads) thread.join();
}

void Server::Stop() {
  if (stopping_.exchange(true)) return;
  for (const auto& loop : loops_) {
    asio::post(loop->io, [this, raw = loop.get()] {
      if (raw == loops_.front().get()) {
        boost::system::error_code ignored;
        if (tcp_) std::ignore = tcp_->close(ignored);
        if (unix_) std::ignore = unix_->close(ignored);
        pause_->cancel();
      }
      raw->tick.cancel();
      const auto all = raw->connections;
      for (const auto& connection : all) connection->Close();
      EndLoop(raw, 0);
    });
  }
}

// Commands that have written a part of what they have to write are finished first.
void Server::EndLoop(Loop* loop, int looks) {
  if (loop->connections.empty() || looks == kFinishLooks) {
    const auto all = loop->connections;
    for (const auto& connection : all) connection->Drop();
    return loop->io.stop();
  }
  loop->tick.expires_after(kFinishLook);
  loop->tick.async_wait([this, loop, looks](const boost::system::error_code& error) {
    if (!error) EndLoop(loop, looks + 1);
  });
}

}  // namespace spillway::server
