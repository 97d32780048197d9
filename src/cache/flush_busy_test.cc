// SPDX-License-Identifier: Apache-2.0
// Flushing on a virtual clock: tiers that are busy, slow, full or broken.
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/core.h"
#include "cache/flush.h"
#include "cache/parts.h"
#include "cache/testing/tiers_fixture.h"
#include "cache/transfer.h"
#include "spillway/testing.h"
#include "tier/disk/testing/faulty_files.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FileCall;
using ::testing::HasSubstr;

// Runs transfers when it is told to, on the caller's thread.
class ManualTransferQueue final : public TransferQueue {
 public:
  explicit ManualTransferQueue(const TransferPaths& ways) : ways_(ways) {}
  void Start(Transfer* transfer) override { queue_.push_back(transfer); }
  void Raise(Transfer* transfer, Priority priority) override { transfer->priority = priority; }
  std::size_t Waiting(TierId, TierId) const override { return queue_.size(); }

  // Runs up to so many as one batch, and posts their ends.
  void RunSome(std::size_t most, Strand* strand) {
    std::vector<Transfer*> batch;
    for (; !queue_.empty() && batch.size() < most; queue_.pop_front()) {
      batch.push_back(queue_.front());
    }
    if (batch.empty()) return;
    RunTransferBatch(ways_, batch);
    for (Transfer* const transfer : batch) strand->Post(transfer);
  }

 private:
  const TransferPaths ways_;
  std::deque<Transfer*> queue_;
};

class FlushBusyTest : public ::testing::Test {
 protected:
  static constexpr int kEntries = 300;

  FlushBusyTest() {
    files_->SetScript([this](FileCall call, std::uint64_t, int) {
      return clock_->Now() < failing_until_ && call == failing_call_ ? failing_with_ : 0;
    });
  }
  ~FlushBusyTest() override { cache_.reset(); }

  void Open(Bytes disk = 64 * kMiB) {
    cache_.reset();
    Options options;
    options.capacity = 8 * kMiB;
    options.policy = "lru";
    options.clock = clock_;
    options.disk_dir = folder_ / "disk";
    options.disk_capacity = disk;
    options.disk_pressure = pressure_;
    options.write_back_after.reset();  // Nothing is copied to disk by itself.
    Seams seams;
    seams.files = files_;
    auto parts = OpenParts(options, seams);
    ASSERT_TRUE(parts) << parts.error().message;
    auto transfer_queue =
        std::make_unique<ManualTransferQueue>(TransferPaths{.device = parts->tiers.device.get(),
                                                            .host = parts->tiers.host.get(),
                                                            .disk = parts->tiers.disk.get()});
    transfer_queue_ = transfer_queue.get();
    parts->transfer_queue = std::move(transfer_queue);
    auto core = Core::Open(options, std::move(*parts));
    ASSERT_TRUE(core) << core.error().message;
    core_ = core->get();
    cache_ = Core::Wrap(std::move(*core));
    ASSERT_TRUE(testing::ComesTrue(*cache_, [](const Stats& stats) { return !stats.loading; }));
  }
  static std::string KeyOf(int i) { return "k" + std::to_string(i); }
  void Fill(int count = kEntries) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(cache_->Set(KeyOf(i), Source(testing::Bulk(KeyOf(i), 100)), {}));
    }
  }
  // Closes and opens the cache: how many entries are there, each with its bytes.
  std::uint64_t FoundAfterRestart(int count = kEntries) {
    RunWhileClosing();
    Open();
    std::uint64_t found = 0;
    Stats stats = cache_->stats();
    cache_->ForEach([&](const Cache::EntryInfo&) { ++found; });
    EXPECT_EQ(stats.disk.entries, found);
    EXPECT_LE(found, static_cast<std::uint64_t>(count));
    return found;
  }
  void RunWhileClosing() {
    per_look_ = 10'000;
    Pass();
    ASSERT_TRUE(Cache::Close(std::move(cache_)));
  }
  // A sample of the disk tier's pressure; empty: unknown.
  void Sample(std::optional<double> pressure) {
    Core::PassSteps pass(core_, TierId::kDisk, Core::SampleValue{pressure, 64 * kMiB});
    while (pass.next() != Core::PassSteps::Next::kNothing) {
      RunOn(core_->strand(), [&] { pass.Step(); });
    }
  }
  void Pass() {
    if (then_ && clock_->Now() >= then_at_) std::exchange(then_, nullptr)();
    transfer_queue_->RunSome(per_look_, &core_->strand());
  }
  FlushOptions Within(Duration within) {
    FlushOptions options;
    options.within = within;
    options.now = [this] { return clock_->Now(); };
    options.wait = [this](Duration by) {
      clock_->Advance(by);
      Pass();
    };
    return options;
  }
  void FailUntil(TimePoint until, FileCall call, int error) {
    failing_until_ = until;
    failing_call_ = call;
    failing_with_ = error;
  }
  Flushed Flush(Duration within) { return FlushToDisk(core_, Within(within)); }
  void At(TimePoint when, std::function<void()> then) {
    then_at_ = when;
    then_ = std::move(then);
  }

  const testing::ScratchFolder folder_;
  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
  const std::shared_ptr<testing::ManualPressure> pressure_ =
      std::make_shared<testing::ManualPressure>(64 * kMiB);
  TimePoint failing_until_{};
  FileCall failing_call_ = FileCall::kWrite;
  int failing_with_ = 0;
  const std::shared_ptr<testing::FaultyFiles> files_ =
      std::make_shared<testing::FaultyFiles>(RealFiles());
  ManualTransferQueue* transfer_queue_ = nullptr;
  Core* core_ = nullptr;
  std::unique_ptr<Cache> cache_;
  std::size_t per_look_ = 1000;
  TimePoint then_at_{};
  std::function<void()> then_;
};

