// The AskServer answers neighbours who want memory, on a thread of its own: one
// socket, a bounded number of connections, none of which can make another wait.
// Giving back is done in steps, so that many can be asked for and a connection
// that breaks is noticed in between.
//
// A grant lives as long as the connection it was asked on, at most the time
// asked for. A forked child has no part in it: its copies of the sockets are
// closed before fork returns there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "ask/door.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// Whoever has the memory. Called on the server's thread only, and only until
// the server is destroyed.
class AskHandler {
 public:
  virtual ~AskHandler() = default;

  struct Holdings {
    Bytes held = 0;
    Bytes at_once = 0;  // Of that, what could be given back now.
  };
  virtual Holdings Held() = 0;

  struct Given {
    Bytes freed = 0;    // By this call.
    bool more = false;  // Some is on its way: ask again in a moment.
    std::string why_not_more;
  };
  // As much of `bytes` as can go now; never waits for a copy.
  virtual Given Give(Bytes bytes) = 0;
  // An ask has been answered, so long after it came, and had some.
  virtual void Gave(Bytes /*freed*/, Duration /*took*/) {}

  // From now on `bytes` of free memory are promised to connection `who`; 0: no
  // longer. Every promise is ended.
  virtual void Promise(std::uint64_t who, Bytes bytes) = 0;
};

class AskServer {
 public:
  struct Settings {
    std::string run_dir;
    std::string device;
    std::optional<gid_t> group;  // Its members may ask, too.
    std::size_t connections_max = 32;
    // A connection without a grant that says nothing for so long is closed.
    Duration idle_max = std::chrono::seconds(10);
  };
  struct Account {
    std::uint64_t asks = 0;
    Bytes freed = 0;
    std::uint64_t errors = 0;       // Lines and connections that were refused.
    std::uint64_t connections = 0;  // Now.
  };

  // `handler` is borrowed.
  static Result<std::unique_ptr<AskServer>> Open(Settings settings, AskHandler* handler);
  ~AskServer();
  AskServer(const AskServer&) = delete;
  AskServer& operator=(const AskServer&) = delete;

  const std::string& path() const { return door_.path(); }
  Account account() const;

 private:
  class Loop;
  struct ForkGuard;

  AskServer(Settings settings, AskDoor door, int wake_fd, AskHandler* handler);
  void CloseInChild();

  const Settings settings_;
  AskDoor door_;
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
