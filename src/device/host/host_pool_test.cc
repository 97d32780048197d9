// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "device/host/host_pages.h"
#include "device/testing/device_contract.h"
#include "device/testing/test_seed.h"

namespace spillway {
namespace testing {
namespace {

struct PoolWorld {
  static std::unique_ptr<Device> Make(Bytes total, Bytes chunk_bytes) {
    return HostPool::Open({.capacity = total, .chunk_bytes = chunk_bytes}).value();
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(HostPool, DeviceContract, PoolWorld);

}  // namespace
}  // namespace testing

namespace {

constexpr auto kPatience = std::chrono::seconds(20);

Bytes ResidentBytes(std::byte* at, Bytes bytes) {
  std::vector<unsigned char> pages(bytes / kHostPage);
  EXPECT_EQ(::mincore(at, bytes, pages.data()), 0);
  return static_cast<Bytes>(std::ranges::count_if(pages, [](auto page) { return page & 1; })) *
         kHostPage;
}

// Records the calls it gets, and fails the test on an impossible one.
class Witness final : public ChunkListener {
 public:
  void Added(std::byte* base, Bytes bytes) override {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(known_.emplace(base, bytes).second) << "added twice";
    base[0] = std::byte{0};  // It is usable.
    added_.push_back(base);
    told_.notify_all();
  }
  void Removed(std::byte* base, Bytes bytes) override {
    const MutexLock lock(mutex_);
    const auto found = known_.find(base);
    ASSERT_NE(found, known_.end()) << "removed without being there";
    EXPECT_EQ(found->second, bytes);
    base[bytes - 1] = std::byte{1};  // It still is.
    known_.erase(found);
  }

  bool AwaitAdded(std::size_t n) {
    const MutexLock lock(mutex_);
    return told_.wait_for(mutex_, kPatience,  // real world: a bound for the pool's thread
                          [&]() SPILLWAY_REQUIRES(mutex_) { return added_.size() >= n; });
  }
  // Without the first `n`. The strand and the pool's thread may call in any order.
  std::set<std::byte*> AddedSince(std::size_t n) const {
    const MutexLock lock(mutex_);
    return {added_.begin() + static_cast<std::ptrdiff_t>(n), added_.end()};
  }
  std::size_t added() const {
    const MutexLock lock(mutex_);
    return added_.size();
  }
  std::size_t known() const {
    const MutexLock lock(mutex_);
    return known_.size();
  }

 private:
  mutable Mutex mutex_;
  CondVar told_;
  std::map<std::byte*, Bytes> known_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<std::byte*> added_ SPILLWAY_GUARDED_BY(mutex_);  // Ever.
};

class HostPoolTest : public ::testing::Test {
 protected:
  static constexpr Bytes kChunk = kMiB;
  static constexpr Bytes kChunks = 8;
  static constexpr Bytes kRange = 4 * kChunks * kChunk;

  ~HostPoolTest() override {
    for (std::byte* chunk : mapped_) pool_->UnmapChunk(chunk);
    EXPECT_EQ(pool_->held(), 0U);
    EXPECT_EQ(pool_->prepared(), 0U);
    EXPECT_EQ(witness_.known(), 0U);
    EXPECT_EQ(ResidentBytes(base_, kRange), 0U);
    pool_->ReleaseRange(base_, kRange);
  }

  std::byte* At(Bytes index) const { return base_ + index * kChunk; }
  Status Map(Bytes index) {
    Status mapped = pool_->MapChunk(At(index));
    if (mapped) mapped_.push_back(At(index));
    return mapped;
  }
  void Unmap(Bytes index) {
    pool_->UnmapChunk(At(index));
    std::erase(mapped_, At(index));
  }
  bool AwaitPrepared(Bytes chunks) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;  // real world: a bound
    while (pool_->prepared() != chunks * kChunk) {
      if (std::chrono::steady_clock::now() > end) return false;  // real world: a bound
      std::this_thread::yield();
    }
    return true;
  }

