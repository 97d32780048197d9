// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/testing/fake_bench.h"
#include "device/testing/fake_gpu.h"
#include "device/testing/test_seed.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

class FakeGpuCopiesTest : public FakeGpuTest {};
INSTANTIATE_TEST_SUITE_P(Vendors, FakeGpuCopiesTest,
                         ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

TEST_P(FakeGpuCopiesTest, SourcesAreReadWhenTheirTurnComes) {
  Copies copies(GetParam());
  copies.gpu.Hang(true);
  std::memcpy(copies.host, "before", 6);
  EXPECT_EQ(copies.driver.copy_to_device(copies.at, copies.host, 6, copies.stream), 0);
  copies.Record();
  std::memcpy(copies.host, "after!", 6);
  EXPECT_EQ(copies.driver.event_query(copies.event), kGpuNotReady);
  copies.gpu.Hang(false);
  EXPECT_EQ(copies.Await(copies.event), 0);
  EXPECT_EQ(copies.gpu.Peek(copies.at, 6), "after!");
  EXPECT_EQ(copies.gpu.pageable(), 0U);
}

TEST_P(FakeGpuCopiesTest, AStreamKeepsItsOrderAndPollingComesToAnEnd) {
  Copies copies(GetParam());
  for (int round = 0; round < 50; ++round) {
    const auto value = static_cast<unsigned char>(round);
    EXPECT_EQ(copies.driver.fill(copies.at, 0xEE, 100, copies.stream), 0);
    EXPECT_EQ(copies.driver.fill(copies.at, value, 100, copies.stream), 0);
    EXPECT_EQ(copies.driver.copy_on_device(copies.at + kPage, copies.at, 100, copies.stream), 0);
    EXPECT_EQ(copies.driver.copy_to_host(copies.host, copies.at + kPage, 100, copies.stream), 0);
    copies.Record();
    EXPECT_EQ(copies.Await(copies.event), 0);
    EXPECT_EQ(copies.host[99], std::byte{value});
  }
}

TEST_P(FakeGpuCopiesTest, StreamsGoOnInAnyOrderUnlessTheyWait) {
  bool first_won = false;
  bool second_won = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Copies copies(GetParam(), {.seed = seed});
    EXPECT_EQ(copies.driver.fill(copies.at, 1, 1, copies.stream), 0);
    EXPECT_EQ(copies.driver.fill(copies.at, 2, 1, copies.second), 0);
    EXPECT_EQ(copies.gpu.Finish(), 0);
    (copies.gpu.Peek(copies.at, 1)[0] == 1 ? first_won : second_won) = true;
    EXPECT_EQ(copies.driver.fill(copies.at, 3, 1, copies.stream), 0);
    copies.Record();
    EXPECT_EQ(copies.driver.stream_wait(copies.second, copies.event, 0), 0);
    // The wait is for the earlier record, not for this one.
    EXPECT_EQ(copies.driver.stream_wait(copies.stream, copies.event, 0), 0);
    copies.Record();
    EXPECT_EQ(copies.driver.fill(copies.at, 4, 1, copies.second), 0);
    EXPECT_EQ(copies.gpu.Finish(), 0);
    EXPECT_EQ(copies.gpu.Peek(copies.at, 1)[0], 4);
  }
  EXPECT_TRUE(first_won);
  EXPECT_TRUE(second_won);
}

TEST_P(FakeGpuCopiesTest, AnEventNeverRecordedIsDone) {
  Copies copies(GetParam());
  EXPECT_EQ(copies.driver.event_query(copies.event), 0);
  EXPECT_EQ(copies.driver.stream_wait(copies.stream, copies.event, 0), 0);
  EXPECT_EQ(copies.gpu.pending(), 0U);
}

