// SPDX-License-Identifier: Apache-2.0
// Memory asked for across processes: a cache on a shared card, and neighbours that ask
// it, take what it gave, are killed or send nonsense.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/client.h"
#include "ask/testing/scripted_reclaim_server.h"
#include "cache/testing/tiers_fixture.h"
#include "device/cpu/card.h"
#include "device/testing/scratch_run_dir.h"
#include "run_program.h"
#include "spillway/cache.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;
using testing::Bulk;
using ::testing::HasSubstr;

constexpr Bytes kCardBytes = 64 * kMiB;
constexpr const char* kCardName = "asking";

bool Eventually(const std::function<bool()>& holds, SteadyClock::duration within = seconds(20)) {
  const auto deadline = SteadyClock::now() + within;
  while (!holds()) {
    if (SteadyClock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  ~Child() {
    if (pid_ > 0) Kill();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Kill() {
    ::kill(pid_, SIGKILL);
    (void)Wait();
  }
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// Shared by the cache's process and the test.
struct Board {
  std::atomic<int> phase{0};  // Set by the test: what the cache's process should do,
  std::atomic<int> done{0};   // and how far it has come.
  std::atomic<Bytes> held{0};
  std::atomic<Bytes> backed{0};
  std::atomic<Bytes> granted{0};
  std::atomic<std::uint64_t> entries{0};
  std::atomic<std::uint64_t> destroyed{0};
  std::atomic<std::uint64_t> wrong{0};
};

std::string Key(int i) { return fmt::format("k{}", i); }

class AskProcesses : public ::testing::Test {
 protected:
  AskProcesses() : card_(Card::Open({.name = kCardName, .total = kCardBytes}).value()) {
    void* shared = ::mmap(nullptr, 2 * sizeof(Board), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    boards_ = new (shared) Board[2];
  }
  ~AskProcesses() override { ::munmap(boards_, 2 * sizeof(Board)); }

  struct Plan {
    int entries = 32;  // Of 1 MiB each.
    bool write_back = true;
    int leased = 0;  // How many, from the first.
    Board* board = nullptr;
  };
  // A process with a cache: fills it, then reports its state until it is killed. In
  // phase 2 it tries to grow; in phase 3 it reads all of it back.
  std::unique_ptr<Child> StartCache(Plan plan) {
    if (plan.board == nullptr) plan.board = &boards_[0];
    Board& board = *plan.board;
    auto child = std::make_unique<Child>([plan, &board] {
      Options options;
      options.card = kCardName;
      options.host_capacity = 2 * kCardBytes;
      options.host_pressure_source = "fixed:0.1";
      options.reserve_bytes_min = 0;
      options.reserve = 0.02;
      options.write_back_after =
          plan.write_back ? std::optional<Duration>(Duration::zero()) : std::nullopt;
      options.write_back_rate.reset();
      // While samples are late nothing grows, and one refused set would end this
      // process.
      options.sample_period = seconds(1);
      options.on_event = [&board](const Event& event) {
        if (event.action == Action::kDestroy) ++board.destroyed;
      };
      auto opened = Cache::Open(options);
      if (!opened || !(*opened)->Start()) return 1;
      Cache& cache = **opened;
      for (int i = 0; i < plan.entries; ++i) {
        if (!cache.Set(Key(i), Source(Bulk(Key(i), kMiB)))) return 2;
      }
      std::vector<Lease> leases;
      for (int i = 0; i < plan.leased; ++i) leases.push_back(std::move(**cache.Get(Key(i))));
      int grown = 0;
      for (int looks = 0;; ++looks) {
        if (board.phase == 2) {
          const std::string key = fmt::format("more{}", grown++ % 64);
          if (!cache.Set(key, Source(Bulk(key, kMiB)))) return 3;
        }
        if (board.phase == 3) {
          for (int i = 0; i < plan.entries; ++i) {
            const auto got = cache.Get(Key(i));
            if (!got || !*got || (*got)->text() != Bulk(Key(i), kMiB)) ++board.wrong;
          }
          for (int i = 0; i < plan.leased; ++i) {
            if (leases[static_cast<std::size_t>(i)].text() != Bulk(Key(i), kMiB)) ++board.wrong;
          }
          board.phase = 0;
        }
        const Stats stats = cache.stats();
        board.held = stats.device.held;
        board.backed = stats.device.clean;
        board.granted = stats.device.granted;
        board.entries = stats.entries;
        board.done = looks + 1;
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    EXPECT_TRUE(Eventually([&] {
      return board.entries == static_cast<std::uint64_t>(plan.entries) &&
             board.held >= static_cast<Bytes>(plan.entries) * kMiB;
    }));
    if (plan.write_back) {
      EXPECT_TRUE(
          Eventually([&] { return board.backed == static_cast<Bytes>(plan.entries) * kMiB; }));
    }
    return child;
  }
  AskOptions For(Bytes bytes) const {
    AskOptions options;
    options.run_dirs = {run_dir_.path()};
    options.device = kCardName;
    options.bytes = bytes;
    return options;
  }
  Bytes Free() { return card_->Read().free; }
  std::string Socket(pid_t pid) const {
    return fmt::format("{}/ask-{}-{}", run_dir_.path(), kCardName, pid);
  }
  void NothingIsLost(int entries) {
    boards_[0].phase = 3;
    EXPECT_TRUE(Eventually([&] { return boards_[0].phase == 0; }));
    EXPECT_EQ(boards_[0].wrong, 0U);
    EXPECT_EQ(boards_[0].destroyed, 0U);
    EXPECT_GE(boards_[0].entries, static_cast<std::uint64_t>(entries));
  }
  // Waits until the process has looked twice.
  void Looks() {
    const int now = boards_[0].done;
    EXPECT_TRUE(Eventually([&] { return boards_[0].done >= now + 2; }));
  }

  testing::ScratchRunDir run_dir_;
  std::unique_ptr<Card> card_;
  Board* boards_ = nullptr;
};

TEST_F(AskProcesses, WhatIsBackedIsThereAtOnce) {
  const auto cache = StartCache({.entries = 48});
  std::vector<double> ms;
  for (int round = 0; round < 8; ++round) {
    const Bytes before = Free();
    const auto start = SteadyClock::now();
    const AskedRoom room = Ask(For(4 * kMiB));
    ms.push_back(std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count());
    EXPECT_GE(room.freed(), 4 * kMiB) << room.why_not_more();
    EXPECT_GE(Free(), before + 4 * kMiB);
  }
  std::ranges::sort(ms);
  fmt::print("backed, 4 MiB: {:.2f} ms, slowest {:.2f} ms\n", ms[ms.size() / 2], ms.back());
  NothingIsLost(48);
}

TEST_F(AskProcesses, WhatIsNotBackedIsCopiedDownFirst) {
  const auto cache = StartCache({.entries = 32, .write_back = false});
  ASSERT_EQ(boards_[0].backed, 0U);
  const Bytes before = Free();
  const auto start = SteadyClock::now();
  const AskedRoom room = Ask(For(16 * kMiB));
  fmt::print("not backed, 16 MiB: {:.1f} ms\n",
             std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count());
  EXPECT_GE(room.freed(), 16 * kMiB) << room.why_not_more();
  EXPECT_GE(Free(), before + 16 * kMiB);
  NothingIsLost(32);
}

TEST_F(AskProcesses, WhatIsLeasedStaysAndIsTheReason) {
  const auto cache = StartCache({.entries = 16, .leased = 12});
  AskOptions options = For(16 * kMiB);
  options.within = seconds(3);
  const AskedRoom room = Ask(options);
  EXPECT_LE(room.freed(), 5 * kMiB);
  EXPECT_GE(room.freed(), 3 * kMiB);
  EXPECT_THAT(room.why_not_more(), HasSubstr("pinned by leases"));
  NothingIsLost(16);
}

TEST_F(AskProcesses, AGrantKeepsTheCacheFromGrowingUntilItEnds) {
  const auto cache = StartCache({.entries = 48});
  const Bytes held_before = boards_[0].held;
  {
    AskOptions options = For(24 * kMiB);
    options.keep = 24 * kMiB + Free();
    const AskedRoom room = Ask(options);
    ASSERT_GE(room.freed(), 24 * kMiB) << room.why_not_more();
    const Bytes free = Free();
    boards_[0].phase = 2;  // It would grow if it could.
    std::this_thread::sleep_for(milliseconds(500));
    EXPECT_GE(Free() + 2 * kMiB, free);
    // Granted memory can be taken, and nothing more is evicted for it.
    ASSERT_TRUE(card_->Take(24 * kMiB));
    const Bytes still = options.keep - 24 * kMiB;
    EXPECT_TRUE(Eventually([&] {
      const Bytes granted = boards_[0].granted;
      return granted <= still + 2 * kMiB && granted + 2 * kMiB >= still;
    })) << boards_[0].granted
        << " for " << still;
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_GE(boards_[0].held + 4 * kMiB, held_before - 24 * kMiB);
    card_->Give(24 * kMiB);
  }
  // The connection is closed: the cache grows again.
  EXPECT_TRUE(Eventually([&] { return boards_[0].held > held_before - 8 * kMiB; }));
  boards_[0].phase = 0;
  Looks();
  EXPECT_EQ(boards_[0].granted, 0U);
}

TEST_F(AskProcesses, AGrantEndsWithItsTimeOrItsAsker) {
  const auto cache = StartCache({.entries = 32});
  AskOptions options = For(8 * kMiB);
  options.hold = milliseconds(1500);
  options.within = milliseconds(500);
  const AskedRoom room = Ask(options);
  EXPECT_TRUE(Eventually([&] { return boards_[0].granted >= 8 * kMiB; }));
  EXPECT_TRUE(Eventually([&] { return boards_[0].granted == 0; }));
  Child asker([&]() -> int {
    const AskedRoom held = Ask(For(8 * kMiB));
    for (;;) ::pause();
  });
  EXPECT_TRUE(Eventually([&] { return boards_[0].granted >= 8 * kMiB; }));
  asker.Kill();
  EXPECT_TRUE(Eventually([&] { return boards_[0].granted == 0; }));
}

TEST_F(AskProcesses, TwoCachesGiveInProportion) {
  const auto large = StartCache({.entries = 36, .board = &boards_[0]});
  const auto small = StartCache({.entries = 12, .board = &boards_[1]});
  const AskedRoom room = Ask(For(16 * kMiB));
  EXPECT_GE(room.freed(), 16 * kMiB) << room.why_not_more();
  ASSERT_EQ(room.answers().size(), 2U);
  for (const AskedRoom::Answer& answer : room.answers()) {
    const Bytes share = (answer.pid == large->pid() ? 12 : 4) * kMiB;
    EXPECT_NEAR(static_cast<double>(answer.freed), static_cast<double>(share), 2.0 * kMiB);
  }
  EXPECT_TRUE(Eventually([&] { return boards_[0].granted > 0 && boards_[1].granted > 0; }));
}

TEST_F(AskProcesses, NonsenseIsAnsweredOrClosedAndCostsNothing) {
  const auto cache = StartCache({.entries = 16});
  const std::string path = Socket(cache->pid());
  const Bytes held = boards_[0].held;
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    testing::Line line(path);
    if (!line.connected()) continue;  // Its queue is full: later ones succeed.
    std::string bytes(random() % 600, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 3 == 0 ? '\n' : random());
    if (i % 3 == 0) bytes = fmt::format("ASK 1 {} -1 5\nASK 9 x 1 1\nHELD 1 other\n", kCardName);
    line.Send(bytes);
    if (i % 3 == 0) {
      for (int n = 0; n < 3; ++n) {
        const std::string answer = line.Next();
        if (answer == "(closed)") break;
        EXPECT_THAT(answer, ::testing::StartsWith("ERR "));
      }
    }
  }
  std::vector<std::unique_ptr<testing::Line>> many;
  for (int i = 0; i < 100; ++i) many.push_back(std::make_unique<testing::Line>(path));
  many.clear();
  EXPECT_TRUE(Eventually([&] {
    return testing::Line(path).Talk(fmt::format("HELD 1 {}", kCardName)).starts_with("OK ");
  }));
  Looks();
  EXPECT_EQ(boards_[0].held, held);
  NothingIsLost(16);
}

TEST_F(AskProcesses, AKilledCachesSocketIsPassedOverAndRemoved) {
  auto cache = StartCache({.entries = 4});
  const std::string path = Socket(cache->pid());
  cache->Kill();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(Ask(For(kMiB)).answers().empty());
  boards_[0].entries = 0;
  boards_[0].held = 0;
  boards_[0].backed = 0;
  cache = StartCache({.entries = 4});
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(Ask(For(kMiB)).answers().size(), 1U);
}

// --- the programs ---

TEST_F(AskProcesses, RoomMakesItRunsAndLetsGo) {
  const auto cache = StartCache({.entries = 56});
  ASSERT_LT(Free(), 16 * kMiB);
  const ProgramRun run =
      RunProgram(fmt::format("{0} room 32MiB -- {0} squeeze 32MiB --card {1} --for 0 --patience 0",
                             SPILLWAY_BIN, kCardName));
  EXPECT_EQ(run.status, 0) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("squeeze: has 32 MiB after"));
  EXPECT_THAT(run.err, HasSubstr(fmt::format("room: pid {} gave", cache->pid())));
  EXPECT_TRUE(Eventually([&] { return boards_[0].granted == 0; }));
  NothingIsLost(56);
}

TEST_F(AskProcesses, RoomSaysWhyThereIsTooLittle) {
  const auto cache = StartCache({.entries = 56, .leased = 52});
  const ProgramRun run =
      RunProgram(fmt::format("{} room 48MiB --within 3s -- echo ran", SPILLWAY_BIN));
  EXPECT_EQ(run.status, 125);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("pinned by leases"));
  const ProgramRun partial =
      RunProgram(fmt::format("{} room 48MiB --within 3s --partial -- echo ran", SPILLWAY_BIN));
  EXPECT_EQ(partial.status, 0);
  EXPECT_EQ(partial.out, "ran\n");
}

TEST_F(AskProcesses, SqueezeThatAsksHasItAtOnce) {
  const auto cache = StartCache({.entries = 56});
  const ProgramRun run = RunProgram(fmt::format(
      "{} squeeze 32MiB --card {} --ask --for 0 --patience 10s", SPILLWAY_BIN, kCardName));
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("squeeze: has 32 MiB after"));
  NothingIsLost(56);
}

}  // namespace
}  // namespace spillway
