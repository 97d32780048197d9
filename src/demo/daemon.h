// The daemon of the demo: `spillwayd` as a process of its own, with a socket and
// ports of its own and settings in a file. It is there and answers when Start
// returns, and is gone when this is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "demo/child.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway::demo {

struct DaemonOptions {
  std::string program;                     // `spillwayd`.
  std::string folder;                      // For its settings, and its socket if none is named.
  std::string socket;                      // Empty: in the folder.
  std::optional<std::uint16_t> port;       // Empty: a free one.
  std::optional<std::uint16_t> http_port;  // Empty: the usual one, or if that is taken a free one.
  Options cache;
};

inline constexpr std::uint16_t kUsualHttpPort = 7380;

class Daemon {
 public:
  // An error is what the daemon itself said when it could not begin.
  static Result<std::unique_ptr<Daemon>> Start(const DaemonOptions& options);
  // Asked first, then made to.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& socket() const { return socket_; }
  std::uint16_t port() const { return port_; }
  std::uint16_t http_port() const { return http_port_; }
  pid_t pid() const { return child_.pid(); }

  // Empty: it runs. Else how it ended, and its last words.
  std::string WhyGone();
  // Asks it to end and waits, within a bound. Its exit status as waitpid gives it.
  int Stop();
  // SIGKILL: it ends without a word.
  void Kill() { child_.Kill(); }

 private:
  Daemon(Child child, std::string socket, std::uint16_t port, std::uint16_t http_port);
  static Result<std::unique_ptr<Daemon>> TryStart(const DaemonOptions& options);
  Status WaitUntilReady();
  Status AnswersWithin(Duration time) const;
  void Hear();

  Child child_;
  const std::string socket_;
  const std::uint16_t port_;
  const std::uint16_t http_port_;
  std::string last_words_;
};

// The settings a demo's daemon needs, as its file holds them.
std::string DaemonToml(const Options& options);

}  // namespace spillway::demo
