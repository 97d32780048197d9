// SPDX-License-Identifier: Apache-2.0
// The asking side of the ask protocol. Finds all caches on a device by their sockets and asks each
// for its share of the memory wanted; asks those that hold more for what the others could not give.
// A cache that does not answer is left out. No wait is longer than the time allowed.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "spillway/units.h"

namespace spillway {

// What to ask for.
struct AskOptions {
  std::vector<std::string> run_dirs;  // Where to look for sockets; see RunDirsToSearch.
  std::string device;
  // How much to free.
  Bytes bytes = 0;
  // How much must stay free for the caller in all: `bytes` plus what is free already. At least
  // `bytes`.
  Bytes keep = 0;
  // How long giving back may take, at most kAskGiveMax.
  Duration within = std::chrono::seconds(5);
  // How long the reservation may last after that.
  Duration hold = std::chrono::hours(1);
};

// The memory given. It stays reserved for this process as long as this object lives: each cache
// keeps its reservation while the connection is open. The sockets are closed on exec.
class AskedRoom {
 public:
  // The answer of one cache.
  struct Answer {
    std::string path;
    pid_t pid = 0;
    Bytes held = 0;  // Before it gave any.
    Bytes asked = 0;
    Bytes freed = 0;
    std::string why_not_more;  // Also the reason if it did not answer.
  };

  AskedRoom() = default;
  AskedRoom(AskedRoom&& other) noexcept
      : answers_(std::move(other.answers_)), fds_(std::exchange(other.fds_, {})) {}
  AskedRoom& operator=(AskedRoom&&) = delete;
  ~AskedRoom();

  // One for each cache on the device, in no particular order. Empty: there is none.
  const std::vector<Answer>& answers() const { return answers_; }
  Bytes freed() const;
  // All reasons in one line, by pid. Empty: there are none.
  std::string why_not_more() const;

 private:
  friend class Asking;
  std::vector<Answer> answers_;
  std::vector<int> fds_;
};

// Asks for memory. Blocks until it is given or the time is over.
AskedRoom Ask(const AskOptions& options);

// The devices that caches listen for now.
std::vector<std::string> AskableDevices(const std::vector<std::string>& run_dirs);

}  // namespace spillway
