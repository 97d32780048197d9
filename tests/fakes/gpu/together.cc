// SPDX-License-Identifier: Apache-2.0
#include "fakes/gpu/together.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace fakes {

struct Together::Line {
  std::atomic<pid_t> pid;
  std::array<std::atomic<std::uint64_t>, kCardsMax> used;
};

struct Together::Table {
  std::array<Line, 64> lines;
};

namespace {

bool IsThere(pid_t pid) { return pid != 0 && (::kill(pid, 0) == 0 || errno != ESRCH); }

[[noreturn]] void Stop(const std::string& file, const char* what) {
  std::fprintf(stderr, "fake gpu: together %s: %s\n", file.c_str(), what);
  std::abort();
}

}  // namespace

Together::Together(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Table)) != 0) Stop(file, "can't be used");
  void* const at = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) Stop(file, "can't be mapped");
  table_ = static_cast<Table*>(at);
  for (Line& line : table_->lines) {
    pid_t before = line.pid.load();
    if (IsThere(before) || !line.pid.compare_exchange_strong(before, ::getpid())) continue;
    for (auto& used : line.used) used = 0;
    mine_ = &line;
    return;
  }
  Stop(file, "has no line left");
}

Together::~Together() {
  mine_->pid = 0;
  ::munmap(table_, sizeof(Table));
}

void Together::Have(std::size_t card, std::uint64_t bytes) { mine_->used[card] = bytes; }

std::uint64_t Together::Others(std::size_t card) const {
  std::uint64_t bytes = 0;
  for (const Line& line : table_->lines) {
    if (&line != mine_ && IsThere(line.pid)) bytes += line.used[card];
  }
  return bytes;
}

}  // namespace fakes
