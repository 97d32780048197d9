// SPDX-License-Identifier: Apache-2.0
// The virtual card among real processes: what one takes is missing for the others, no
// two ever hold more than there is, and dead processes hold nothing.

#include "device/cpu/card.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cli/squeeze.h"
#include "device/cpu/cpu_device.h"
#include "device/testing/scratch_run_dir.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

// A child process that runs `body` and exits with its result; killed when the test
// ends, if it still runs.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)Wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const { ::kill(pid_, number); }
  // The exit code, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// A few words shared by parent and children.
struct Board {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<Bytes> held{0};  // By all children, by their own count.
  std::atomic<Bytes> held_max{0};
  std::atomic<int> takes{0};
  std::atomic<int> refusals{0};
};

bool Eventually(const std::function<bool()>& holds, SteadyClock::duration within = seconds(10)) {
  const auto deadline = SteadyClock::now() + within;
  while (!holds()) {
    if (SteadyClock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

class CardProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    void* shared =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    board_ = new (shared) Board;
  }
  void TearDown() override { ::munmap(board_, sizeof(Board)); }

  static std::unique_ptr<Card> Open(Bytes total) {
    return Card::Open({.name = "crossing", .total = total}).value();
  }

  testing::ScratchRunDir run_dir_;
  Board* board_ = nullptr;
};

TEST_F(CardProcesses, ANeighboursMemoryIsMissingHereAndComesBack) {
  const auto card = Open(1000);
  Child neighbour([&] {
    const auto same = Open(1000);
    if (!same->Take(600)) return 1;
    board_->ready = 1;
    while (!board_->go) std::this_thread::yield();
    same->Give(600);
    board_->ready = 2;
    while (board_->go) std::this_thread::yield();
    return 0;
  });
  ASSERT_TRUE(Eventually([&] { return board_->ready == 1; }));
  EXPECT_EQ(card->Read().free, 400U);
  EXPECT_FALSE(card->Take(401));
  board_->go = true;
  ASSERT_TRUE(Eventually([&] { return board_->ready == 2; }));
  EXPECT_EQ(card->Read().free, 1000U);
  board_->go = false;
  EXPECT_EQ(neighbour.Wait(), 0);
}

TEST_F(CardProcesses, FourHammeringNeverHoldMoreThanThereIs) {
  constexpr Bytes kTotal = 1000;
  const auto card = Open(kTotal);
  std::vector<std::unique_ptr<Child>> children;
  for (unsigned i = 0; i < 4; ++i) {
    children.push_back(std::make_unique<Child>([this, i] {
      const auto mine = Open(kTotal);
      std::mt19937 random(i);
      ++board_->ready;
      while (!board_->go) std::this_thread::yield();
      std::vector<Bytes> shares;
      for (int step = 0; step < 20'000; ++step) {
        const Bytes bytes = 1 + random() % 400;
        if (random() % 2 == 0 && mine->Take(bytes)) {
          // Counted after it was taken and uncounted before it is given back: the sum
          // on the board is never more than what is really held.
          const Bytes all = board_->held.fetch_add(bytes) + bytes;
          Bytes max = board_->held_max.load();
          while (all > max && !board_->held_max.compare_exchange_weak(max, all)) {
          }
          shares.push_back(bytes);
          ++board_->takes;
        } else if (!shares.empty()) {
          board_->held.fetch_sub(shares.back());
          mine->Give(shares.back());
          shares.pop_back();
          ++board_->refusals;
        }
        if (mine->Read().free > kTotal) return 2;
      }
      for (const Bytes bytes : shares) board_->held.fetch_sub(bytes);
      return 0;  // Exiting returns what it holds.
    }));
  }
  ASSERT_TRUE(Eventually([&] { return board_->ready == 4; }));
  board_->go = true;
  for (auto& child : children) EXPECT_EQ(child->Wait(), 0);
  EXPECT_LE(board_->held_max, kTotal);
  EXPECT_GT(board_->held_max, kTotal / 2);
  EXPECT_GT(board_->takes, 1000);
  EXPECT_TRUE(Eventually([&] { return card->Read().free == kTotal; }));
}

TEST_F(CardProcesses, AKilledHoldersShareReturnsWithinASecond) {
  const auto card = Open(1000);
  Child holder([&] {
    const auto same = Open(1000);
    if (!same->Take(900)) return 1;
    board_->ready = 1;
    for (;;) ::pause();
  });
  ASSERT_TRUE(Eventually([&] { return board_->ready == 1; }));
  EXPECT_EQ(card->Read().free, 100U);
  holder.Signal(SIGKILL);
  EXPECT_EQ(holder.Wait(), -SIGKILL);
  EXPECT_TRUE(Eventually([&] { return card->Read().free == 1000; }, seconds(1)));
}

TEST_F(CardProcesses, WhoNeedsTheDeadsShareHasItAtOnce) {
  const auto card = Open(1000);
  Child holder([&] {
    const auto same = Open(1000);
    if (!same->Take(900)) return 1;
    board_->ready = 1;
    for (;;) ::pause();
  });
  ASSERT_TRUE(Eventually([&] { return board_->ready == 1; }));
  holder.Signal(SIGKILL);
  EXPECT_EQ(holder.Wait(), -SIGKILL);
  EXPECT_TRUE(card->Take(1000));
}

// Processes die at any moment of taking, giving and joining: no lock survives, and in
// the end nothing is missing.
TEST_F(CardProcesses, NothingIsLostHoweverOftenOneIsKilledAtWork) {
  constexpr Bytes kTotal = 1000;
  const auto card = Open(kTotal);
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    board_->ready = 0;
    Child worker([&]() -> int {
      for (;;) {
        const auto mine = Open(kTotal);
        board_->ready = 1;
        for (int i = 0; i < 50; ++i) {
          if (mine->Take(700)) mine->Give(700);
        }
      }
    });
    ASSERT_TRUE(Eventually([&] { return board_->ready == 1; }));
    const auto until = SteadyClock::now() + std::chrono::microseconds(random() % 2000);
    while (SteadyClock::now() < until) (void)card->Read();
    worker.Signal(SIGKILL);
    EXPECT_EQ(worker.Wait(), -SIGKILL);
    ASSERT_TRUE(card->Take(kTotal)) << "round " << round;
    card->Give(kTotal);
  }
}

