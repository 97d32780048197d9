// SPDX-License-Identifier: Apache-2.0
// PSI, the kernel's measure of memory pressure: the share of time in which at
// least one task waited for memory. A trigger wakes us when that share grows,
// before a reading of free memory would show it.
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

// The files on which triggers can be set, nearest first: our control group's,
// then the machine's. Only files that exist.
std::vector<std::string> PsiFiles(const Machine& machine);

// The value of "some avg10=1.50 ..." as a share: 0.015.
Result<double> ParseSomeAvg10(std::string_view text);

class PsiTrigger {
 public:
  // Sets a trigger; returns 0 or an errno. Tests have their own.
  using Arm = std::function<int(int fd, std::string_view trigger)>;

  // Asks for a wake-up when 150 ms of one second were lost. Some kernels allow
  // windows of a second only to privileged processes; those are asked for 300
  // ms of two seconds. If both are refused, the text can still be polled.
  // Unavailable: not even that.
  static Result<std::unique_ptr<PsiTrigger>> Open(const std::string& file, const Arm& arm = {});
  ~PsiTrigger();
  PsiTrigger(const PsiTrigger&) = delete;
  PsiTrigger& operator=(const PsiTrigger&) = delete;

  // For poll() with POLLPRI, which signals at most once per window. POLLERR:
  // the control group was removed; close this and open another. -1: only the
  // text can be polled, and why_polling() says why.
  int fd() const { return fd_; }
  const std::string& why_polling() const { return why_polling_; }
  Duration window() const { return window_; }

  // The share of the last ten seconds in which a task waited for memory, from 0
  // to 1. Any thread; never waits.
  Result<double> SomeAvg10() const;

 private:
  explicit PsiTrigger(std::string file) : file_(std::move(file)) {}

  const std::string file_;
  int fd_ = -1;
  Duration window_{};
  std::string why_polling_;
};

}  // namespace spillway
