#include "demo/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::demo {
namespace {

using ::testing::HasSubstr;

int WaitFor(Child* child) {
  for (int i = 0; i < 10'000 && !child->Ended(); ++i) ::poll(nullptr, 0, 1);
  return child->Ended().value_or(-1);
}

TEST(Child, IsHeardLineByLine) {
  Result<Child> child = Child::Start({"/bin/sh", "-c", "echo one; echo two >&2; printf three"});
  ASSERT_TRUE(child);
  const int status = WaitFor(&*child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::string heard;
  EXPECT_TRUE(child->Hear([&](std::string_view line) { heard += "<" + std::string(line) + ">"; }));
  EXPECT_EQ(heard, "<one><two>");
}

TEST(Child, AProgramThatIsNotThereIsAnErrorThatNamesIt) {
  const Result<Child> child = Child::Start({"/nowhere/program"});
  ASSERT_FALSE(child);
  EXPECT_THAT(child.error().message, HasSubstr("/nowhere/program: No such file"));
}

TEST(Child, HasAGroupOfItsOwnAndSignalsAsInAShell) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &stop, &before);
  Result<Child> child = Child::Start({"/bin/sleep", "60"});
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child);
  EXPECT_EQ(::getpgid(child->pid()), child->pid());
  child->Ask();
  const int status = WaitFor(&*child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(Child, GoesWithItsOwner) {
  pid_t pid = 0;
  {
    Result<Child> child = Child::Start({"/bin/sleep", "60"});
    ASSERT_TRUE(child);
    pid = child->pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

// A shell in between starts nothing itself: a parent that is killed can't clean up.
TEST(Child, GoesWithAProcessThatWasKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    Result<Child> child = Child::Start({"/bin/sleep", "60"});
    const pid_t pid = child ? child->pid() : -1;
    (void)!::write(ends[1], &pid, sizeof pid);
    for (;;) ::pause();
  }
  pid_t pid = 0;
  ASSERT_EQ(::read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  ASSERT_GT(pid, 0);
  EXPECT_EQ(::kill(pid, 0), 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // Whoever inherits it may take its time to reap it; a zombie runs no more.
  bool gone = false;
  for (int i = 0; i < 5'000 && !gone; ++i) {
    char state = 'R';
    if (std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r")) {
      (void)!std::fscanf(file, "%*d %*s %c", &state);
      std::fclose(file);
      gone = state == 'Z' || state == 'X';
    } else {
      gone = true;
    }
    ::poll(nullptr, 0, 1);
  }
  EXPECT_TRUE(gone);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace spillway::demo
