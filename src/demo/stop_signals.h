// Ctrl-C and its relatives as something to wait for, not something that
// happens. Make it before any thread, so that all of them leave the signals
// alone; a closed pipe is an error of write from then on, and no signal.
#pragma once

#include <signal.h>

#include "spillway/units.h"

namespace spillway::demo {

class StopSignals {
 public:
  StopSignals();
  // As it was before.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits at most that long. True: somebody wants us to stop.
  bool Wait(Duration time) const;

 private:
  int fd_ = -1;
  sigset_t before_{};
  struct sigaction pipe_before_{};
};

}  // namespace spillway::demo
