// Asking for memory: all caches on a device are found by their sockets, each is
// asked for its share of what is wanted, and those who have more for what the
// others could not give. Whoever does not answer is left out; no wait is longer
// than the time allowed.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "spillway/units.h"

namespace spillway {

struct AskOptions {
  std::vector<std::string> run_dirs;  // See RunDirsToSearch.
  std::string device;
  // What is to be given back.
  Bytes bytes = 0;
  // What is to stay free for us in all: `bytes` and what is free already. At
  // least `bytes`.
  Bytes keep = 0;
  // How long giving back may take, at most kAskGiveMax,
  Duration within = std::chrono::seconds(5);
  // and how long the grant may live after that.
  Duration hold = std::chrono::hours(1);
};

// Grants, for as long as this lives. Its sockets are closed on exec.
class AskedRoom {
 public:
  struct Answer {
    std::string path;
    pid_t pid = 0;
    Bytes held = 0;  // Before it gave.
    Bytes asked = 0;
    Bytes freed = 0;
    std::string why_not_more;  // Also why it did not answer.
  };

  AskedRoom() = default;
  AskedRoom(AskedRoom&& other) noexcept
      : answers_(std::move(other.answers_)), fds_(std::exchange(other.fds_, {})) {}
  AskedRoom& operator=(AskedRoom&&) = delete;
  ~AskedRoom();

  // Of all who listen, in no order that matters; empty: nobody does.
  const std::vector<Answer>& answers() const { return answers_; }
  Bytes freed() const;
  // In one line, by pid; empty: there is nothing to say.
  std::string why_not_more() const;

 private:
  friend class Asking;
  std::vector<Answer> answers_;
  std::vector<int> fds_;
};

AskedRoom Ask(const AskOptions& options);

// The devices somebody listens for now.
std::vector<std::string> AskableDevices(const std::vector<std::string>& run_dirs);

}  // namespace spillway
