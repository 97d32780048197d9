// SPDX-License-Identifier: Apache-2.0
#include "monitor/poller.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "monitor/bounded_read.h"
#include "spillway/testing.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;

// Lets a test wait for something with a bound, without sleeping.
class Latch {
 public:
  void Hit() {
    const MutexLock lock(mutex_);
    ++hits_;
    changed_.notify_all();
  }
  bool WaitFor(int hits) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, std::chrono::seconds(20),
                             [&]() SPILLWAY_REQUIRES(mutex_) { return hits_ >= hits; });
  }
  bool WaitForMore(int more) { return WaitFor(hits() + more); }
  int hits() {
    const MutexLock lock(mutex_);
    return hits_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int hits_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

class Listener : public Poller::Client {
 public:
  Next OnReading(const Result<Reading>& reading) override {
    EXPECT_FALSE(inside_.exchange(true)) << "two calls at a time";
    if (reading) {
      free = reading->free;
      good.Hit();
    } else {
      const MutexLock lock(mutex);
      last_error = reading.error();
      bad.Hit();
    }
    inside_ = false;
    return answer_next;
  }
  Next Continue() override {
    continued.Hit();
    return Next::kWait;
  }

  Latch good, bad, continued;
  std::atomic<Bytes> free{0};
  std::atomic<Next> answer_next{Next::kWait};
  Mutex mutex;
  Error last_error SPILLWAY_GUARDED_BY(mutex);

 private:
  std::atomic<bool> inside_{false};
};

// Answers, or does not return until it is released.
class MayHang : public PressureSource {
 public:
  Result<Reading> Read() override {
    EXPECT_FALSE(inside_.exchange(true)) << "two calls at a time";
    const MutexLock lock(mutex_);
    entered.Hit();
    while (hang_) changed_.wait(mutex_);
    inside_ = false;
    return Reading{100, 100};
  }
  std::string_view name() const override { return "may hang"; }
  void Hang(bool hang) {
    const MutexLock lock(mutex_);
    hang_ = hang;
    changed_.notify_all();
  }
  Latch entered;

 private:
  std::atomic<bool> inside_{false};
  Mutex mutex_;
  CondVar changed_;
  bool hang_ SPILLWAY_GUARDED_BY(mutex_) = false;
};

// On a busy machine even a good call may take long.
Poller::Settings Fast(Duration deadline = std::chrono::seconds(20)) {
  Poller::Settings settings;
  settings.pace.slowest = milliseconds(2);
  settings.pace.near = milliseconds(1);
  settings.deadline = deadline;
  return settings;
}

// For tests in which one source hangs on purpose and must be detected as late.
constexpr Duration kLate = milliseconds(500);

TEST(Poller, HandsOnReadingsUntilTheWatchIsGone) {
  auto source = std::make_shared<testing::ManualPressure>(Bytes{1000});
  source->Set(0.25);
  Poller poller;
  Listener listener;
  {
    const auto watch = poller.Add(source, Fast(), &listener);
    EXPECT_TRUE(listener.good.WaitFor(3));
    EXPECT_GE(watch->account().reads, 2U);
    EXPECT_EQ(watch->account().failures, 0U);
  }
  EXPECT_EQ(listener.free, 750U);
}

TEST(Poller, HandsOnFailuresAndThenWhatComesAfterThem) {
  auto source = std::make_shared<testing::ManualPressure>();
  source->Set(std::nullopt);
  Poller poller;
  Listener listener;
  const auto watch = poller.Add(source, Fast(), &listener);
  EXPECT_TRUE(listener.bad.WaitFor(2));
  EXPECT_FALSE(watch->account().last_error.empty());
  source->Set(0.5);
  EXPECT_TRUE(listener.good.WaitFor(1));
}

TEST(Poller, AHungSourceIsNoReadingAndHoldsUpNobodyElse) {
  auto hung = std::make_shared<MayHang>();
  auto fine = std::make_shared<testing::ManualPressure>();
  Poller poller;
  Listener of_hung;
  Listener of_fine;
  const auto watch_hung = poller.Add(hung, Fast(kLate), &of_hung);
  const auto watch_fine = poller.Add(fine, Fast(), &of_fine);
  ASSERT_TRUE(of_hung.good.WaitFor(1));
  hung->Hang(true);
  ASSERT_TRUE(of_hung.bad.WaitFor(1));
  {
    const MutexLock lock(of_hung.mutex);
    EXPECT_EQ(of_hung.last_error.code, Code::kDeadline);
    EXPECT_NE(of_hung.last_error.message.find("may hang"), std::string::npos);
  }
  EXPECT_TRUE(watch_hung->account().hung);
  EXPECT_EQ(watch_hung->account().hangs, 1U);
  EXPECT_TRUE(of_fine.good.WaitForMore(5));
  const int entered = hung->entered.hits();
  EXPECT_TRUE(of_fine.good.WaitForMore(5));
  EXPECT_EQ(hung->entered.hits(), entered) << "a source with a call out was asked again";
  // It recovers, and hangs again.
  for (int round = 0; round < 3; ++round) {
    hung->Hang(false);
    EXPECT_TRUE(of_hung.good.WaitForMore(2));
    EXPECT_FALSE(watch_hung->account().hung);
    const int bad = of_hung.bad.hits();
    hung->Hang(true);
    EXPECT_TRUE(of_hung.bad.WaitFor(bad + 1));
  }
  hung->Hang(false);
}

// On the report of the hang it makes the call return meanwhile.
class Rescuer : public Listener {
 public:
  explicit Rescuer(MayHang* source) : source_(source) {}
  Next OnReading(const Result<Reading>& reading) override {
    if (!reading) {
      source_->Hang(false);
      // The stuck thread releases the source.
      std::this_thread::sleep_for(milliseconds(50));  // real world: another thread works meanwhile
    }
    return Listener::OnReading(reading);
  }

 private:
  MayHang* const source_;
};

TEST(Poller, GoesOnWithASourceThatReturnsWhileItsClientIsToldThatItHangs) {
  auto source = std::make_shared<MayHang>();
  Poller poller;
  Rescuer rescuer(source.get());
  const auto watch = poller.Add(source, Fast(kLate), &rescuer);
  ASSERT_TRUE(rescuer.good.WaitFor(1));
  source->Hang(true);
  ASSERT_TRUE(rescuer.bad.WaitFor(1));
  EXPECT_TRUE(rescuer.good.WaitForMore(2));
}

TEST(Poller, EndsAWatchWhoseSourceHangs) {
  auto source = std::make_shared<MayHang>();
  source->Hang(true);
  Poller poller;
  Listener listener;
  auto watch = poller.Add(source, Fast(kLate), &listener);
  ASSERT_TRUE(source->entered.WaitFor(1));
  watch.reset();  // Waits a second, then abandons the call.
  const int heard = listener.good.hits() + listener.bad.hits();
  source->Hang(false);
  // Other sources can still be watched.
  auto fine = std::make_shared<testing::ManualPressure>();
  Listener of_fine;
  const auto watch_fine = poller.Add(fine, Fast(), &of_fine);
  EXPECT_TRUE(of_fine.good.WaitFor(2));
  EXPECT_EQ(listener.good.hits() + listener.bad.hits(), heard);
}

TEST(Poller, ContinuesWithWhoHasMoreToDo) {
  auto source = std::make_shared<testing::ManualPressure>();
  Poller poller;
  Listener listener;
  listener.answer_next = Poller::Client::Next::kMore;
  const auto watch = poller.Add(source, Fast(), &listener);
  EXPECT_TRUE(listener.continued.WaitFor(3));
  EXPECT_TRUE(listener.good.WaitFor(3));
}

TEST(Poller, WhoHadMoreToDoIsNotReadSoonerForIt) {
  auto source = std::make_shared<testing::ManualPressure>();
  Poller poller;
  Listener listener;
  listener.answer_next = Poller::Client::Next::kMore;
  Poller::Settings settings;
  settings.pace.slowest = std::chrono::seconds(100);
  const auto watch = poller.Add(source, settings, &listener);
  ASSERT_TRUE(listener.continued.WaitFor(1));
  // Other sources are read many times; this one is not due for minutes.
  Listener other;
  const auto of_other = poller.Add(std::make_shared<testing::ManualPressure>(), Fast(), &other);
  ASSERT_TRUE(other.good.WaitFor(20));
  EXPECT_EQ(listener.good.hits(), 1);
}

TEST(Poller, LooksAgainAtOnceAfterActing) {
  auto source = std::make_shared<testing::ManualPressure>();
  source->Set(0.1);
  Poller poller;
  Listener listener;
  listener.answer_next = Poller::Client::Next::kAgain;
  Poller::Settings settings;
  settings.pace.slowest = std::chrono::seconds(100);
  const auto watch = poller.Add(source, settings, &listener);
  // At its own pace the second reading would be minutes away.
  EXPECT_TRUE(listener.good.WaitFor(5));
}

// Signals when a test says so.
class Calling : public PressureSource {
 public:
  Calling() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  ~Calling() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Result<Reading> Read() override {
    char out_of_band = 0;
    (void)!::recv(ends_[0], &out_of_band, 1, MSG_OOB | MSG_DONTWAIT);
    return Reading{100, 100};
  }
  std::string_view name() const override { return "calling"; }
  int wake_fd() const override { return ends_[0]; }
  // Returns false if this kernel's sockets do not support it.
  bool Call() const { return ::send(ends_[1], "!", 1, MSG_OOB) == 1; }

 private:
  int ends_[2] = {-1, -1};
};

TEST(Poller, ReadsASourceThatCallsAtOnce) {
  auto source = std::make_shared<Calling>();
  Poller poller;
  Listener listener;
  Poller::Settings settings;
  settings.pace.slowest = std::chrono::seconds(100);
  const auto watch = poller.Add(source, settings, &listener);
  ASSERT_TRUE(listener.good.WaitFor(1));
  for (int call = 0; call < 3; ++call) {
    const int before = listener.good.hits();
    if (!source->Call())
      GTEST_SKIP()
          << "needs a kernel with out-of-band bytes on local sockets (5.15, CONFIG_AF_UNIX_OOB)";
    EXPECT_TRUE(listener.good.WaitFor(before + 1)) << "its own pace would be minutes";
  }
}

TEST(Poller, ManySourcesComeAndGo) {
  Poller poller;
  for (int round = 0; round < 20; ++round) {
    std::deque<Listener> listeners(8);
    std::vector<std::unique_ptr<Poller::Watch>> watches;
    for (Listener& listener : listeners) {
      watches.push_back(poller.Add(std::make_shared<testing::ManualPressure>(), Fast(), &listener));
    }
    for (Listener& listener : listeners) EXPECT_TRUE(listener.good.WaitFor(1));
  }
}

TEST(BoundedReader, GivesUpOnACallThatDoesNotReturn) {
  auto source = std::make_shared<MayHang>();
  BoundedReader reader(source);
  EXPECT_EQ(reader.Read(std::chrono::seconds(20)).value().total, 100U);
  source->Hang(true);
  EXPECT_EQ(reader.Read(milliseconds(10)).error().code, Code::kDeadline);
  // The first call has still not returned.
  EXPECT_EQ(reader.Read(std::chrono::seconds(20)).error().code, Code::kDeadline);
  source->Hang(false);
  while (!reader.Read(std::chrono::seconds(20))) std::this_thread::yield();
}

}  // namespace
}  // namespace spillway