  Witness witness_;
  std::unique_ptr<HostPool> pool_ =
      HostPool::Open({.capacity = kChunks * kChunk, .chunk_bytes = kChunk, .listener = &witness_})
          .value();
  std::byte* base_ = pool_->ReserveRange(kRange).value();
  std::vector<std::byte*> mapped_;
};

TEST(HostPool, ChunksAreAboutA64thOfThePool) {
  EXPECT_EQ(HostPool::ChunkBytesFor(64 * kGiB), 32 * kMiB);
  EXPECT_EQ(HostPool::ChunkBytesFor(2 * kGiB), 32 * kMiB);
  EXPECT_EQ(HostPool::ChunkBytesFor(kGiB), 16 * kMiB);
  EXPECT_EQ(HostPool::ChunkBytesFor(100 * kMiB), kMiB);
  EXPECT_EQ(HostPool::ChunkBytesFor(1), kMiB);
}

TEST(HostPool, IsAsLargeAsAskedForInWholeChunks) {
  const auto pool = HostPool::Open({.capacity = 100 * kMiB + 1}).value();
  EXPECT_EQ(pool->name(), "host");
  EXPECT_EQ(pool->total(), 101 * kMiB);
  EXPECT_FALSE(pool->shared());
  EXPECT_EQ(pool->ReadMemory().value().total, 101 * kMiB);
  EXPECT_EQ(pool->ReadMemory().value().free, 101 * kMiB);
  const Result<std::byte*> range = pool->ReserveRange(4 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*range) % kHostHugePage, 0U);
  pool->ReleaseRange(*range, 4 * kMiB);
}

TEST(HostPool, RefusesSizesThatMakeNoSense) {
  EXPECT_EQ(HostPool::Open({.capacity = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(HostPool::Open({.capacity = ~Bytes{0}}).error().code, Code::kInvalidArgument);
  for (const Bytes chunk : {Bytes{0}, Bytes{2048}, Bytes{5000}}) {
    EXPECT_EQ(HostPool::Open({.capacity = kMiB, .chunk_bytes = chunk}).error().code,
              Code::kInvalidArgument);
  }
}

TEST_F(HostPoolTest, NothingIsPreparedBeforeTheFirstChunk) {
  EXPECT_EQ(pool_->prepared(), 0U);
  EXPECT_EQ(witness_.added(), 0U);
  EXPECT_EQ(ResidentBytes(base_, kRange), 0U);
}

TEST_F(HostPoolTest, WhileItGrowsTheNextTwoAreThere) {
  ASSERT_TRUE(Map(0));
  ASSERT_TRUE(AwaitPrepared(2));
  EXPECT_EQ(ResidentBytes(At(1), 2 * kChunk), 2 * kChunk);
  EXPECT_EQ(ResidentBytes(At(3), kRange - 3 * kChunk), 0U);
  EXPECT_EQ(pool_->held(), kChunk);
  EXPECT_EQ(pool_->ReadMemory().value().free, (kChunks - 1) * kChunk);  // Prepared chunks are free.
  // Mapping a prepared chunk only changes counters.
  EXPECT_EQ(witness_.AddedSince(0), (std::set{At(0), At(1), At(2)}));
  ASSERT_TRUE(Map(1));
  ASSERT_TRUE(witness_.AwaitAdded(4));
  EXPECT_EQ(witness_.AddedSince(3), (std::set{At(3)}));
}

TEST_F(HostPoolTest, NeverTakesMoreThanItsTotal) {
  for (Bytes i = 0; i < kChunks - 1; ++i) ASSERT_TRUE(Map(i));
  ASSERT_TRUE(AwaitPrepared(1));
  EXPECT_EQ(witness_.known(), kChunks);
  // The last free chunk is needed elsewhere: a prepared one is dropped.
  ASSERT_TRUE(Map(20));
  EXPECT_EQ(pool_->prepared(), 0U);
  EXPECT_EQ(ResidentBytes(At(kChunks - 1), kChunk), 0U);
  EXPECT_EQ(witness_.known(), kChunks);
  const Status full = Map(kChunks - 1);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kNoMemory);
  EXPECT_EQ(full.error().message, "the host pool's 8 MiB are in use");
}

TEST_F(HostPoolTest, UnderPressureNothingIsPreparedAndWhatWasGoesBack) {
  ASSERT_TRUE(Map(0));
  ASSERT_TRUE(AwaitPrepared(2));
  pool_->SetGrowth(false);
  EXPECT_EQ(pool_->prepared(), 0U);
  EXPECT_EQ(ResidentBytes(At(1), kRange - kChunk), 0U);
  EXPECT_EQ(witness_.known(), 1U);
  ASSERT_TRUE(Map(1));  // A needed chunk is still available.
  std::memset(At(1), 7, kChunk);
  EXPECT_EQ(pool_->prepared(), 0U);
  EXPECT_EQ(witness_.added(), 4U);
  pool_->SetGrowth(true);
  EXPECT_TRUE(AwaitPrepared(2));
  EXPECT_EQ(ResidentBytes(At(2), 2 * kChunk), 2 * kChunk);
}

TEST_F(HostPoolTest, AShrinkingPoolPreparesNothing) {
  pool_->SetGrowth(false);
  for (Bytes i = 0; i < 4; ++i) ASSERT_TRUE(Map(i));
  Unmap(1);
  pool_->SetGrowth(true);
  ASSERT_EQ(witness_.added(), 4U);
  Unmap(0);
  EXPECT_EQ(witness_.added(), 4U);
  ASSERT_TRUE(Map(5));  // It grows again, lowest first.
  ASSERT_TRUE(witness_.AwaitAdded(7));
  EXPECT_EQ(witness_.AddedSince(4), (std::set{At(0), At(1), At(5)}));
}

TEST_F(HostPoolTest, AnUnmappedChunksPagesAreBackWithTheKernel) {
  pool_->SetGrowth(false);
  for (Bytes i = 0; i < 4; ++i) {
    ASSERT_TRUE(Map(i));
    std::memset(At(i), 1, kChunk);
  }
  EXPECT_EQ(ResidentBytes(base_, kRange), 4 * kChunk);
  Unmap(2);
  EXPECT_EQ(ResidentBytes(At(2), kChunk), 0U);
  EXPECT_EQ(ResidentBytes(base_, kRange), 3 * kChunk);
  ASSERT_TRUE(Map(2));
  EXPECT_EQ(At(2)[5], std::byte{0});
}

TEST_F(HostPoolTest, ALockedChunksPagesGoBackToo) {
  pool_->SetGrowth(false);
  ASSERT_TRUE(Map(0));
  if (::mlock(At(0), kChunk) != 0)
    GTEST_SKIP() << "needs to lock memory: RLIMIT_MEMLOCK of a few MiB, or root";
  Unmap(0);
  EXPECT_EQ(ResidentBytes(At(0), kChunk), 0U);
  ASSERT_TRUE(Map(0));
}

TEST_F(HostPoolTest, TouchingPagesByHandFetchesThemAndChangesNothing) {
  pool_->SetGrowth(false);
  ASSERT_TRUE(Map(0));
  At(0)[0] = std::byte{7};
  At(0)[5 * kHostPage] = std::byte{8};
  TouchPages(At(0), kChunk);
  EXPECT_EQ(ResidentBytes(At(0), kChunk), kChunk);
  EXPECT_EQ(At(0)[0], std::byte{7});
  EXPECT_EQ(At(0)[5 * kHostPage], std::byte{8});
  EXPECT_EQ(At(0)[6 * kHostPage], std::byte{0});
}

// The thread prepares while chunks are mapped and unmapped anywhere: no byte is
// lost, and the counters are right.
TEST_F(HostPoolTest, HoldsWhateverComesAndGoesBesideTheThread) {
  const std::uint64_t seed = testing::TestSeed(3);
  SCOPED_TRACE("SPILLWAY_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::map<Bytes, std::byte> values;
  for (int step = 0; step < 3'000; ++step) {
    const Bytes index = random() % (2 * kChunks);
    const auto found = values.find(index);
    if (found == values.end()) {
      const Status mapped = Map(index);
      ASSERT_EQ(mapped.has_value(), values.size() < kChunks);
      if (mapped) {
        const auto value = static_cast<std::byte>(random());
        for (Bytes at = 0; at < kChunk; at += 64 * kHostPage) At(index)[at] = value;
        values[index] = value;
      }
    } else {
      for (Bytes at = 0; at < kChunk; at += 64 * kHostPage) {
        ASSERT_EQ(At(index)[at], found->second);
      }
      Unmap(index);
      values.erase(found);
    }
    if (random() % 50 == 0) pool_->SetGrowth(random() % 4 != 0);
    ASSERT_EQ(pool_->held(), values.size() * kChunk);
    ASSERT_LE(pool_->held() + pool_->prepared(), pool_->total());
    ASSERT_LE(witness_.known(), kChunks);
  }
}

TEST_F(HostPoolTest, ARangeMayGoWhileItsChunksArePrepared) {
  std::byte* const other = pool_->ReserveRange(kRange).value();
  ASSERT_TRUE(Map(0));
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(pool_->MapChunk(other));
    pool_->UnmapChunk(other);
    ASSERT_TRUE(pool_->MapChunk(other + kChunk));
    pool_->UnmapChunk(other + kChunk);
  }
  pool_->ReleaseRange(other, kRange);
  EXPECT_EQ(pool_->held(), kChunk);
}

// Blocks the caller that adds one certain chunk.
class SlowListener final : public ChunkListener {
 public:
  void Added(std::byte* base, Bytes) override {
    const MutexLock lock(mutex_);
    ++added_[base];
    told_.notify_all();
    while (base == slow_) told_.wait(mutex_);
  }
  void Removed(std::byte*, Bytes) override {}

  void SetSlow(std::byte* base) {
    const MutexLock lock(mutex_);
    slow_ = base;
    told_.notify_all();
  }
  bool AwaitAdded(std::byte* base) {
    const MutexLock lock(mutex_);
    return told_.wait_for(mutex_, kPatience,  // real world: a bound for the pool's thread
                          [&]() SPILLWAY_REQUIRES(mutex_) { return added_[base] > 0; });
  }
  int added(std::byte* base) {
    const MutexLock lock(mutex_);
    return added_[base];
  }

 private:
  Mutex mutex_;
  CondVar told_;
  std::byte* slow_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
  std::map<std::byte*, int> added_ SPILLWAY_GUARDED_BY(mutex_);
};

TEST(HostPool, AChunkIsMappedOnceItsListenerKnowsItAndOthersNeedNotWait) {
  SlowListener listener;
  const auto pool =
      HostPool::Open({.capacity = 8 * kMiB, .chunk_bytes = 2 * kMiB, .listener = &listener})
          .value();
  std::byte* const base = pool->ReserveRange(8 * kMiB).value();
  std::byte* const next = base + 2 * kMiB;
  listener.SetSlow(next);
  ASSERT_TRUE(pool->MapChunk(base));
  ASSERT_TRUE(listener.AwaitAdded(next));
  // While a driver is busy with the next chunk another one can be mapped,
  EXPECT_TRUE(pool->MapChunk(base + 6 * kMiB));
  EXPECT_EQ(pool->ReadMemory().value().free, 4 * kMiB);
  // and this one when the driver is done with it.
  std::atomic<bool> mapped = false;
  std::thread strand([&] {
    EXPECT_TRUE(pool->MapChunk(next));
    mapped = true;
  });
  EXPECT_FALSE(mapped);
  listener.SetSlow(nullptr);
  strand.join();
  EXPECT_EQ(listener.added(next), 1);
  for (const Bytes at : {0U, 2U, 6U}) pool->UnmapChunk(base + at * kMiB);
  pool->ReleaseRange(base, 8 * kMiB);
}

// Limits apply to a whole process, so a child gets them.
void InChild(const std::function<bool()>& holds) {
  EXPECT_EXIT(std::_Exit(holds() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

// Sanitizers need a lot of memory: limits are relative to what is in use.
bool LimitMore(int which, std::string_view status_line, Bytes more) {
  std::ifstream status("/proc/self/status");
  std::string word;
  Bytes kib = 0;
  while (status >> word && word != status_line) continue;
  if (!(status >> kib)) return false;
  const Bytes bytes = kib * kKiB + more;
  const rlimit limit{bytes, bytes};
  return ::setrlimit(static_cast<__rlimit_resource_t>(which), &limit) == 0;
}

bool IsNoMemory(const Error& error) {
  return error.code == Code::kNoMemory && error.message.ends_with(std::strerror(ENOMEM));
}

TEST(HostPoolDeathTest, RefusedAddressesAreNoMemoryInTheSystemsWords) {
  InChild([] {
    const auto pool = HostPool::Open({.capacity = 64 * kGiB}).value();
    if (!LimitMore(RLIMIT_AS, "VmSize:", 8 * kGiB)) return false;
    const Result<std::byte*> refused = pool->ReserveRange(64 * kGiB);
    if (refused || !IsNoMemory(refused.error())) return false;
    std::byte* const base = pool->ReserveRange(kGiB).value();
    pool->ReleaseRange(base, kGiB);
    return true;
  });
}

TEST(HostPoolDeathTest, RefusedMemoryIsNoMemoryAndNothingChanges) {
  InChild([] {
    Witness witness;
    const auto pool =
        HostPool::Open({.capacity = kGiB, .chunk_bytes = 32 * kMiB, .listener = &witness}).value();
    pool->SetGrowth(false);
    std::byte* const base = pool->ReserveRange(kGiB).value();
    if (!pool->MapChunk(base)) return false;
    // Writable memory: some more, but not enough for another chunk.
    if (!LimitMore(RLIMIT_DATA, "VmData:", 16 * kMiB)) return false;
    const Status refused = pool->MapChunk(base + 32 * kMiB);
    if (refused || !IsNoMemory(refused.error())) return false;
    if (pool->held() != 32 * kMiB || witness.known() != 1) return false;
    // The thread does not insist, either.
    pool->SetGrowth(true);
    pool->UnmapChunk(base);
    pool->ReleaseRange(base, kGiB);
    return witness.known() == 0;
  });
}

}  // namespace
}  // namespace spillway
