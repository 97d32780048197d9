// SPDX-License-Identifier: Apache-2.0
// The Server listens, hands connections to its loops, and closes idle and stalled clients. Other
// work (signals, timers of main) may run on the first loop's io_context.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "server/connection.h"
#include "server/delete_flusher.h"
#include "server/loop.h"
#include "server/state.h"
#include "spillway/result.h"

namespace spillway::server {

class Server {
 public:
  // Listens when it returns. The error names the address that could not be bound, and what would
  // help.
  static Result<std::unique_ptr<Server>> Open(State* state);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves on this thread and others until Stop.
  void Run();
  // From any thread; may be repeated. Run returns when all connections are closed.
  void Stop();

  // Whether Stop was called.
  bool stopping() const { return stopping_; }
  // The TCP port it listens on.
  std::uint16_t port() const { return port_; }
  // For other work on the first loop.
  boost::asio::io_context& io() { return loops_.front()->io; }

 private:
  using Tcp = boost::asio::ip::tcp;
  using Local = boost::asio::local::stream_protocol;

  explicit Server(State* state);
  Status ListenTcp();
  Status ListenUnix();
  template <typename Acceptor>
  void Accept(Acceptor* acceptor);
  template <typename Socket>
  void Take(Loop* loop, Socket socket, std::string address, std::string local_address);
  void Tick(Loop* loop, int count);
  void EndLoop(Loop* loop, int looks);

  State* const state_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unique_ptr<ThreadDeleteFlusher>
      delete_flusher_;  // Its thread posts to the loops, so it is destroyed first.
  std::unique_ptr<Tcp::acceptor> tcp_;
  std::unique_ptr<Local::acceptor> unix_;
  std::unique_ptr<boost::asio::steady_timer> pause_;
  std::string socket_path_;
  std::uint16_t port_ = 0;
  std::size_t next_ = 0;
  std::atomic<bool> stopping_{false};
};

}  // namespace spillway::server