TEST_F(FlushBusyTest, ATierOfUnknownPressureIsAskedAgain) {
  Open();
  Fill();
  Sample(std::nullopt);
  At(TimePoint(seconds(2)), [this] { Sample(0.1); });
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries, kEntries);
  EXPECT_EQ(flushed.entries_left, 0U);
  EXPECT_GE(clock_->Now(), TimePoint(seconds(2)));
  EXPECT_LT(clock_->Now(), TimePoint(seconds(3)));
  EXPECT_EQ(FoundAfterRestart(), kEntries);
}

TEST_F(FlushBusyTest, ATierInEmergencyIsAskedAgain) {
  Open();
  Fill();
  Sample(0.99);
  At(TimePoint(seconds(2)), [this] {
    for (int i = 0; i < 3; ++i) {  // Levels are left one by one.
      Sample(0.1);
      clock_->Advance(seconds(10));
      Sample(0.1);
    }
  });
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries, kEntries);
  EXPECT_EQ(flushed.entries_left, 0U);
}

TEST_F(FlushBusyTest, ATierThatStaysBusyIsLeftWhenTheTimeIsOver) {
  Open();
  Fill();
  Sample(0.99);
  std::vector<Flushed> reports;
  FlushOptions options = Within(seconds(5));
  options.report = [&](const Flushed& so_far) { reports.push_back(so_far); };
  const Flushed flushed = FlushToDisk(core_, options);
  EXPECT_EQ(flushed.entries, 0U);
  EXPECT_EQ(flushed.entries_left, kEntries);
  EXPECT_EQ(flushed.bytes_left, kEntries * 100U);
  EXPECT_EQ(flushed.no_room.entries + flushed.failed.entries, 0U);
  EXPECT_EQ(flushed.why_busy, "it is in EMERGENCY");
  EXPECT_EQ(clock_->Now(), TimePoint(seconds(5)));
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports.back().entries_left, kEntries);
  EXPECT_EQ(reports.back().why_busy, "it is in EMERGENCY");
}

TEST_F(FlushBusyTest, WhatIsSetWhileItRunsIsWrittenToo) {
  Open();
  Fill();
  per_look_ = 20;
  At(TimePoint(milliseconds(5)), [this] { Fill(kEntries + 50); });  // The first ones again.
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries_left, 0U);
  EXPECT_EQ(FoundAfterRestart(kEntries + 50), kEntries + 50U);
}

