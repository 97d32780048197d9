// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace spillway {
namespace {
constexpr int kBarWidth = 30;
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(10);
}  // namespace

ReplayProgressBar::ReplayProgressBar()
    : terminal_(isatty(STDERR_FILENO) == 1), last_(Clock::now()) {}

void ReplayProgressBar::Show(const std::string& what, double share) {
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? std::chrono::nanoseconds(kRedraw) : kLineEvery)) return;
  last_ = now;
  const std::string percent = share < 0 ? "" : fmt::format("{:3.0f} %", share * 100);
  if (!terminal_) {
    fmt::print(stderr, "spillway replay: {} {}\n", what, percent);
    return;
  }
  const int full = std::clamp(static_cast<int>(share * kBarWidth), 0, kBarWidth);
  fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {} {}", "", full, "", kBarWidth - full, percent,
             what);
  std::fflush(stderr);
  shown_ = true;
}

void ReplayProgressBar::Clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace spillway
