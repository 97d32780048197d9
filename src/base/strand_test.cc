// SPDX-License-Identifier: Apache-2.0
#include "base/strand.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr unsigned kThreads = 4;

struct Job : Strand::Task {
  std::function<void()> work;

  static void Run(Strand::Task* task) { static_cast<Job*>(task)->work(); }
};

void OnThreads(const std::function<void(unsigned)>& work) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(CombiningStrand, RunsAtOnceWhenNobodyElseDoes) {
  CombiningStrand strand;
  bool ran = false;
  Job job;
  job.run = &Job::Run;
  job.work = [&] { ran = true; };
  strand.Post(&job);
  EXPECT_TRUE(ran);
}

TEST(CombiningStrand, RunsOneEventAtATimeAndLosesNone) {
  constexpr std::uint64_t kEvents = 20'000;
  CombiningStrand strand;
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  std::uint64_t count = 0;  // Plain: only the strand's order makes this safe.
  OnThreads([&](unsigned) {
    for (std::uint64_t i = 0; i < kEvents; ++i) {
      RunOn(strand, [&] {
        if (inside.fetch_add(1) != 0) overlapped = true;
        ++count;
        inside.fetch_sub(1);
      });
    }
  });
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(count, kThreads * kEvents);
}

TEST(CombiningStrand, KeepsTheOrderInWhichAThreadPosts) {
  constexpr std::uint64_t kEvents = 5'000;
  CombiningStrand strand;
  std::vector<std::vector<Job>> jobs(kThreads);
  for (auto& of_thread : jobs) of_thread.resize(kEvents);
  std::vector<std::vector<std::uint64_t>> ran(kThreads);
  OnThreads([&](unsigned thread) {
    for (std::uint64_t i = 0; i < kEvents; ++i) {
      Job& job = jobs[thread][i];
      job.run = &Job::Run;
      job.work = [&ran, thread, i] { ran[thread].push_back(i); };
      strand.Post(&job);
    }
  });
  // The last poster, or a later runner, has run everything that was posted.
  RunOn(strand, [&] {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      ASSERT_EQ(ran[thread].size(), kEvents);
      for (std::uint64_t i = 0; i < kEvents; ++i) ASSERT_EQ(ran[thread][i], i);
    }
  });
}

TEST(CombiningStrand, AnEventPostedByAnEventRunsAfterIt) {
  CombiningStrand strand;
  std::vector<int> order;
  Job inner;
  inner.run = &Job::Run;
  inner.work = [&] { order.push_back(2); };
  RunOn(strand, [&] {
    strand.Post(&inner);
    order.push_back(1);
  });
  RunOn(strand, [&] { order.push_back(3); });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

// An event that posts itself again, like the reaper, while threads post others:
// each run counts, and none overlaps.
TEST(CombiningStrand, AnEventMayPostItselfAgain) {
  constexpr int kRuns = 10'000;
  CombiningStrand strand;
  int runs = 0;
  std::atomic<bool> ended{false};
  Job again;
  again.run = &Job::Run;
  again.work = [&] {
    if (++runs < kRuns) {
      strand.Post(&again);
    } else {
      ended = true;
    }
  };
  std::thread first([&] { strand.Post(&again); });
  std::uint64_t others = 0;
  do {
    RunOn(strand, [&] { ++others; });
  } while (!ended);
  first.join();
  EXPECT_EQ(runs, kRuns);
  EXPECT_GT(others, 0U);
}

TEST(RunOn, ReturnsOnlyAfterItsEventHasRun) {
  CombiningStrand strand;
  OnThreads([&](unsigned) {
    for (int i = 0; i < 5'000; ++i) {
      int on_my_stack = 0;
      RunOn(strand, [&] { on_my_stack = i + 1; });
      ASSERT_EQ(on_my_stack, i + 1);
    }
  });
}

}  // namespace
}  // namespace spillway