TEST_F(CardProcesses, AStoppedLockHolderIsAnErrorAfterABoundedWait) {
  const auto card =
      Card::Open({.name = "crossing", .total = 1000, .lock_wait = milliseconds(20)}).value();
  // A process that only holds the lock, as one stopped inside would.
  Child stopped([&] {
    const auto file = CardFile::Open(run_dir_.CardPath("crossing"), seconds(1));
    if (!file || !(*file)->Lock()) return 1;
    board_->ready = 1;
    for (;;) ::pause();
  });
  ASSERT_TRUE(Eventually([&] { return board_->ready == 1; }));
  const Status refused = card->Take(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBusy);
  EXPECT_EQ(card->Read().free, 1000U);  // Readings do not wait.
  stopped.Signal(SIGKILL);
  EXPECT_EQ(stopped.Wait(), -SIGKILL);
  EXPECT_TRUE(card->Take(1));  // No lock survives its owner.
}

// A fork copies the parent's open files, and with them its locks. (The bug to avoid: a
// worker forked by a server keeps the dead server's memory counted.)
TEST_F(CardProcesses, AForkedChildNeitherKeepsNorReturnsItsParentsShare) {
  const auto watcher = Open(1000);
  Child parent([&] {
    const auto card = Open(1000);
    if (!card->Take(600)) return 1;
    if (const pid_t child = ::fork(); child == 0) {
      // What a child that knows nothing might do with the card it has inherited.
      card->Give(600);
      if (card->Take(10).error().code != Code::kClosed) ::_exit(1);
      board_->ready = 1;
      while (!board_->go) std::this_thread::yield();
      ::_exit(0);
    }
    for (;;) ::pause();
  });
  ASSERT_TRUE(Eventually([&] { return board_->ready == 1; }));
  EXPECT_EQ(watcher->Read().free, 400U);  // The parent still has it all,
  parent.Signal(SIGKILL);
  EXPECT_EQ(parent.Wait(), -SIGKILL);
  // and though its child still runs, its share is free again.
  EXPECT_TRUE(Eventually([&] { return watcher->Read().free == 1000; }, seconds(1)));
  board_->go = true;
}

TEST_F(CardProcesses, SqueezeTakesRealMemoryAndASignalReturnsIt) {
  const auto device =
      CpuDevice::Open({.name = "crossing", .total = 64 * kMiB, .chunk_bytes = {}}).value();
  for (const int number : {SIGTERM, SIGINT}) {
    Child neighbour([] {
      std::vector<std::string> arguments{"squeeze",  "40MiB",  "--card",
                                         "crossing", "--step", "8MiB"};
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      std::freopen("/dev/null", "w", stdout);
      return RunSqueeze(static_cast<int>(argv.size()), argv.data());
    });
    EXPECT_TRUE(Eventually([&] { return device->ReadMemory().value().free == 24 * kMiB; }));
    neighbour.Signal(number);
    EXPECT_EQ(neighbour.Wait(), 0);
    EXPECT_EQ(device->ReadMemory().value().free, 64 * kMiB);
  }
}

TEST_F(CardProcesses, SqueezeWaitsForAFullCardAndTakesWhatComesFree) {
  const auto card = Open(64 * kMiB);
  ASSERT_TRUE(card->Take(60 * kMiB));
  Child neighbour([] {
    std::vector<std::string> arguments{"squeeze", "40MiB", "--card", "crossing",   "--step",
                                       "8MiB",    "--for", "0",      "--patience", "20s"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    std::freopen("/dev/null", "w", stdout);
    return RunSqueeze(static_cast<int>(argv.size()), argv.data());
  });
  card->Give(60 * kMiB);
  EXPECT_EQ(neighbour.Wait(), 0);  // It got all of it.
  EXPECT_EQ(card->Read().free, 64 * kMiB);
}

}  // namespace
}  // namespace spillway