TEST_P(FakeGpuCopiesTest, TheDefaultStreamIsAStreamToo) {
  Copies copies(GetParam());
  EXPECT_EQ(copies.driver.fill(copies.at, 7, 10, nullptr), 0);
  EXPECT_EQ(copies.driver.event_record(copies.event, nullptr), 0);
  EXPECT_EQ(copies.driver.stream_wait(copies.stream, copies.event, 0), 0);
  EXPECT_EQ(copies.driver.copy_to_host(copies.host, copies.at, 10, copies.stream), 0);
  copies.Record();
  EXPECT_EQ(copies.Await(copies.event), 0);
  EXPECT_EQ(copies.host[9], std::byte{7});
}

TEST_P(FakeGpuCopiesTest, MemoryTheDriverDoesNotKnowIsCopiedAtOnceAndCounted) {
  Copies copies(GetParam());
  std::string text = "pageable";
  EXPECT_EQ(copies.driver.fill(copies.at, 'x', 16, copies.stream), 0);
  EXPECT_EQ(copies.driver.copy_to_device(copies.at, text.data(), 8, copies.stream), 0);
  EXPECT_EQ(copies.gpu.Peek(copies.at, 10), "pageablexx");
  EXPECT_EQ(copies.driver.fill(copies.at, 'y', 4, copies.stream), 0);
  EXPECT_EQ(copies.driver.copy_to_host(text.data(), copies.at, 8, copies.stream), 0);
  EXPECT_EQ(text, "yyyyable");
  EXPECT_EQ(copies.gpu.pageable(), 2U);
}

TEST_P(FakeGpuCopiesTest, ACopyReachesOverNoEdgeOfRegisteredMemory) {
  Copies copies(GetParam());
  std::vector<std::byte> memory(8192);
  EXPECT_EQ(copies.driver.host_register(memory.data(), 4096, kGpuPortable), 0);
  const auto copy = [&](Bytes from, Bytes bytes) {
    return copies.driver.copy_to_device(copies.at, memory.data() + from, bytes, copies.stream);
  };
  EXPECT_EQ(copy(4000, 200), 1);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("in part registered"));
  EXPECT_EQ(copies.driver.host_register(memory.data() + 4096, 4096, kGpuPortable), 0);
  EXPECT_EQ(copy(4000, 200), 1);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("in two parts"));
  EXPECT_EQ(copy(4000, 96), 0);
  EXPECT_EQ(copies.gpu.pageable(), 0U);
  EXPECT_EQ(copies.gpu.Finish(), 0);
  EXPECT_EQ(copies.driver.host_unregister(memory.data()), 0);
  EXPECT_EQ(copies.driver.host_unregister(memory.data() + 4096), 0);
}

TEST_P(FakeGpuCopiesTest, CopiesTouchOnlyMemoryThatIsThere) {
  Copies copies(GetParam());
  const GpuDriver& driver = copies.driver;
  const auto refused = [&](int code, const char* why) {
    EXPECT_EQ(code, 1);
    EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr(why));
  };
  const GpuAddress hole = copies.Reserve(kPage);
  refused(driver.fill(hole, 0, 1, copies.stream), "no memory");
  refused(driver.copy_to_host(copies.host, copies.at + kPage, kPage + 1, copies.stream),
          "no memory");
  refused(driver.copy_to_host(copies.host, 4096, 1, copies.stream), "other kind");
  refused(driver.copy_to_device(copies.at, reinterpret_cast<void*>(copies.at), 1, copies.stream),
          "other kind");
  refused(driver.copy_on_device(copies.at, copies.at + 10, 11, copies.stream), "overlap");
  EXPECT_EQ(driver.copy_on_device(copies.at, copies.at + 10, 10, copies.stream), 0);
  EXPECT_EQ(driver.address_free(hole, kPage), 0);
}

