// The Server listens, hands connections to loops, and keeps house. Further
// listeners (HTTP) go beside those of RESP, on the first loop's io_context.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "server/connection.h"
#include "server/loop.h"
#include "server/settler.h"
#include "server/state.h"
#include "spillway/result.h"

namespace spillway::server {

class Server {
 public:
  // Listens when it returns. The message says which address could not be had, and
  // what would help.
  static Result<std::unique_ptr<Server>> Open(State* state);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves on this thread and others until Stop.
  void Run();
  // Any thread, once or more. Run returns when all connections are closed.
  void Stop();

  // Whether it has been told to stop.
  bool stopping() const { return stopping_; }
  // The port it got, where 0 was not "none" but "any" (tests).
  std::uint16_t port() const { return port_; }
  // For what else is to run on the first loop.
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

  State* const state_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unique_ptr<Settler> settler_;  // Its thread posts to the loops: it goes first.
  std::unique_ptr<Tcp::acceptor> tcp_;
  std::unique_ptr<Local::acceptor> unix_;
  std::unique_ptr<boost::asio::steady_timer> pause_;
  std::string socket_path_;
  std::uint16_t port_ = 0;
  std::size_t next_ = 0;
  bool counted_ = false;
  std::atomic<bool> stopping_{false};
};

}  // namespace spillway::server
