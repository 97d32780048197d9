// SPDX-License-Identifier: Apache-2.0
// Shows the progress of long work on stderr: a bar on a terminal, otherwise a line every ten
// seconds.
#pragma once

#include <chrono>
#include <string>

namespace spillway {

class ReplayProgressBar {
 public:
  ReplayProgressBar();
  ~ReplayProgressBar() { Clear(); }
  ReplayProgressBar(const ReplayProgressBar&) = delete;
  ReplayProgressBar& operator=(const ReplayProgressBar&) = delete;

  // `share` is from 0 to 1; negative: unknown.
  void Show(const std::string& what, double share);
  // Removes the bar, so that other text can be printed.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  bool shown_ = false;
  Clock::time_point last_;
};

}  // namespace spillway
