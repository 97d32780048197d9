// A DaemonLink talks to a running spillwayd as any client of Redis would: words in,
// one reply out, each within a bound.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace CLI {
class App;
}

namespace spillway {

struct DaemonAddress {
  std::string socket;  // Path of its Unix socket; empty: TCP.
  std::string host = "127.0.0.1";
  std::uint16_t port = 7379;
  std::string password_file;
  Duration within = std::chrono::seconds(5);

  // --socket, --host, --port, --password-file.
  void AddOptions(CLI::App* app);
  std::string Text() const;
};

class DaemonLink {
 public:
  // Unavailable: nobody listens there; the message says where, and what would.
  static Result<DaemonLink> Open(const DaemonAddress& address);
  DaemonLink(DaemonLink&& other) noexcept;
  DaemonLink& operator=(DaemonLink&& other) noexcept;
  DaemonLink(const DaemonLink&) = delete;
  DaemonLink& operator=(const DaemonLink&) = delete;
  ~DaemonLink();

  // The text of a simple, bulk or number reply; an error reply is an error.
  Result<std::string> Ask(const std::vector<std::string_view>& words);

 private:
  explicit DaemonLink(int fd) : fd_(fd) {}
  Status Fill();
  Result<std::string> Line();

  int fd_ = -1;
  std::string buffer_;
};

}  // namespace spillway
