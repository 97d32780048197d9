// SPDX-License-Identifier: Apache-2.0
#include "cli/stale_search.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/spawn.h"
#include "cli/holdings.h"
#include "cli/named_device.h"

namespace spillway {

namespace {

using Steady = std::chrono::steady_clock;

constexpr Duration kChildWithin = std::chrono::seconds(60);
constexpr Duration kBackWithin = std::chrono::seconds(5);
constexpr Bytes kLine = 64;  // The period of the pattern; no page is smaller.
constexpr std::size_t kPatternBytes = 16;
using Pattern = std::array<unsigned char, kPatternBytes>;

std::string Hex(const Pattern& pattern) {
  std::string text;
  for (const unsigned char byte : pattern) text += fmt::format("{:02x}", byte);
  return text;
}

bool ParseHex(const std::string& text, Pattern* pattern) {
  if (text.size() != 2 * kPatternBytes) return false;
  for (std::size_t i = 0; i < kPatternBytes; ++i) {
    unsigned byte = 0;
    if (std::sscanf(text.c_str() + 2 * i, "%2x", &byte) != 1) return false;
    (*pattern)[i] = static_cast<unsigned char>(byte);
  }
  return true;
}

// A new one each time, so that data of an earlier search is not counted.
Pattern NewPattern() {
  std::random_device random;
  Pattern pattern{};
  for (unsigned char& byte : pattern) byte = static_cast<unsigned char>(random() | 1U);
  return pattern;
}

// A child process that runs this program, with its standard input and output connected to pipes.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    std::array<int, 2> in{-1, -1};
    std::array<int, 2> out{-1, -1};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
      trouble_ = std::strerror(errno);
    } else {
      pid_ = Spawn({.path = "/proc/self/exe",
                    .arguments = std::move(arguments),
                    .in = in[0],
                    .out = out[1]});
      if (pid_ < 0) trouble_ = std::strerror(-pid_);
    }
    for (const int fd : {in[0], out[1]}) {
      if (fd >= 0) ::close(fd);
    }
    in_ = in[1];
    out_ = out[0];
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      Wait();
    }
    for (const int fd : {in_, out_}) {
      if (fd >= 0) ::close(fd);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const std::string& trouble() const { return trouble_; }
  // Reads a line of its output. Empty: none came in time.
  std::string Line() {
    std::string line;
    const auto until = Steady::now() + kChildWithin;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now());
      pollfd wait{.fd = out_, .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0) return {};
      char byte = 0;
      const ssize_t got = ::read(out_, &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || byte == '\n') return line;
      line += byte;
    }
  }
  // Waits for it to end, and kills it after a time limit.
  void End() {
    if (in_ >= 0) ::close(std::exchange(in_, -1));
    const auto until = Steady::now() + kChildWithin;
    while (pid_ > 0 && Steady::now() < until) {
      if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
        pid_ = -1;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  void Wait() {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string trouble_;
};

Bytes FreeOn(GpuDevice* device) {
  const Result<Reading> reading = device->ReadMemory();
  return reading ? reading->free : 0;
}

// The memory of an ended process is freed some time later.
void AwaitFree(GpuDevice* device, Bytes bytes) {
  const auto until = Steady::now() + kBackWithin;
  while (FreeOn(device) + device->chunk_bytes() < bytes && Steady::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void LookThrough(const std::vector<std::byte>& bytes, const Pattern& pattern, StaleSearch* search) {
  constexpr std::array<std::byte, kLine> kZeros{};
  for (Bytes at = 0; at + kLine <= bytes.size(); at += kLine) {
    const std::byte* const line = bytes.data() + at;
    if (std::memcmp(line, kZeros.data(), kLine) == 0) continue;
    search->not_zero += kLine;
    if (std::memcmp(line, pattern.data(), pattern.size()) == 0) search->found += kLine;
  }
}

// Takes chunks as long as there are any, and keeps all of them while it searches.
void TakeAndLook(GpuDevice* device, Bytes most, const Pattern& pattern, StaleSearch* search) {
  Holdings holdings(device);
  if (const Status reserved = holdings.Reserve(most); !reserved) {
    search->trouble = reserved.error().message;
    return;
  }
  std::vector<std::byte> bytes(device->chunk_bytes());
  while (holdings.held() < most) {
    const Bytes before = holdings.held();
    if (!holdings.Take(bytes.size())) break;
    const Status out =
        device->CopyOut(holdings.base() + before, bytes.size(), Sink(bytes.data(), bytes.size()));
    if (!out) {
      search->trouble = out.error().message;
      return;
    }
    LookThrough(bytes, pattern, search);
    search->searched += bytes.size();
  }
  if (search->searched == 0) search->trouble = "no memory could be taken";
}

}  // namespace

StaleSearch SearchStale(GpuDevice* device, HowLeft how, Bytes most) {
  StaleSearch search;
  const Bytes chunk = device->chunk_bytes();
  const Bytes free = FreeOn(device);
  const Bytes bytes = std::min(most, free / 4) / chunk * chunk;
  if (bytes == 0) {
    search.trouble = "too little memory is free";
    return search;
  }
  const Pattern pattern = NewPattern();
  const std::string_view vendor = Name(device->driver().kind);
  Child child({"spillway", "selftest", "--leave", how == HowLeft::kExit ? "exit" : "release",
               "--pattern", Hex(pattern), "--device", fmt::format("{}:{}", vendor, device->id()),
               "--memory", fmt::format("{}", bytes)});
  const std::string line = child.trouble().empty() ? child.Line() : child.trouble();
  unsigned long long left = 0;
  if (std::sscanf(line.c_str(), "left %llu", &left) != 1 || left == 0) {
    search.trouble = line.empty() ? "the second process did not answer" : line;
    return search;
  }
  search.left = left;
  if (how == HowLeft::kExit) child.End();
  AwaitFree(device, free);
  TakeAndLook(device, bytes, pattern, &search);
  child.End();
  return search;
}

int LeaveBytes(const LeaveOptions& options) {
  const auto fail = [](const std::string& why) {
    fmt::print("{}\n", why);
    return 1;
  };
  Pattern pattern{};
  if (!ParseHex(options.pattern, &pattern)) return fail("no pattern to leave");
  const Result<NamedDevice> named = FindDevice(options.device);
  if (!named) return fail(named.error().message);
  auto device = OpenGpu(*named, {});
  if (!device) return fail(device.error().message);
  Holdings holdings(device->get());
  if (const Status reserved = holdings.Reserve(options.bytes); !reserved) {
    return fail(reserved.error().message);
  }
  const Bytes chunk = (*device)->chunk_bytes();
  std::vector<std::byte> bytes(chunk);
  for (Bytes at = 0; at + kLine <= chunk; at += kLine) {
    std::memcpy(bytes.data() + at, pattern.data(), pattern.size());
  }
  while (holdings.held() < options.bytes) {
    const Bytes before = holdings.held();
    if (!holdings.Take(chunk)) break;
    const Status in =
        (*device)->CopyIn(holdings.base() + before, Source(bytes.data(), bytes.size()));
    if (!in) return fail(in.error().message);
  }
  const Bytes left = holdings.held();
  const bool release = options.how == "release";
  if (release) holdings.GiveBack();
  fmt::print("left {}\n", left);
  std::fflush(stdout);
  // Ends like a killed process: without any cleanup of its own.
  if (!release) ::_exit(0);
  char ignored = 0;
  while (::read(STDIN_FILENO, &ignored, 1) > 0) continue;
  return 0;
}

}  // namespace spillway