TEST(FakeCuda, ABatchIsStreamOrderedAndItsPiecesAreNot) {
  for (const std::string_view variant : {"", "without_batch_v2"}) {
    Copies copies(GpuKind::kCuda, {}, variant);
    const GpuDriver& driver = copies.driver;
    const auto batch = [&](std::vector<GpuAddress> to, std::vector<GpuAddress> from,
                           std::vector<std::size_t> bytes, std::vector<GpuCopyKind> kinds,
                           std::vector<std::size_t> first, GpuStream stream) {
      if (driver.copy_batch_v2 != nullptr) {
        return driver.copy_batch_v2(to.data(), from.data(), bytes.data(), to.size(), kinds.data(),
                                    first.data(), kinds.size(), stream);
      }
      std::size_t failed = 0;
      return driver.copy_batch_v1(to.data(), from.data(), bytes.data(), to.size(), kinds.data(),
                                  first.data(), kinds.size(), &failed, stream);
    };
    const auto host = reinterpret_cast<GpuAddress>(copies.host);
    copies.gpu.Hang(true);
    std::memcpy(copies.host, "abcd", 4);
    GpuCopyKind any;
    any.order = 3;
    // The first two in the stream's order, the third at any time: at once.
    EXPECT_EQ(batch({copies.at, copies.at + 1, copies.at + 2}, {host + 2, host, host + 1},
                    {1, 1, 1}, {GpuCopyKind(), any}, {0, 2}, copies.stream),
              0);
    std::memcpy(copies.host, "ABCD", 4);
    copies.gpu.Hang(false);
    EXPECT_EQ(copies.gpu.Finish(), 0);
    EXPECT_EQ(copies.gpu.Peek(copies.at, 3), "CAb");

    const auto refused = [&](int code, const char* why) {
      EXPECT_EQ(code, 1);
      EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr(why));
    };
    GpuCopyKind wrong;
    wrong.order = 0;
    refused(batch({copies.at}, {host}, {1}, {wrong}, {0}, copies.stream), "driver refuses");
    refused(batch({copies.at}, {host}, {1}, {GpuCopyKind()}, {0}, nullptr), "driver refuses");
    refused(batch({copies.at}, {host}, {1}, {GpuCopyKind()}, {1}, copies.stream), "refuses");
    refused(batch({copies.at, copies.at + 5}, {host, host + 10}, {6, 6}, {GpuCopyKind()}, {0},
                  copies.stream),
            "overlap");
  }
}

TEST_P(FakeGpuCopiesTest, TheKernelCopiesWhatItsTableSays) {
  Copies copies(GetParam());
  const GpuDriver& driver = copies.driver;
  void* module = nullptr;
  void* gather = nullptr;
  EXPECT_EQ(driver.module_load(&module, "any image"), 0);
  EXPECT_NE(driver.module_function(&gather, module, "another"), 0);
  EXPECT_EQ(driver.module_function(&gather, module, "spillway_gather"), 0);
  copies.gpu.Poke(copies.at, "0123456789");
  struct Piece {
    std::uint64_t to, from, bytes;
  };
  const std::array<Piece, 2> pieces{
      {{copies.at + kPage, copies.at + 5, 3}, {copies.at + kPage + 3, copies.at, 2}}};
  std::uint64_t table = reinterpret_cast<std::uint64_t>(copies.host);
  std::uint32_t count = 2;
  std::array<void*, 2> arguments{&table, &count};
  const auto launch = [&] {
    return driver.launch(gather, 2, 1, 1, 256, 1, 1, 0, copies.stream, arguments.data(), nullptr);
  };
  copies.gpu.Hang(true);
  EXPECT_EQ(launch(), 0);
  table = 0;  // Arguments are read at the call, the table when the kernel runs.
  std::memcpy(copies.host, pieces.data(), sizeof(pieces));
  copies.gpu.Hang(false);
  copies.Record();
  EXPECT_EQ(copies.Await(copies.event), 0);
  EXPECT_EQ(copies.gpu.Peek(copies.at + kPage, 5), "56701");

  table = reinterpret_cast<std::uint64_t>(pieces.data());  // Not registered with the card.
  EXPECT_EQ(launch(), 0);
  EXPECT_EQ(copies.gpu.Finish(), 700);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("table"));
  EXPECT_EQ(driver.event_query(copies.event), 700);  // As every call does now.
  EXPECT_TRUE(copies.gpu.out_of_reach());
  copies.gpu.Lose(0);
  EXPECT_EQ(driver.module_unload(module), 0);
  EXPECT_NE(launch(), 0);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("not there"));
}

