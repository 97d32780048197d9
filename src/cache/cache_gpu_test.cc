// SPDX-License-Identifier: Apache-2.0
// A cache on a GPU, over its host and its disk.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/direct.h"
#include "cache/testing/gpu_fixture.h"
#include "spillway/log.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

std::ptrdiff_t ThreadsNow() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

INSTANTIATE_TEST_SUITE_P(Vendors, GpuCacheTest, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

TEST_P(GpuCacheTest, ADeviceThatIsNotThereIsAnErrorThatNamesIt) {
  options_.device = std::string(Name(GetParam())) + ":7";
  const auto cache = TryOpen();
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, Code::kUnavailable);
  EXPECT_THAT(cache.error().message, HasSubstr("'7'"));
}

TEST_P(GpuCacheTest, BytesEnterWhereTheyAre) {
  Open();
  ASSERT_TRUE(SetOnDevice("device"));
  ASSERT_TRUE(SetOnHost("host"));
  ASSERT_TRUE(SetOnDevice("small", 1));
  ASSERT_TRUE(SetOnDevice("none", 0));
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.device.entries, 2U + (stats.host.entries == 1 ? 1 : 0));
  EXPECT_EQ(stats.device.bytes, kValue + 1);
  EXPECT_EQ(stats.host.bytes, kValue);
  for (const char* key : {"device", "host"}) {
    EXPECT_TRUE(Same(Get(key), Bulk(key, kValue))) << key;
    EXPECT_TRUE(Same(GetOnDevice(key), Bulk(key, kValue))) << key;
    EXPECT_TRUE(Same(Get(key), Bulk(key, kValue))) << key;
  }
  EXPECT_TRUE(Same(Get("small"), Bulk("small", 1)));
  EXPECT_EQ(Get("none"), "");
  EXPECT_EQ(Get("nobody"), "(miss)");
  EXPECT_EQ(GetOnDevice("nobody"), "(miss)");
}

// An event loop reads leased bytes itself: never the device's.
TEST_P(GpuCacheTest, WhatIsFoundWithoutWaitingTheHostCanRead) {
  Open();
  ASSERT_TRUE(SetOnDevice("device"));
  ASSERT_TRUE(SetOnHost("host"));
  ASSERT_TRUE(Same(GetOnDevice("host"), Bulk("host", kValue)));  // It is in both places now.
  Direct direct(cache_.get());
  Lease lease;
  EXPECT_EQ(direct.Find("device", &lease), Core::Found::kBelow);
  EXPECT_FALSE(lease);
  ASSERT_EQ(direct.Find("host", &lease), Core::Found::kHit);
  EXPECT_EQ(lease.place(), Place::kHost);
  EXPECT_TRUE(Same(lease.text(), Bulk("host", kValue)));
  // A leased copy is not dropped.
  (void)cache_->Reclaim(64 * kMiB, std::chrono::seconds(5));
  EXPECT_TRUE(Same(lease.text(), Bulk("host", kValue)));
  lease.Release();
  ASSERT_TRUE(Same(Get("device"), Bulk("device", kValue)));
  ASSERT_EQ(direct.Find("device", &lease), Core::Found::kHit);
  EXPECT_TRUE(Same(lease.text(), Bulk("device", kValue)));
  EXPECT_EQ(direct.Find("nobody", &lease), Core::Found::kMiss);
}

TEST_P(GpuCacheTest, WhatHasToComeToTheHostFirstIsOneUse) {
  options_.trace = (scratch_ / "uses").string();
  Open();
  ASSERT_TRUE(SetOnDevice("device"));
  ASSERT_TRUE(Same(Get("device"), Bulk("device", kValue)));  // It was only there.
  ASSERT_TRUE(Same(Get("device"), Bulk("device", kValue)));
  cache_.reset();
  std::ifstream file(options_.trace);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_EQ(lines, 1U + 3U) << "its first line, a set and two gets";
}

TEST_P(GpuCacheTest, WhatFindsNoRoomOnTheDeviceGoesToTheHost) {
  Open();
  program();
  gpu_.SetForeign(kTotal);
  for (const Bytes bytes : {Bytes{1}, Bytes{100}, 4 * kKiB, kMiB}) {
    const std::string key = "k" + std::to_string(bytes);
    ASSERT_TRUE(SetOnDevice(key, bytes));
    EXPECT_TRUE(Same(Get(key), Bulk(key, bytes)));
  }
  EXPECT_EQ(cache_->stats().device.entries, 0U);
  EXPECT_EQ(cache_->stats().host.entries, 4U);
}

