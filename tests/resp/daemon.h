// SPDX-License-Identifier: Apache-2.0
// A server process on a Unix socket in a folder of its own, and a plain client.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "base/spawn.h"
#include "resp/reply_reader.h"

namespace spillway::resp {

// Killed when it goes.
class Daemon {
 public:
  Daemon(std::vector<std::string> words, std::string socket) : socket_(std::move(socket)) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int out = std::getenv("RESP_TEST_LOGS") == nullptr ? null : -1;
    const std::string program = words.front();
    pid_ =
        Spawn({.path = program, .arguments = std::move(words), .in = null, .out = out, .err = out});
    close(null);
  }
  ~Daemon() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& socket() const { return socket_; }
  // SIGTERM, and its exit status; -1: it was killed by something.
  int Stop() {
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool alive() const { return pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  std::string socket_;
  pid_t pid_ = -1;
};

class Client {
 public:
  // Tries for ten seconds.
  explicit Client(const std::string& path) {
    for (int i = 0; fd_ < 0 && i < 1000; ++i) {
      fd_ = ConnectUnix(path, std::chrono::seconds(30));
      if (fd_ >= 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // real world: a process starts
    }
  }
  ~Client() {
    if (fd_ >= 0) close(fd_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Reads replies meanwhile: a server whose replies nobody reads stops reading. False:
  // the connection has ended, or nothing has moved for a minute.
  bool SendReading(std::string_view bytes) {
    while (!bytes.empty()) {
      pollfd wanted{.fd = fd_, .events = POLLIN | POLLOUT, .revents = 0};
      if (poll(&wanted, 1, 60'000) <= 0) return false;
      if ((wanted.revents & POLLIN) != 0 && !Fill()) return false;
      if ((wanted.revents & POLLOUT) == 0) continue;
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent > 0 ? sent : 0));
    }
    return true;
  }
  // The next reply; empty: the connection has ended.
  std::string Reply() {
    for (;;) {
      const std::string_view rest = std::string_view(in_).substr(at_);
      if (const std::size_t bytes = rest.empty() ? 0 : ReplyBytes(rest); bytes > 0) {
        std::string reply(rest.substr(0, bytes));
        at_ += bytes;
        return reply;
      }
      in_.erase(0, at_);
      at_ = 0;
      if (!Fill()) return {};
    }
  }
  // All until the other side closes.
  std::string Rest() {
    while (Fill()) {
    }
    std::string all = in_.substr(at_);
    in_.clear();
    at_ = 0;
    return all;
  }

 private:
  bool Fill() {
    const std::size_t before = in_.size();
    in_.resize(before + 65536);
    const ssize_t got = recv(fd_, in_.data() + before, 65536, 0);
    in_.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    return got > 0;
  }

  int fd_ = -1;
  std::string in_;
  std::size_t at_ = 0;
};

inline std::string Request(const std::vector<std::string>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return out;
}

}  // namespace spillway::resp