TEST_F(FlushBusyTest, OfASlowTierWhatIsCountedAsWrittenIsThereAndNoMore) {
  Open();
  Fill();
  per_look_ = 2;
  std::vector<Flushed> reports;
  FlushOptions options = Within(milliseconds(50));
  options.report_every = milliseconds(10);
  options.report = [&](const Flushed& so_far) { reports.push_back(so_far); };
  const Flushed flushed = FlushToDisk(core_, options);
  EXPECT_EQ(flushed.entries, 100U);  // 2 in each of 50 ms.
  EXPECT_EQ(flushed.entries_left, kEntries - 100U);
  EXPECT_EQ(flushed.why_busy, "");
  ASSERT_EQ(reports.size(), 4U);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].entries, 20 * (i + 1)) << i;
    EXPECT_EQ(reports[i].entries + reports[i].entries_left, kEntries) << i;
    EXPECT_EQ(reports[i].bytes, 100 * reports[i].entries) << i;
  }
  EXPECT_EQ(FoundAfterRestart(), flushed.entries);
}

TEST_F(FlushBusyTest, AFileSystemThatIsFullForAMomentIsAskedAgain) {
  Open();
  Fill();
  FailUntil(TimePoint(milliseconds(1500)), FileCall::kAllocate, ENOSPC);
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries, kEntries);
  EXPECT_EQ(flushed.entries_left, 0U);
  EXPECT_EQ(FoundAfterRestart(), kEntries);
}

TEST_F(FlushBusyTest, AFileSystemThatStaysFullIsGivenUpAndNamed) {
  Open();
  Fill();
  FailUntil(TimePoint::max(), FileCall::kAllocate, ENOSPC);
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries, 0U);
  EXPECT_EQ(flushed.no_room.entries, kEntries);
  EXPECT_EQ(flushed.no_room.bytes, kEntries * 100U);
  EXPECT_EQ(flushed.failed.entries, 0U);
  EXPECT_THAT(flushed.why_failed, HasSubstr("the file system was full"));
  EXPECT_LT(clock_->Now(), TimePoint(seconds(6)));  // Before the minute is over.
}

TEST_F(FlushBusyTest, ADiskThatFailsForAMomentIsAskedAgain) {
  Open();
  Fill();
  FailUntil(TimePoint(milliseconds(300)), FileCall::kWrite, EIO);
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries, kEntries);
  EXPECT_EQ(FoundAfterRestart(), kEntries);
}

TEST_F(FlushBusyTest, ADiskThatFailsForGoodIsGivenUpAndNamed) {
  Open();
  Fill();
  FailUntil(TimePoint::max(), FileCall::kWrite, EIO);
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries, 0U);
  EXPECT_EQ(flushed.failed.entries, kEntries);
  EXPECT_THAT(flushed.why_failed, HasSubstr("Input/output error"));
  EXPECT_LT(clock_->Now(), TimePoint(seconds(6)));
  FailUntil(TimePoint(), FileCall::kWrite, 0);
  EXPECT_EQ(FoundAfterRestart(), 0U);
}

TEST_F(FlushBusyTest, WhatTheTierHasNoRoomForIsCountedAsThat) {
  Open(1 * kMiB);  // In pages: a header and a value take two.
  Fill();
  const Flushed flushed = Flush(seconds(60));
  EXPECT_EQ(flushed.entries, 128U);
  EXPECT_EQ(flushed.entries_left, kEntries - 128U);
  EXPECT_EQ(flushed.no_room.entries, flushed.entries_left);
  EXPECT_THAT(flushed.why_failed, HasSubstr("quota"));
  EXPECT_LT(clock_->Now(), TimePoint(seconds(1)));  // Waiting would not help.
}

TEST_F(FlushBusyTest, EndsAtOnceWhenItIsToldTo) {
  Open();
  Fill();
  per_look_ = 2;
  FlushOptions options = Within(seconds(60));
  options.stop = [this] { return clock_->Now() >= TimePoint(milliseconds(10)); };
  const Flushed flushed = FlushToDisk(core_, options);
  EXPECT_TRUE(flushed.is_stopped);
  EXPECT_EQ(flushed.entries, 20U);
  EXPECT_EQ(flushed.entries_left, kEntries - 20U);
  EXPECT_LT(clock_->Now(), TimePoint(seconds(1)));
  EXPECT_EQ(FoundAfterRestart(), 20U);
}

}  // namespace
}  // namespace spillway
