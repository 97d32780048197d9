// SPDX-License-Identifier: Apache-2.0
#include "cache/flush.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cache/testing/scratch_folder.h"
#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway {
namespace {

using std::chrono::seconds;

class FlushTest : public ::testing::Test {
 protected:
  // Nothing is copied to disk by itself: the cache is not started, and write-back is
  // off.
  std::unique_ptr<Cache> Open(Bytes disk = 64 * kMiB, bool host = false) {
    Options options;
    options.capacity = 32 * kMiB;
    options.policy = "lru";
    options.disk_dir = folder_ / "disk";
    options.disk_capacity = disk;
    options.write_back_after.reset();
    options.clock = clock_;
    if (host) options.host_capacity = 16 * kMiB;
    auto opened = Cache::Open(options);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  static std::string KeyOf(int i) { return "k" + std::to_string(i); }
  static std::string ValueOf(int i) {
    return std::string(100'000, static_cast<char>('a' + i % 26));
  }
  static void Fill(Cache* cache, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string value = ValueOf(i);
      ASSERT_TRUE(cache->Set(KeyOf(i), Source(value), {.tokens = 10}));
    }
  }
  static int Found(Cache* cache, int count) {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      const auto got = cache->Get(KeyOf(i));
      if (!got || !*got) continue;
      EXPECT_EQ((*got)->text(), ValueOf(i)) << i;
      ++found;
    }
    return found;
  }
  testing::ScratchFolder folder_;
  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
};

TEST_F(FlushTest, WhatOnlyMemoryHadIsFoundAgain) {
  for (const bool host : {false, true}) {
    std::unique_ptr<Cache> cache = Open(64 * kMiB, host);
    Fill(cache.get(), 100);
    EXPECT_EQ(cache->stats().disk.entries, 0U);
    const Flushed flushed = FlushToDisk(cache.get(), seconds(60));
    EXPECT_EQ(flushed.entries, 100U);
    EXPECT_EQ(flushed.bytes, 100U * 100'000U);
    EXPECT_EQ(flushed.entries_left, 0U);
    EXPECT_EQ(FlushToDisk(cache.get(), seconds(60)).entries, 0U);  // Once is enough.
    ASSERT_TRUE(Cache::Close(std::move(cache)));
    cache = Open(64 * kMiB, host);
    EXPECT_EQ(Found(cache.get(), 100), 100);
    cache->Clear();
    ASSERT_TRUE(Cache::Close(std::move(cache)));
  }
}

TEST_F(FlushTest, ManySmallEntriesAreAllFoundAgain) {
  constexpr int kMany = 3000;  // Several batches, the last of them partial.
  std::unique_ptr<Cache> cache = Open();
  for (int i = 0; i < kMany; ++i) {
    const std::string value = "value of " + KeyOf(i);
    ASSERT_TRUE(cache->Set(KeyOf(i), Source(value), {}));
  }
  const Flushed flushed = FlushToDisk(cache.get(), seconds(60));
  EXPECT_EQ(flushed.entries, kMany);
  EXPECT_EQ(flushed.entries_left, 0U);
  ASSERT_TRUE(Cache::Close(std::move(cache)));
  cache = Open();
  for (int i = 0; i < kMany; ++i) {
    const auto got = cache->Get(KeyOf(i));
    ASSERT_TRUE(got && *got) << i;
    ASSERT_EQ((*got)->text(), "value of " + KeyOf(i));
  }
}

TEST_F(FlushTest, WhatIsBoundToSmallEntriesGoesAlong) {
  std::unique_ptr<Cache> cache = Open();
  ASSERT_TRUE(cache->Set("root", Source(std::string_view("r")), {.tokens = 3, .agent = "ann"}));
  ASSERT_TRUE(cache->Set("leaf", Source(std::string_view("l")),
                         {.tokens = 5, .agent = "bob", .parent = "root", .ttl = seconds(1000)}));
  EXPECT_EQ(FlushToDisk(cache.get(), seconds(60)).entries, 2U);
  ASSERT_TRUE(Cache::Close(std::move(cache)));
  cache = Open();
  ASSERT_TRUE(cache->Get("root"));  // By then the whole disk has been read in.
  EXPECT_EQ(cache->Match({"root", "leaf"}), 2U);
  ASSERT_TRUE(cache->Visit("root", [](const Cache::EntryInfo& info) {
    EXPECT_EQ(info.tokens, 3);
    EXPECT_EQ(info.agent, "ann");
  }));
  ASSERT_TRUE(cache->Visit("leaf", [](const Cache::EntryInfo& info) {
    EXPECT_EQ(info.tokens, 5);
    EXPECT_EQ(info.agent, "bob");
  }));
  clock_->Advance(seconds(2000));
  cache->Apply();
  EXPECT_FALSE(cache->Contains("leaf"));
  EXPECT_TRUE(cache->Contains("root"));
}

TEST_F(FlushTest, WithoutTimeNothingIsWrittenAndAllIsCounted) {
  std::unique_ptr<Cache> cache = Open();
  Fill(cache.get(), 10);
  const Flushed flushed = FlushToDisk(cache.get(), Duration::zero());
  EXPECT_EQ(flushed.entries, 0U);
  EXPECT_EQ(flushed.entries_left, 10U);
  EXPECT_EQ(flushed.bytes_left, 1'000'000U);
  EXPECT_EQ(cache->stats().disk.entries, 0U);
}

TEST_F(FlushTest, WhereThereIsRoomForSomeTheMostValuableAreWritten) {
  std::unique_ptr<Cache> cache = Open(8 * kMiB);
  Fill(cache.get(), 200);
  clock_->Advance(seconds(10));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(cache->Touch(KeyOf(i)));  // Used last.
  const Flushed flushed = FlushToDisk(cache.get(), seconds(60));
  EXPECT_GT(flushed.entries, 20U);
  EXPECT_GT(flushed.entries_left, 20U);
  EXPECT_EQ(flushed.entries + flushed.entries_left, 200U);
  ASSERT_TRUE(Cache::Close(std::move(cache)));
  cache = Open(8 * kMiB);
  EXPECT_EQ(Found(cache.get(), 20), 20);
  EXPECT_LT(Found(cache.get(), 200), 200);
}

TEST_F(FlushTest, ParentsAreThereBeforeTheirChildren) {
  std::unique_ptr<Cache> cache = Open(4 * kMiB);
  std::vector<std::string> chain;
  for (int i = 0; i < 100; ++i) {
    const std::string value = ValueOf(i);
    SetOptions options{.tokens = 10};
    if (i > 0) options.parent = chain.back();
    ASSERT_TRUE(cache->Set(KeyOf(i), Source(value), options));
    chain.push_back(KeyOf(i));
  }
  const Flushed flushed = FlushToDisk(cache.get(), seconds(60));
  ASSERT_GT(flushed.entries, 5U);
  ASSERT_GT(flushed.entries_left, 5U);
  ASSERT_TRUE(Cache::Close(std::move(cache)));
  cache = Open(4 * kMiB);
  const std::vector<std::string_view> keys(chain.begin(), chain.end());
  ASSERT_TRUE(cache->Get(KeyOf(0)));  // By then the whole disk has been read in.
  EXPECT_EQ(cache->Match(keys), flushed.entries);
}

TEST_F(FlushTest, WithoutADiskTierThereIsNothingToDo) {
  Options options;
  options.capacity = 4 * kMiB;
  auto cache = Cache::Open(options);
  ASSERT_TRUE(cache);
  ASSERT_TRUE((*cache)->Set("k", Source("v"), {.tokens = 1}));
  EXPECT_EQ(FlushToDisk(cache->get(), seconds(1)).entries_left, 0U);
}

}  // namespace
}  // namespace spillway
