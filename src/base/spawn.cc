// SPDX-License-Identifier: Apache-2.0
#include "base/spawn.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace spillway {

namespace {

constexpr int kCanNotRun = 126;

// Between fork and exec other threads' locks may be held for ever, so use only
// functions that take none.
[[noreturn]] void BecomeProgram(const SpawnOptions& options, char* const* argv, int trouble) {
  const std::array streams = {options.in, options.out, options.err};
  for (int i = 0; i < static_cast<int>(streams.size()); ++i) {
    if (streams.at(static_cast<std::size_t>(i)) >= 0) {
      ::dup2(streams.at(static_cast<std::size_t>(i)), i);
    }
  }
  if (options.blocked != nullptr) ::sigprocmask(SIG_SETMASK, options.blocked, nullptr);
  ::execvp(options.path.c_str(), argv);
  const int error = errno;
  (void)!::write(trouble, &error, sizeof error);
  ::_exit(kCanNotRun);
}

}  // namespace

pid_t Spawn(const SpawnOptions& options) {
  std::vector<char*> argv;
  argv.reserve(options.arguments.size() + 1);
  for (const std::string& word : options.arguments) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::array<int, 2> trouble{};
  if (::pipe2(trouble.data(), O_CLOEXEC) != 0) return -errno;
  const pid_t pid = ::fork();
  if (pid == 0) BecomeProgram(options, argv.data(), trouble[1]);
  int error = pid < 0 ? errno : 0;
  ::close(trouble[1]);
  // The pipe closes when the program starts, so this read ends.
  if (pid > 0 && ::read(trouble[0], &error, sizeof error) <= 0) error = 0;
  ::close(trouble[0]);
  if (error == 0) return pid;
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  return -error;
}

}  // namespace spillway
