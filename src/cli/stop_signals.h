// SPDX-License-Identifier: Apache-2.0
// Turns Ctrl-C and similar signals into events to wait for. Must be created before any thread, so
// that all threads block these signals. Also ignores SIGPIPE: writing to a closed pipe is then an
// error.
#pragma once

#include <signal.h>

#include <optional>

#include "spillway/units.h"

namespace spillway {

class StopSignals {
 public:
  StopSignals();
  // Restores the previous signal handling.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits up to `time`; empty: until a signal arrives. True: a signal has arrived, now or earlier.
  bool Wait(std::optional<Duration> time) const;
  bool came() const { return Wait(Duration::zero()); }

 private:
  int fd_ = -1;
  sigset_t before_{};
  struct sigaction pipe_before_{};
};

}  // namespace spillway
