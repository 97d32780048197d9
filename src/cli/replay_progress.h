// How far a long work has come, on stderr: a bar where a person looks, a line
// every ten seconds where not.
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

  // `share` from 0 to 1; less than 0: not known.
  void Show(const std::string& what, double share);
  // Takes the bar away, so that something else can be printed.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  bool shown_ = false;
  Clock::time_point last_;
};

}  // namespace spillway
