// SPDX-License-Identifier: Apache-2.0
// The AskServer answers other processes that ask for memory. It has a thread of its own, one socket
// and a bounded number of connections, and no connection can delay another. Memory is freed in
// steps, so that several requests are served in turn and a broken connection is noticed between
// steps.
//
// A reservation lasts as long as its connection, and at most the time asked for. A forked child has
// no part in it: its copies of the sockets are closed before fork returns there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "ask/ask_socket.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// The owner of the memory. Called only on the server's thread, and never after the server is
// destroyed.
class AskHandler {
 public:
  virtual ~AskHandler() = default;

  // How much memory the owner holds.
  struct Holdings {
    Bytes held = 0;
    Bytes at_once = 0;  // The part that could be freed now.
  };
  virtual Holdings Held() = 0;

  struct Given {
    Bytes freed = 0;    // By this call.
    bool more = false;  // More is being freed: call again soon.
    std::string why_not_more;
  };
  // Frees as much of `bytes` as is possible now. Never waits for a copy.
  virtual Given Give(Bytes bytes) = 0;
  // An ask has been answered: what it freed, and how long it took since it came.
  virtual void Gave(Bytes /*freed*/, Duration /*took*/) {}

  // Reserves `bytes` of free memory for connection `who` and replaces its reservation before; 0
  // ends it. Every reservation is ended by a call.
  virtual void Reserve(std::uint64_t who, Bytes bytes) = 0;
};

// The server of one cache on one device.
class AskServer {
 public:
  struct Settings {
    std::string run_dir;
    std::string device;
    std::optional<gid_t> group;  // Its members may ask, too.
    std::size_t connections_max = 32;
    // A connection without a reservation is closed after this time without a request.
    Duration idle_max = std::chrono::seconds(10);
  };
  // Counters since the server was opened.
  struct Account {
    std::uint64_t asks = 0;
    Bytes freed = 0;
    std::uint64_t errors = 0;       // Refused requests and connections.
    std::uint64_t connections = 0;  // Open now.
  };

  // `handler` must outlive the server.
  static Result<std::unique_ptr<AskServer>> Open(Settings settings, AskHandler* handler);
  ~AskServer();
  AskServer(const AskServer&) = delete;
  AskServer& operator=(const AskServer&) = delete;

  const std::string& path() const { return socket_.path(); }
  Account account() const;

 private:
  class Loop;
  struct ForkGuard;

  AskServer(Settings settings, AskSocket socket, int wake_fd, AskHandler* handler);
  void CloseInChild();

  const Settings settings_;
  AskSocket socket_;
  const int wake_fd_;
  AskHandler* const handler_;
  std::atomic<std::uint64_t> asks_{0};
  std::atomic<Bytes> freed_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<bool> stop_{false};
  bool in_child_ = false;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace spillway
