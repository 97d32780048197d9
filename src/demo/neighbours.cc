#include "demo/neighbours.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"

extern char** environ;  // NOLINT: POSIX wants it declared by hand.

namespace spillway::demo {

namespace {

constexpr std::size_t kLineMax = 512;
constexpr int kReadsPerLook = 16;  // One that talks without end is heard in pieces.
constexpr const char* kPatience = "2s";
// Between asking a process to end and making it.
constexpr int kGraceMs = 200;

Error Failed(const char* what, int error) {
  return Error{Code::kUnavailable, fmt::format("{}: {}", what, std::strerror(error))};
}

// Its output comes to `out`; signals are as in a shell, whatever the demo blocks.
Result<pid_t> Spawn(const std::vector<std::string>& arguments, int out) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t none;
  sigemptyset(&none);
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &broken_pipe);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv.front(), &files, &how, argv.data(), environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return Failed("cannot start a neighbour", error);
  return pid;
}

}  // namespace

Neighbours::Neighbours(std::string program, std::string card)
    : program_(std::move(program)), card_(std::move(card)) {}

Neighbours::~Neighbours() {
  EndAll(Duration::zero());
  for (const Pipe& pipe : pipes_) {
    if (pipe.fd >= 0) ::close(pipe.fd);
  }
}

Status Neighbours::Send(Bytes bytes, Bytes step, Duration hold, Duration now) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Failed("no pipe for a neighbour", errno);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const auto hold_ms = std::chrono::duration_cast<std::chrono::milliseconds>(hold).count();
  const Result<pid_t> pid = Spawn(
      {program_, "squeeze", fmt::format("{}", bytes), "--card", card_, "--for",
       fmt::format("{}ms", hold_ms), "--step", fmt::format("{}", step), "--patience", kPatience},
      ends[1]);
  ::close(ends[1]);
  if (!pid) {
    ::close(ends[0]);
    return pid.error();
  }
  Neighbour neighbour;
  neighbour.pid = *pid;
  neighbour.bytes = bytes;
  neighbour.hold = hold;
  neighbour.came = now;
  all_.push_back(std::move(neighbour));
  pipes_.push_back({ends[0], {}});
  return {};
}

bool Neighbours::Look(Duration now) {
  bool news = false;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (pipes_[i].fd >= 0) news |= Hear(i);
    if (all_[i].state != Neighbour::State::kGone) news |= Reap(i, now);
  }
  return news;
}

bool Neighbours::Hear(std::size_t i) {
  Pipe& pipe = pipes_[i];
  bool news = false;
  std::array<char, 512> buffer;
  ssize_t n = -1;
  for (int reads = 0; reads < kReadsPerLook; ++reads) {
    n = ::read(pipe.fd, buffer.data(), buffer.size());
    if (n <= 0) break;
    for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(n))) {
      if (c != '\n') {
        if (pipe.partial.size() < kLineMax) pipe.partial += c;
        continue;
      }
      NoteLine(pipe.partial, &all_[i]);
      pipe.partial.clear();
      news = true;
    }
  }
  if (n == 0) ::close(std::exchange(pipe.fd, -1));
  return news;
}

void NoteLine(std::string_view line, Neighbour* neighbour) {
  neighbour->said = line;
  constexpr std::string_view kHas = "squeeze: has ";
  constexpr std::string_view kAfter = " after ";
  if (!line.starts_with(kHas)) return;
  neighbour->state = Neighbour::State::kHolding;
  const bool all = !line.substr(kHas.size()).starts_with("only ");
  const std::size_t after = line.find(kAfter);
  if (!all || after == line.npos) return;
  if (const auto time = ParseDuration(line.substr(after + kAfter.size())))
    neighbour->waited = *time;
}

bool Neighbours::Reap(std::size_t i, Duration now) {
  Neighbour& neighbour = all_[i];
  int status = 0;
  if (::waitpid(neighbour.pid, &status, WNOHANG) != neighbour.pid) return false;
  if (pipes_[i].fd >= 0) Hear(i);  // What it said before it left.
  neighbour.state = Neighbour::State::kGone;
  neighbour.status = status;
  neighbour.left = now;
  return true;
}

void Neighbours::EndAll(Duration now) {
  for (const Neighbour& neighbour : all_) {
    if (neighbour.state != Neighbour::State::kGone) ::kill(neighbour.pid, SIGTERM);
  }
  for (int waited = 0; waited < kGraceMs && present() > 0; waited += 5) {
    Look(now);
    if (present() > 0) ::poll(nullptr, 0, 5);
  }
  for (Neighbour& neighbour : all_) {
    if (neighbour.state == Neighbour::State::kGone) continue;
    ::kill(neighbour.pid, SIGKILL);
    ::waitpid(neighbour.pid, &neighbour.status, 0);  // A killed process ends.
    neighbour.state = Neighbour::State::kGone;
    neighbour.left = now;
  }
}

std::size_t Neighbours::present() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      all_, [](const Neighbour& n) { return n.state != Neighbour::State::kGone; }));
}

}  // namespace spillway::demo