TEST_P(GpuCacheTest, SinksAreFilledFromEitherPlace) {
  Open();
  ASSERT_TRUE(SetOnDevice("device"));
  ASSERT_TRUE(SetOnHost("host"));
  for (const char* key : {"device", "host"}) {
    const std::string value = Bulk(key, kValue);
    std::string out(kValue + 10, '?');
    GetOptions options;
    options.into = Sink({{out.data(), 70'000, Place::kHost},
                         {program().at(8 * kMiB), 300'000, Place::kDevice},
                         {program().at(9 * kMiB), 5'000, Place::kDevice},
                         {out.data() + 70'000, kValue, Place::kHost}});
    const auto got = cache_->Get(key, options);
    ASSERT_TRUE(got && *got) << key;
    const std::string all = out.substr(0, 70'000) + program().Peek(8 * kMiB, 300'000) +
                            program().Peek(9 * kMiB, 5'000) + out.substr(70'000, kValue - 375'000);
    EXPECT_TRUE(Same(all, value)) << key;
    EXPECT_EQ(out.back(), '?');
  }
}

TEST_P(GpuCacheTest, ASetWaitsForWhatTheProducersStreamHolds) {
  Open();
  program().Push();
  for (unsigned char i = 0; i < 40; ++i) {
    ASSERT_EQ(program().driver().fill(reinterpret_cast<GpuAddress>(program().at()), i, kMiB,
                                      program().stream),
              0);
  }
  program().Pop();
  ASSERT_TRUE(cache_->Set("k", Source({{program().at(), kMiB, Place::kDevice}},
                                      DeviceOrder::Stream(program().stream))));
  EXPECT_TRUE(Same(Get("k"), std::string(kMiB, 39)));
  EXPECT_EQ(gpu_.Finish(), 0);
}

TEST_P(GpuCacheTest, WhatIsBackedIsGivenBackAndComesBack) {
  Open();
  ASSERT_TRUE(cache_->Start());
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) {
    keys.push_back("k" + std::to_string(i));
    ASSERT_TRUE(SetOnDevice(keys.back()));
  }
  ASSERT_TRUE(AllBacked());
  const Bytes used = gpu_.used();
  const Reclaimed some = cache_->Reclaim(3 * kMiB, std::chrono::seconds(5));
  EXPECT_GE(some.freed, 3 * kMiB) << some.why_not_more;
  EXPECT_LE(gpu_.used(), used - 3 * kMiB);
  const Reclaimed all = cache_->Reclaim(kTotal, std::chrono::seconds(5));
  EXPECT_EQ(cache_->stats().device.held, 0U);
  EXPECT_EQ(some.freed + all.freed, used - gpu_.used());
  EXPECT_EQ(cache_->size(), 10U);
  cache_->Stop();  // Otherwise free memory fills again in the background.
  for (const std::string& key : keys) EXPECT_TRUE(Same(Get(key), Bulk(key, kValue)));
  EXPECT_EQ(cache_->stats().device.entries, 0U);
  std::vector<std::string_view> wanted(keys.begin(), keys.end());
  EXPECT_EQ(cache_->Prefetch(wanted.data(), wanted.size()), 10U);
  EXPECT_TRUE(Eventually(
      [](const Stats& stats) { return stats.device.entries == 10 && stats.moves.in_flight == 0; }));
  for (const std::string& key : keys) EXPECT_TRUE(Same(GetOnDevice(key), Bulk(key, kValue)));
}

// Bytes that were damaged on the link are sent again, where the device can detect it.
class GpuHashTest : public GpuCacheTest {};
INSTANTIATE_TEST_SUITE_P(WithKernels, GpuHashTest, ::testing::Values(GpuKind::kCuda));

TEST_P(GpuHashTest, WhatIsDamagedOnTheWayUpIsSentAgain) {
  Open();
  ASSERT_TRUE(SetOnDevice("k", 3 * kMiB + 5));
  ASSERT_TRUE(cache_->Start());
  ASSERT_TRUE(AllBacked());
  cache_->Stop();
  // Copies to the device that one transfer up takes, without damage and with it.
  const auto copies_up = [&](bool garbled) {
    cache_->Reclaim(kTotal, std::chrono::seconds(5));
    EXPECT_EQ(cache_->stats().device.entries, 0U);
    const std::uint64_t before = gpu_.calls("copy_to_device");
    if (garbled) gpu_.Garble(1);
    EXPECT_TRUE(Same(GetOnDevice("k"), Bulk("k", 3 * kMiB + 5)));
    return gpu_.calls("copy_to_device") - before;
  };
  (void)copies_up(false);  // The first one also loads the kernel.
  const Stats before = cache_->stats();
  const std::uint64_t once = copies_up(false);
  EXPECT_GE(once, 1U);
  EXPECT_EQ(copies_up(true), 2 * once) << "what was damaged is sent a second time, whole";
  EXPECT_EQ(cache_->stats().moves.corrupt, before.moves.corrupt);
}

TEST_P(GpuCacheTest, WhatARestartFindsOnDiskReachesTheDevice) {
  Open();
  ASSERT_TRUE(cache_->Start());
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(SetOnDevice("k" + std::to_string(i)));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  ASSERT_EQ(cache_->size(), 6U);
  EXPECT_TRUE(Same(GetOnDevice("k0"), Bulk("k0", kValue)));
  EXPECT_TRUE(Same(Get("k1"), Bulk("k1", kValue)));
  const std::string_view wanted[] = {"k2", "k3"};
  EXPECT_EQ(cache_->Prefetch(wanted, 2), 2U);
  EXPECT_TRUE(Eventually([](const Stats& stats) { return stats.host.entries == 4; }));
  EXPECT_TRUE(Same(GetOnDevice("k2"), Bulk("k2", kValue)));
  GetOptions into;
  into.into = Sink({{program().at(), kValue, Place::kDevice}});
  ASSERT_TRUE(cache_->Get("k4", into));
  EXPECT_TRUE(Same(program().Peek(0, kValue), Bulk("k4", kValue)));
}

// A value from disk reaches the device by way of the host. If the host has no room, the
// get must end and not start again and again.
TEST_P(GpuCacheTest, ADiskEntryIsRefusedToTheDeviceWhileTheHostIsFull) {
  options_.host_capacity = 2 * kMiB;
  Open();
  ASSERT_TRUE(cache_->Start());
  ASSERT_TRUE(SetOnHost("below"));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  ASSERT_TRUE(SetOnHost("full", 2 * kMiB - 4096));
  const auto lease = cache_->Get("full");
  ASSERT_TRUE(lease && *lease);
  const auto got = cache_->Get("below", {.where = Place::kDevice, .wait = std::chrono::seconds(2)});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kBlocked) << got.error().message;
  EXPECT_TRUE(Same(Get("below"), Bulk("below", kValue)));
  EXPECT_EQ(cache_->stats().moves.in_flight, 0U);
}

TEST_P(GpuCacheTest, AnotherProcesssMemoryDrivesUsDownAndNothingIsLost) {
  options_.capacity = 64 * kMiB;
  // So that pressure is known on a busy machine, too.
  options_.sample_period = std::chrono::seconds(1);
  options_.host_capacity = 96 * kMiB;
  Open();
  ASSERT_TRUE(cache_->Start());
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(SetOnDevice("k" + std::to_string(i)));
  ASSERT_TRUE(AllBacked());
  EXPECT_GT(cache_->stats().device.held, 30 * kMiB);
  gpu_.SetForeign(kTotal - 30 * kMiB);  // Ours and theirs together are more than there is.
  EXPECT_TRUE(Eventually([](const Stats& stats) { return stats.device.held < 10 * kMiB; }));
  EXPECT_EQ(cache_->size(), 40U);
  for (int i = 0; i < 40; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(Same(Get(key), Bulk(key, kValue)));
  }
  gpu_.SetForeign(0);
  EXPECT_TRUE(Eventually([&](const Stats&) { return cache_->level() == Level::kRelaxed; }));
  EXPECT_TRUE(Same(GetOnDevice("k7"), Bulk("k7", kValue)));
}

TEST_P(GpuCacheTest, LeasesOutliveReplacementErasureAndTheCache) {
  Open();
  ASSERT_TRUE(SetOnDevice("replaced"));
  ASSERT_TRUE(SetOnDevice("erased"));
  ASSERT_TRUE(SetOnDevice("kept"));
  std::vector<Lease> there;
  std::vector<Lease> here;
  const std::vector<std::string> keys = {"replaced", "erased", "kept"};
  for (const std::string& key : keys) {
    there.push_back(std::move(*cache_->Get(key, {.where = Place::kDevice}).value()));
    here.push_back(std::move(*cache_->Get(key).value()));
  }
  ASSERT_TRUE(SetOnDevice("replaced", kValue, 1));
  EXPECT_TRUE(cache_->Erase("erased"));
  EXPECT_TRUE(Same(Get("replaced"), Bulk("replaced", kValue, 1)));
  EXPECT_EQ(Get("erased"), "(miss)");
  for (int closed = 0; closed < 2; ++closed) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(there[i].place(), Place::kDevice);
      EXPECT_TRUE(Same(PeekAt(there[i]), Bulk(keys[i], kValue)));
      EXPECT_TRUE(Same(here[i].text(), Bulk(keys[i], kValue)));
    }
    cache_.reset();
  }
}

TEST_P(GpuCacheTest, ABatchDoesAllOfIt) {
  Open();
  std::vector<std::string> keys;
  for (int i = 0; i < 16; ++i) keys.push_back("k" + std::to_string(i));
  const auto run = [&](std::vector<Operation>& operations) {
    std::promise<void> done;
    cache_->Submit(operations.data(), operations.size(), std::chrono::seconds(20),
                   Completion([&] { done.set_value(); }));
    done.get_future().wait();
  };
  constexpr Bytes kSmall = 50'000;
  std::vector<Operation> sets(16);
  std::vector<std::string> texts;
  texts.reserve(16);
  for (std::size_t i = 0; i < 16; ++i) {
    texts.push_back(Bulk(keys[i], kSmall));
    sets[i].kind = Operation::Kind::kSet;
    sets[i].key = keys[i];
    sets[i].source = i % 2 == 0 ? Source(texts[i]) : program().Holding(texts[i], 9'000, i * kMiB);
  }
  run(sets);
  for (const Operation& set : sets) EXPECT_TRUE(set.status) << set.status.error().message;
  EXPECT_EQ(cache_->stats().device.entries, 8U);
  std::vector<Operation> gets(16);
  std::vector<std::string> outs(16, std::string(kSmall, '?'));
  for (std::size_t i = 0; i < 16; ++i) {
    gets[i].key = keys[i];
    switch (i % 4) {
      case 0:
      case 1:
        gets[i].get.where = i % 8 < 4 ? Place::kHost : Place::kDevice;
        break;
      case 2:
        gets[i].get.into = Sink(outs[i].data(), kSmall);
        break;
      default:
        gets[i].get.into = Sink({{program().at(i * kMiB), kSmall, Place::kDevice}});
    }
  }
  run(gets);
  for (std::size_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(gets[i].status && gets[i].found) << i;
    std::string got;
    if (i % 4 < 2) {
      ASSERT_EQ(gets[i].lease.place(), i % 8 < 4 ? Place::kHost : Place::kDevice);
      got = i % 8 < 4 ? std::string(gets[i].lease.text()) : PeekAt(gets[i].lease);
    } else {
      got = i % 4 == 2 ? outs[i] : program().Peek(i * kMiB, kSmall);
    }
    EXPECT_TRUE(Same(got, texts[i])) << i;
  }
}

TEST_P(GpuCacheTest, ThreadsShareIt) {
  gpu_.Reset({.total = kTotal, .granularity = 64 * kKiB, .thread = true});
  options_.host_capacity = 24 * kMiB;
  Open();
  ASSERT_TRUE(cache_->Start());
  program();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const Bytes at = Bytes{t} * 2 * kMiB;
      for (unsigned i = 0; i < 60; ++i) {
        const std::string key = "t" + std::to_string(t) + "." + std::to_string(i % 12);
        const Bytes bytes = 1000 + (i * 7919 + t * 104729) % (900 * kKiB);
        const std::string value = Bulk(key, bytes, i);
        const Status set = i % 3 == 0 ? cache_->Set(key, Source(value))
                                      : cache_->Set(key, program_->Holding(value, 11'000, at));
        if (!set) {
          ASSERT_EQ(set.error().code, Code::kBlocked) << set.error().message;
          continue;
        }
        const auto got =
            i % 2 == 0 ? cache_->Get(key) : cache_->Get(key, {.where = Place::kDevice});
        if (!got) {
          ASSERT_TRUE(got.error().code == Code::kBlocked || got.error().code == Code::kBusy)
              << got.error().message;
          continue;
        }
        if (!*got) continue;  // It may have been evicted.
        const std::string text = i % 2 == 0 ? std::string((*got)->text()) : PeekAt(**got);
        ASSERT_TRUE(Same(text, value)) << key;
        ++right;
        if (i % 10 == 9) cache_->Reclaim(4 * kMiB, std::chrono::milliseconds(20));
        if (i % 15 == 14) cache_->Erase(key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(right.load(), 200);
}

// --- a device that is lost ---

TEST_P(GpuCacheTest, ALostDeviceLeavesTheOtherTiers) {
  Open();
  ASSERT_TRUE(SetOnHost("host"));
  ASSERT_TRUE(SetOnDevice("backed"));
  ASSERT_TRUE(SetOnDevice("read"));
  EXPECT_TRUE(Same(Get("backed"), Bulk("backed", kValue)));  // Has a copy on the host now.
  EXPECT_TRUE(Same(Get("read"), Bulk("read", kValue)));
  ASSERT_TRUE(SetOnDevice("only"));
  Lease there = std::move(*cache_->Get("read", {.where = Place::kDevice}).value());
  TakeTold();
  gpu_.Lose();
  std::string out(kValue, '?');
  GetOptions into;
  into.into = Sink(out.data(), out.size());
  const auto copied = cache_->Get("backed", into);
  ASSERT_TRUE(copied && *copied) << (copied ? "miss" : copied.error().message);
  EXPECT_TRUE(Same(out, Bulk("backed", kValue)));
  for (const char* key : {"host", "backed", "read"}) {
    EXPECT_TRUE(Same(Get(key), Bulk(key, kValue))) << key;
  }
  EXPECT_EQ(Get("only"), "(miss)");
  EXPECT_THAT(cache_->Explain("only"), HasSubstr("lost"));
  const auto nowhere = cache_->Get("host", {.where = Place::kDevice});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::kUnavailable);
  EXPECT_FALSE(cache_->pressure("device"));
  EXPECT_FALSE(cache_->is_blocked());
  EXPECT_THAT(TakeTold(), ::testing::UnorderedElementsAre("only:destroy:lost:device",
                                                          "backed:drop:lost:device"));
  EXPECT_TRUE(SetOnHost("new"));
  EXPECT_TRUE(Same(Get("new"), Bulk("new", kValue)));
  EXPECT_FALSE(cache_->Set("impossible", Source({{program().at(), 10, Place::kDevice}})));
  EXPECT_EQ(Get("impossible"), "(miss)");
  EXPECT_EQ(cache_->stats().device.entries, 1U);
  there.Release();
  cache_->Apply();
  EXPECT_EQ(cache_->stats().device.entries, 0U);
  EXPECT_THAT(TakeTold(), ::testing::ElementsAre("read:drop:lost:device"));
  EXPECT_TRUE(Same(Get("read"), Bulk("read", kValue)));
}

TEST_P(GpuCacheTest, ADeviceLostInItsSleepIsNoticedByItsReading) {
  Open();
  ASSERT_TRUE(cache_->Start());
  ASSERT_TRUE(SetOnDevice("k"));
  ASSERT_TRUE(AllBacked());
  gpu_.Lose(700);
  EXPECT_TRUE(Eventually([](const Stats& stats) { return stats.device.entries == 0; }));
  EXPECT_TRUE(Eventually([](const Stats& stats) { return !stats.device.pressure; }));
  EXPECT_TRUE(Same(Get("k"), Bulk("k", kValue)));
  EXPECT_TRUE(SetOnHost("new"));
  EXPECT_TRUE(Same(Get("new"), Bulk("new", kValue)));
}

TEST_P(GpuCacheTest, WhatIsOnDiskIsReadThereWhenTheDeviceIsLost) {
  options_.host_capacity = 4 * kMiB;
  Open();
  ASSERT_TRUE(cache_->Start());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(SetOnDevice("k" + std::to_string(i)));
    ASSERT_TRUE(AllBacked());
  }
  std::vector<Lease> leases;
  for (int i = 0; i < 8; i += 2) {
    auto got = cache_->Get("k" + std::to_string(i), {.where = Place::kDevice, .wait = {}});
    if (got && *got) leases.push_back(std::move(**got));
  }
  EXPECT_FALSE(leases.empty());
  cache_->Stop();
  gpu_.Lose();
  int there = 0;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) {
      const std::string key = "k" + std::to_string(i);
      const std::string got = Get(key);
      if (got == "(miss)") continue;
      EXPECT_TRUE(Same(got, Bulk(key, kValue))) << key;
      ++there;
    }
    leases.clear();
  }
  EXPECT_EQ(there, 16);
}

// --- faults ---

TEST_P(GpuCacheTest, AnyCallOfTheDriverMayFail) {
  SetLog(LogLevel::kOff);
  options_.write_back_after = Duration::zero();
  constexpr Bytes kBytes = 200'000;
  std::uint64_t calls = 0;
  int runs = 0;
  int whole = 0;
  const auto script = [&] {
    auto opened = TryOpen();
    if (!opened) return;
    cache_ = std::move(*opened);
    ASSERT_TRUE(cache_->Start());
    std::vector<std::string> host;
    const auto check = [&](const std::string& key, const std::string& got, bool must) {
      if (got == "(miss)" || got.starts_with("(error)")) {
        EXPECT_FALSE(must) << key << " " << got;
        return;
      }
      EXPECT_TRUE(Same(got, Bulk(key, kBytes))) << key;
      ++whole;
    };
    for (int i = 0; i < 4; ++i) {
      const std::string at = std::to_string(i);
      const Status set = SetOnHost("h" + at, kBytes);
      EXPECT_TRUE(set) << set.error().message;
      if (set) host.push_back("h" + at);
      static_cast<void>(SetOnDevice("d" + at, kBytes));
    }
    for (int i = 0; i < 4; ++i) {
      const std::string at = std::to_string(i);
      check("d" + at, Get("d" + at), false);
      auto there = cache_->Get("h" + at, {.where = Place::kDevice});
      if (there && *there && !gpu_.out_of_reach()) check("h" + at, PeekAt(**there), false);
      std::string out(kBytes, '?');
      GetOptions into;
      into.into = Sink(out.data(), out.size());
      const auto got = cache_->Get("d" + at, into);
      if (got && *got) check("d" + at, out, false);
    }
    cache_->Reclaim(2 * kMiB, std::chrono::milliseconds(50));
    for (int i = 0; i < 4; ++i) check("d" + std::to_string(i), Get("d" + std::to_string(i)), false);
    for (const std::string& key : host) check(key, Get(key), true);
    cache_.reset();
  };
  program();
  const std::ptrdiff_t threads = ThreadsNow();
  for (const bool for_good : {false, true}) {
    for (const int code : {2, 700, 999}) {
      // Threads run in varying order, so the n-th call is not always the same one.
      for (std::uint64_t n = 0; n <= calls + calls / 8; n += n < 40 ? 3 : 37) {
        program_.reset();
        std::filesystem::remove_all(scratch_ / "disk");
        gpu_.Reset({.total = kTotal, .granularity = 64 * kKiB, .seed = n + 1});
        program();
        const std::uint64_t before = gpu_.calls();
        if (n > 0) gpu_.Fail(n, code, for_good);
        script();
        ++runs;
        if (calls == 0) {
          calls = gpu_.calls() - before;
          EXPECT_EQ(whole, 20);
        }
        // A reading may outlast the cache for a moment, and the device with it.
        for (int looks = 0; looks < 1000 && ThreadsNow() > threads; ++looks) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));  // real world: its thread's
        }
        EXPECT_EQ(gpu_.TakeMisuse(), "");
        gpu_.Fail(0, 0);
        gpu_.Lose();  // What is queued for freed memory is not run any more.
        gpu_.Lose(0);
        program_.reset();
        if (!for_good) {
          EXPECT_EQ(gpu_.leaks(), "");
        }
        if (HasFailure()) {
          ADD_FAILURE() << "call " << n << " of " << calls << ", code " << code
                        << (for_good ? " for good" : "");
          cache_.reset();
          gpu_.Lose();
          SetLog(LogLevel::kInfo);
          return;
        }
      }
    }
  }
  // Memory that the runs with a permanent fault could not give back.
  program_.reset();
  gpu_.Reset({.total = kTotal, .granularity = 64 * kKiB});
  SetLog(LogLevel::kInfo);
  RecordProperty("runs", runs);
  RecordProperty("whole", whole);
}

}  // namespace
}  // namespace spillway::testing