TEST_P(FakeGpuCopiesTest, RandomWorkIsTheSameAsInOrder) {
  const std::uint64_t seed = TestSeed(7);
  SCOPED_TRACE(seed);
  for (const bool thread : {false, true}) {
    std::mt19937_64 random(seed);
    Copies copies(GetParam(), {.seed = seed, .thread = thread});
    std::string model(2 * kPage, '\0');
    std::string model_host(2 * kPage, '\xCD');
    for (int i = 0; i < 500; ++i) {
      const Bytes from = random() % kPage;
      const Bytes to = kPage + random() % kPage;
      const Bytes bytes = random() % (2 * kPage - to);
      const GpuStream stream = random() % 2 == 0 ? copies.stream : copies.second;
      // Each operation waits for the one before: the order is fixed.
      EXPECT_EQ(copies.driver.stream_wait(stream, copies.event, 0), 0);
      switch (random() % 4) {
        case 0:
          EXPECT_EQ(
              copies.driver.fill(copies.at + to, static_cast<unsigned char>(i), bytes, stream), 0);
          std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(to), bytes, static_cast<char>(i));
          break;
        case 1:
          EXPECT_EQ(copies.driver.copy_to_host(copies.host + from, copies.at + to, bytes, stream),
                    0);
          model_host.replace(from, bytes, model, to, bytes);
          break;
        case 2:
          EXPECT_EQ(copies.driver.copy_to_device(copies.at + to, copies.host + from, bytes, stream),
                    0);
          model.replace(to, bytes, model_host, from, bytes);
          break;
        default: {
          const Bytes some = std::min(bytes, to - from);
          EXPECT_EQ(copies.driver.copy_on_device(copies.at + to, copies.at + from, some, stream),
                    0);
          model.replace(to, some, std::string(model, from, some));
        }
      }
      EXPECT_EQ(copies.driver.event_record(copies.event, stream), 0);
      if (random() % 8 == 0) {
        EXPECT_EQ(copies.Await(copies.event), 0);
      }
    }
    EXPECT_EQ(copies.Await(copies.event), 0);
    EXPECT_EQ(copies.gpu.Peek(copies.at, 2 * kPage), model);
    EXPECT_EQ(std::memcmp(copies.host, model_host.data(), model_host.size()), 0);
  }
}

TEST_P(FakeGpuCopiesTest, ThreadsShareACard) {
  for (const bool thread : {false, true}) {
    Copies copies(GetParam(), {.thread = thread});
    const GpuDriver& driver = copies.driver;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const GpuScope scope(driver, 0, copies.context);
        const GpuStream stream = copies.Stream();
        const GpuEvent event = copies.Event();
        for (std::size_t round = 0; round < 100; ++round) {
          std::byte* const mine = copies.host + i * 4096;
          const std::byte value{static_cast<unsigned char>(i * 50 + round)};
          std::fill_n(mine, 4096, value);
          EXPECT_EQ(driver.copy_to_device(copies.at + i * 4096, mine, 4096, stream), 0);
          EXPECT_EQ(driver.event_record(event, stream), 0);
          EXPECT_EQ(copies.Await(event), 0);
          std::fill_n(mine, 4096, std::byte{0});
          EXPECT_EQ(driver.copy_to_host(mine, copies.at + i * 4096, 4096, stream), 0);
          EXPECT_EQ(driver.event_record(event, stream), 0);
          EXPECT_EQ(copies.Await(event), 0);
          EXPECT_EQ(mine[4095], value);
        }
        EXPECT_EQ(driver.event_destroy(event), 0);
        EXPECT_EQ(driver.stream_destroy(stream), 0);
      });
    }
    for (std::thread& each : threads) each.join();
  }
}

}  // namespace
}  // namespace spillway::testing
