// SPDX-License-Identifier: Apache-2.0
// A handler with scripted answers, and a client that speaks the protocol line by line.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ask/server.h"
#include "ask/unix_socket.h"
#include "base/mutex.h"
#include "base/socket.h"

namespace spillway::testing {

class ScriptedReclaimServer final : public AskHandler {
 public:
  explicit ScriptedReclaimServer(Bytes held, Bytes at_once) : held_(held), at_once_(at_once) {}

  Holdings Held() override {
    const MutexLock lock(mutex_);
    return {held_, at_once_};
  }
  Given Give(Bytes bytes) override {
    const MutexLock lock(mutex_);
    ++steps_;
    Given given;
    given.freed = std::min({bytes, at_once_, most_a_step_});
    at_once_ -= given.freed;
    held_ -= given.freed;
    given.more = slow_ || (at_once_ > 0 && given.freed < bytes);
    given.why_not_more = slow_ ? "time ran out" : "the rest is leased";
    return given;
  }
  void Gave(Bytes freed, Duration took) override {
    const MutexLock lock(mutex_);
    gave_.emplace_back(freed, took);
  }
  void Reserve(std::uint64_t who, Bytes bytes) override {
    const MutexLock lock(mutex_);
    if (bytes == 0) {
      promises_.erase(who);
    } else {
      promises_[who] = bytes;
    }
  }

  Bytes promised() {
    const MutexLock lock(mutex_);
    Bytes all = 0;
    for (const auto& [who, bytes] : promises_) all += bytes;
    return all;
  }
  Bytes held() { return Held().held; }
  // For each ask that freed memory: how much, and how long it took.
  std::vector<std::pair<Bytes, Duration>> gave() {
    const MutexLock lock(mutex_);
    return gave_;
  }
  int steps() {
    const MutexLock lock(mutex_);
    return steps_;
  }
  void StepsOf(Bytes bytes) { most_a_step_ = bytes; }
  void NeverDone() { slow_ = true; }

 private:
  Mutex mutex_;
  Bytes held_ SPILLWAY_GUARDED_BY(mutex_);
  Bytes at_once_ SPILLWAY_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Bytes> promises_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<std::pair<Bytes, Duration>> gave_ SPILLWAY_GUARDED_BY(mutex_);
  int steps_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes most_a_step_ = ~Bytes{0};  // Set before use, like the next.
  bool slow_ = false;
};

class Line {
 public:
  explicit Line(const std::string& path) : fd_(ConnectUnix(path)) {}
  ~Line() { Close(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void Send(const std::string& bytes) { (void)SendWhole(fd_, bytes); }
  // The next line; "(closed)", or "(silence)" after `ms`.
  std::string Next(int ms = 5000) {
    for (;;) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      pollfd polled{fd_, POLLIN, 0};
      if (::poll(&polled, 1, ms) <= 0) return "(silence)";
      std::array<char, 512> piece;
      const ssize_t got = ::recv(fd_, piece.data(), piece.size(), MSG_DONTWAIT);
      if (got <= 0) return "(closed)";
      buffer_.append(piece.data(), static_cast<std::size_t>(got));
    }
  }
  std::string Talk(const std::string& line, int ms = 5000) {
    Send(line + "\n");
    return Next(ms);
  }

 private:
  int fd_;
  std::string buffer_;
};

}  // namespace spillway::testing
