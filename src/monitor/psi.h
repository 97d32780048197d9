// PSI, the kernel's own measure of memory pressure: the share of time in which
// somebody had to wait for memory. A trigger wakes us when that grows, before a
// reading of free memory would show it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/machine.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// Files to trigger on, the nearest first: our control group's, the machine's.
// Only those that are there.
std::vector<std::string> PsiFiles(const Machine& machine);

// The value of "some avg10=1.50 ..." as a share: 0.015.
Result<double> ParseSomeAvg10(std::string_view text);

class PsiTrigger {
 public:
  // How a trigger is set: 0, or what the system said. Tests have their own.
  using Arm = std::function<int(int fd, std::string_view trigger)>;

  // Asks to be woken when 150 ms of one second were lost; a kernel that gives
  // windows of a second only to the privileged is asked for 300 ms of two. When
  // it refuses both there is still the text to poll. Unavailable: not even that.
  static Result<std::unique_ptr<PsiTrigger>> Open(const std::string& file, const Arm& arm = {});
  ~PsiTrigger();
  PsiTrigger(const PsiTrigger&) = delete;
  PsiTrigger& operator=(const PsiTrigger&) = delete;

  // For poll() with POLLPRI, which tells at most once in a window. POLLERR: the
  // control group is gone; close this and open another. -1: only the text can
  // be polled, why_polling() says why.
  int fd() const { return fd_; }
  const std::string& why_polling() const { return why_polling_; }
  Duration window() const { return window_; }

  // Share of the last ten seconds in which somebody waited, from 0 to 1. Any
  // thread; never waits.
  Result<double> SomeAvg10() const;

 private:
  explicit PsiTrigger(std::string file) : file_(std::move(file)) {}

  const std::string file_;
  int fd_ = -1;
  Duration window_{};
  std::string why_polling_;
};

}  // namespace spillway
