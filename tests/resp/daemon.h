// A server process on a Unix socket in a folder of its own, and a plain client.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "resp/reply_reader.h"

namespace spillway::resp {

// Killed when it goes.
class Daemon {
 public:
  Daemon(std::vector<std::string> words, std::string socket) : socket_(std::move(socket)) {
    pid_ = fork();
    if (pid_ == 0) {
      const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
      dup2(null, STDIN_FILENO);
      if (std::getenv("RESP_TEST_LOGS") == nullptr) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
      }
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
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
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    for (int i = 0; i < 1000; ++i) {
      fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
      close(fd_);
      fd_ = -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // real world: a process starts
    }
    const timeval wait{.tv_sec = 30, .tv_usec = 0};
    if (fd_ >= 0) setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
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
