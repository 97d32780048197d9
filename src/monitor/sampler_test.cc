#include "monitor/sampler.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "spillway/testing.h"

namespace spillway {
namespace {

// Lets a test wait for something with a bound, without sleeping.
class Latch {
 public:
  void Hit() {
    const std::lock_guard lock(mutex_);
    ++hits_;
    changed_.notify_all();
  }
  bool WaitFor(int hits) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return hits_ >= hits; });
  }
  int hits() {
    const std::lock_guard lock(mutex_);
    return hits_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int hits_ = 0;
};

TEST(Sampler, HandsOnReadingsUntilItIsGone) {
  auto source = std::make_shared<testing::ManualPressure>(Bytes{1000});
  source->Set(0.25);
  Latch latch;
  std::atomic<Bytes> free{0};
  {
    Sampler sampler(source, std::chrono::milliseconds(1), [&](const Result<Reading>& reading) {
      free = reading->free;
      latch.Hit();
    });
    EXPECT_TRUE(latch.WaitFor(3));
  }
  EXPECT_EQ(free, 750U);
}

TEST(Sampler, HandsOnFailuresToo) {
  auto source = std::make_shared<testing::ManualPressure>();
  source->Set(std::nullopt);
  Latch failures;
  Sampler sampler(source, std::chrono::milliseconds(1), [&](const Result<Reading>& reading) {
    if (!reading) failures.Hit();
  });
  EXPECT_TRUE(failures.WaitFor(1));
}

// A source that does not come back must not hold up whoever stops sampling.
class Hanging : public PressureSource {
 public:
  Result<Reading> Read() override {
    entered.Hit();
    std::unique_lock lock(mutex);
    released.wait(lock, [this] { return let_go; });
    return Reading{100, 100};
  }
  std::string_view name() const override { return "hanging"; }

  Latch entered;
  std::mutex mutex;
  std::condition_variable released;
  bool let_go = false;
};

TEST(Sampler, LeavesAHungSourceBehind) {
  auto source = std::make_shared<Hanging>();
  Latch readings;
  {
    Sampler sampler(source, std::chrono::milliseconds(1),
                    [&](const Result<Reading>&) { readings.Hit(); });
    ASSERT_TRUE(source->entered.WaitFor(1));
  }  // Returns although Read has not.
  {
    const std::lock_guard lock(source->mutex);
    source->let_go = true;
  }
  source->released.notify_all();
  EXPECT_EQ(readings.hits(), 0);
}

}  // namespace
}  // namespace spillway
