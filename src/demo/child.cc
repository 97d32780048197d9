#include "demo/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace spillway::demo {

namespace {

constexpr std::size_t kLineMax = 1024;
constexpr int kReadsPerLook = 16;  // One that talks without end is heard in pieces.

Error Failed(const std::string& what, int error) {
  return Error{Code::kUnavailable, fmt::format("cannot start {}: {}", what, std::strerror(error))};
}

// Between fork and exec other threads' locks may be held for ever: only calls
// that need none. Signals are as in a shell, whatever we block.
[[noreturn]] void BecomeProgram(char* const* argv, int out, int trouble, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);  // It went before we could ask.
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &usual, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(argv[0], argv);
  const int error = errno;
  (void)!::write(trouble, &error, sizeof error);
  ::_exit(126);
}

}  // namespace

Result<Child> Child::Start(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::array<int, 2> out{};
  std::array<int, 2> trouble{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return Failed(words.front(), errno);
  if (::pipe2(trouble.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    for (const int fd : out) ::close(fd);
    return Failed(words.front(), error);
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) BecomeProgram(argv.data(), out[1], trouble[1], parent);
  int error = pid < 0 ? errno : 0;
  ::close(out[1]);
  ::close(trouble[1]);
  // The pipe closes when the program begins: this read has an end.
  if (pid > 0 && ::read(trouble[0], &error, sizeof error) <= 0) error = 0;
  ::close(trouble[0]);
  if (error == 0) {
    ::fcntl(out[0], F_SETFL, O_NONBLOCK);
    return Child(pid, out[0]);
  }
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  ::close(out[0]);
  return Failed(words.front(), error);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::exchange(other.out_, -1)),
      status_(other.status_),
      partial_(std::move(other.partial_)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(out_, other.out_);
  std::swap(status_, other.status_);
  std::swap(partial_, other.partial_);
  return *this;
}

Child::~Child() {
  Kill();
  if (out_ >= 0) ::close(out_);
}

bool Child::Hear(const std::function<void(std::string_view)>& each) {
  bool news = false;
  std::array<char, 512> buffer;
  for (int reads = 0; out_ >= 0 && reads < kReadsPerLook; ++reads) {
    const ssize_t n = ::read(out_, buffer.data(), buffer.size());
    if (n == 0) ::close(std::exchange(out_, -1));
    if (n <= 0) break;
    for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(n))) {
      if (c != '\n') {
        if (partial_.size() < kLineMax) partial_ += c;
        continue;
      }
      each(std::exchange(partial_, {}));
      news = true;
    }
  }
  return news;
}

std::optional<int> Child::Ended() {
  int status = 0;
  if (!status_ && pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

void Child::Ask() const {
  if (!status_ && pid_ > 0) ::kill(pid_, SIGTERM);
}

void Child::Kill() {
  if (pid_ <= 0 || Ended()) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);  // A killed process ends.
  status_ = status;
}

}  // namespace spillway::demo
