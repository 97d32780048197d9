// `spillway demo` as a user starts it: the real program, without a terminal.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/testing/scratch_run_dir.h"

extern char** environ;  // NOLINT: POSIX wants it declared by hand.

namespace spillway {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A run of the program. What it writes is read as it comes.
class Program {
 public:
  enum class Out : std::uint8_t { kPipe, kTerminal };

  explicit Program(std::vector<std::string> arguments, Out out = Out::kPipe) {
    arguments.insert(arguments.begin(), SPILLWAY_BIN);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int theirs = out == Out::kPipe ? MakePipe() : MakeTerminal();
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, theirs, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, theirs, STDERR_FILENO);
    EXPECT_EQ(::posix_spawn(&pid_, SPILLWAY_BIN, &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    ::close(theirs);
  }
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(out_);
  }

  pid_t pid() const { return pid_; }
  const std::string& text() const { return text_; }
  // Nobody reads any more.
  void CloseOutput() { ::close(std::exchange(out_, -1)); }

  // Reads until `text` has come, or all has, or a minute is over.
  bool ReadUntil(const std::string& text) {
    const auto give_up = std::chrono::steady_clock::now() + seconds(60);
    while (text_.find(text) == text_.npos && std::chrono::steady_clock::now() < give_up) {
      pollfd ready{out_, POLLIN, 0};
      if (::poll(&ready, 1, 1000) <= 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(out_, buffer.data(), buffer.size());
      if (n <= 0) break;
      text_.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return text_.find(text) != text_.npos;
  }
  // The exit code, or -1 if it did not end by itself.
  int End() {
    if (out_ >= 0) ReadUntil("there is no such text");
    int status = 0;
    const auto give_up = std::chrono::steady_clock::now() + seconds(60);
    while (::waitpid(pid_, &status, WNOHANG) != pid_) {
      if (std::chrono::steady_clock::now() > give_up) return -1;  // The destructor ends it.
      ::poll(nullptr, 0, 1);
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int MakePipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    out_ = ends[0];
    return ends[1];
  }
  int MakeTerminal() {
    out_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_EQ(::grantpt(out_), 0);
    EXPECT_EQ(::unlockpt(out_), 0);
    const int theirs = ::open(::ptsname(out_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::ioctl(theirs, TIOCSWINSZ, &size), 0);
    return theirs;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  std::string text_;
};

class DemoTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return run_dir_.path() + "/" + name; }
  bool CardIsGone(pid_t pid) const {
    return !std::filesystem::exists(run_dir_.CardPath("demo-" + std::to_string(pid)));
  }
  testing::ScratchRunDir run_dir_;
};

std::set<std::string> NeighboursIn(const std::string& text) {
  std::set<std::string> pids;
  const std::regex has("neighbour pid ([0-9]+) has its");
  for (std::sregex_iterator it(text.begin(), text.end(), has), end; it != end; ++it) {
    pids.insert((*it)[1]);
  }
  return pids;
}

TEST_F(DemoTest, PlaysToItsEndWithoutATerminal) {
  Program demo({"demo", "--for", "6s", "--card-size", "64MiB", "--record", Path("record.csv")});
  const pid_t pid = demo.pid();
  ASSERT_EQ(demo.End(), 0) << demo.text();
  const std::string& text = demo.text();
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("on a card of 64 MiB, for 6 s"), HasSubstr("usual 2 min|30 s")));

  const std::set<std::string> neighbours = NeighboursIn(text);
  EXPECT_FALSE(neighbours.empty()) << text;
  EXPECT_FALSE(neighbours.contains(std::to_string(pid)));

  EXPECT_THAT(text, HasSubstr("level RELAXED -> "));
  EXPECT_THAT(text, HasSubstr("summary: "));
  EXPECT_THAT(text, HasSubstr("destroyed"));
  EXPECT_THAT(text, HasSubstr(", 0 wrong bytes\n"));
  EXPECT_TRUE(CardIsGone(pid));
}

TEST_F(DemoTest, RecordsWhatTheCardSaid) {
  Program demo({"demo", "--for", "2s", "--card-size", "16MiB", "--record", Path("record.csv")});
  ASSERT_EQ(demo.End(), 0) << demo.text();
  std::ifstream file(Path("record.csv"));
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "t,total,free,others,ours_backed,ours_unbacked,level");
  int lines = 0;
  while (std::getline(file, line)) {
    ++lines;
    std::istringstream fields(line);
    double t = 0;
    std::uint64_t total = 0, free = 0, others = 0, backed = 0, unbacked = 0;
    char comma = 0;
    fields >> t >> comma >> total >> comma >> free >> comma >> others >> comma >> backed >> comma >>
        unbacked >> comma;
    EXPECT_TRUE(fields) << line;
    EXPECT_EQ(total, 16U << 20U);
    EXPECT_EQ(backed, 0U);
    EXPECT_LE(free, total);
    EXPECT_LE(unbacked, total);
  }
  EXPECT_GT(lines, 3);
}

TEST_F(DemoTest, DrawsATableOnATerminalAndLeavesItAsItWas) {
  ::setenv("TERM", "xterm", 1);
  Program demo({"demo", "--for", "10min", "--card-size", "64MiB"}, Program::Out::kTerminal);
  ASSERT_TRUE(demo.ReadUntil("what left, and why")) << demo.text();
  ASSERT_EQ(::kill(demo.pid(), SIGINT), 0);
  EXPECT_EQ(demo.End(), 0);
  const std::string& text = demo.text();
  const std::size_t entered = text.find("\x1b[?1049h");
  const std::size_t left = text.find("\x1b[?1049l");
  ASSERT_NE(entered, text.npos);
  ASSERT_NE(left, text.npos);
  EXPECT_LT(entered, text.find("researcher-1"));
  EXPECT_LT(left, text.find("summary: "));
  EXPECT_THAT(text, HasSubstr(", 0 wrong bytes"));
}

TEST_F(DemoTest, CtrlCEndsItWithASummary) {
  Program demo({"demo", "--for", "10min", "--card-size", "64MiB"});
  const pid_t pid = demo.pid();
  ASSERT_TRUE(demo.ReadUntil("RELAXED"));
  ASSERT_EQ(::kill(pid, SIGINT), 0);
  EXPECT_EQ(demo.End(), 0) << demo.text();
  EXPECT_THAT(demo.text(), HasSubstr("summary: "));
  EXPECT_TRUE(CardIsGone(pid));
}

TEST_F(DemoTest, EndsWhenNobodyReads) {
  Program demo({"demo", "--for", "10min", "--card-size", "64MiB"});
  const pid_t pid = demo.pid();
  ASSERT_TRUE(demo.ReadUntil("RELAXED"));
  demo.CloseOutput();
  EXPECT_EQ(demo.End(), 0);
  EXPECT_TRUE(CardIsGone(pid));
}

TEST_F(DemoTest, WrongArgumentsAreNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"demo", "--for", "20"}, "--for: "},
      {{"demo", "--for", "0s"}, "a demo of 0 s can't be played"},
      {{"demo", "--card-size", "4G"}, "--card-size: "},
      {{"demo", "--card-size", "1MiB"}, "a card of 1 MiB is too small"},
      {{"demo", "--card-size", "1024TiB"}, "more than half of the"},
      {{"demo", "--for", "1s", "--record", "/nowhere/record.csv"},
       "cannot write '/nowhere/record.csv'"},
      {{"demo", "--fast"}, "--fast"},
  };
  for (const auto& [arguments, message] : wrong) {
    Program demo(arguments);
    EXPECT_EQ(demo.End(), 2) << message;
    EXPECT_THAT(demo.text(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace spillway
