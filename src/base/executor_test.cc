// SPDX-License-Identifier: Apache-2.0
#include "base/executor.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

struct Job : Strand::Task {
  std::function<void()> work;

  explicit Job(std::function<void()> what) : work(std::move(what)) {
    run = [](Strand::Task* task) { static_cast<Job*>(task)->work(); };
  }
};

TEST(ThreadExecutor, RunsElsewhere) {
  ThreadExecutor executor;
  std::promise<std::thread::id> where;
  Job job([&] { where.set_value(std::this_thread::get_id()); });
  executor.Run(&job);
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
}

TEST(ThreadExecutor, RunsInTheOrderItWasGiven) {
  constexpr int kJobs = 1000;
  std::vector<int> ran;
  std::vector<std::unique_ptr<Job>> jobs;
  {
    ThreadExecutor executor;
    for (int i = 0; i < kJobs; ++i) {
      jobs.push_back(std::make_unique<Job>([&ran, i] { ran.push_back(i); }));
      executor.Run(jobs.back().get());
    }
  }
  ASSERT_EQ(ran.size(), static_cast<std::size_t>(kJobs));
  for (int i = 0; i < kJobs; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(ThreadExecutor, FinishesWhatItWasGivenBeforeItEnds) {
  std::atomic<int> ran{0};
  std::promise<void> go;
  Job slow([&, gate = go.get_future().share()] {
    gate.wait();
    ++ran;
  });
  Job after([&] { ++ran; });
  {
    ThreadExecutor executor;
    executor.Run(&slow);
    executor.Run(&after);
    go.set_value();
  }
  EXPECT_EQ(ran, 2);
}

TEST(ThreadExecutor, TakesWorkFromItsOwnWork) {
  std::atomic<int> ran{0};
  ThreadExecutor executor;
  std::promise<void> done;
  Job second([&] {
    ++ran;
    done.set_value();
  });
  Job first([&] {
    ++ran;
    executor.Run(&second);
  });
  executor.Run(&first);
  done.get_future().wait();
  EXPECT_EQ(ran, 2);
}

std::size_t ThreadsOfThisProcess() {
  std::size_t threads = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/task")) {
    ++threads;
  }
  return threads;
}

TEST(ThreadExecutor, WithoutWorkHasNoThreadToEnd) {
  const std::size_t before = ThreadsOfThisProcess();
  ThreadExecutor executor;
  EXPECT_EQ(ThreadsOfThisProcess(), before);
  ASSERT_TRUE(executor.IsReady());  // Ready for work, it has a thread.
  EXPECT_EQ(ThreadsOfThisProcess(), before + 1);
}

}  // namespace
}  // namespace spillway
