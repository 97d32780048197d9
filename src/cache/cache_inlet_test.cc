// Small new entries that come beside the strand: to everybody sets like any other.
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/core.h"
#include "cache/testing/cache_fixture.h"

namespace spillway {
namespace {

using namespace std::chrono_literals;

class InletTest : public testing::CacheTest {
 protected:
  InletTest() {
    options_.capacity = 64 * kMiB;
    options_.entries_max = 20'000;
  }
  // Enough sets in a row that the rest come beside the strand.
  void Warm(int from = 0) {
    for (int i = from; i < from + 200; ++i) ASSERT_TRUE(Set(Key(i), Value(i)));
    ASSERT_TRUE(inlet().open());
  }
  void Fill(int from, int to) {
    for (int i = from; i < to; ++i) ASSERT_TRUE(Set(Key(i), Value(i)));
  }
  static std::string Key(int i) { return fmt::format("key-{}", i); }
  static std::string Value(int i) { return fmt::format("{:012}", i); }
  const Inlet& inlet() { return Core::Of(*cache_)->engine().inlet(); }
  const Inlet::Lane& LaneFor(Bytes bytes) {
    return Core::Of(*cache_)->engine().inlet().LaneFor(bytes);
  }
  // A value of another size whose sets come by the same lane.
  std::string OfTheSameLane() {
    std::size_t other = 13;
    while (&LaneFor(other) != &LaneFor(12)) ++other;
    return std::string(other, 'v');
  }
  std::size_t Count(Reason reason) {
    std::size_t count = 0;
    for (const testing::Seen& seen : events_) count += seen.reason == reason ? 1 : 0;
    return count;
  }
};

TEST_F(InletTest, WhatComesBesideTheStrandIsThereAtOnce) {
  Open();
  Warm();
  const std::size_t waiting = inlet().waiting();
  ASSERT_TRUE(Set("new", Value(1)));
  EXPECT_GT(inlet().waiting(), waiting) << "it went over the strand";
  EXPECT_EQ(Get("new"), Value(1));
  EXPECT_TRUE(cache_->Contains("new"));
  EXPECT_EQ(cache_->size(), 201U);
  EXPECT_TRUE(cache_->Visit("new", [](const Cache::EntryInfo& info) {
    EXPECT_EQ(info.tier, "device");
    EXPECT_EQ(info.bytes, 12U);
    EXPECT_EQ(info.access_count, 2U);
  }));
  const Stats stats = cache_->stats();
  EXPECT_EQ(inlet().waiting(), 0U);
  EXPECT_EQ(stats.entries, 201U);
  EXPECT_EQ(stats.sets, 201U);
  EXPECT_EQ(stats.device.bytes, 201U * 12);
  EXPECT_EQ(stats.reservations, 0U);
  EXPECT_NE(cache_->Explain("new").find("device"), std::string::npos);
}

// Nobody is counted twice while the strand enrols, nor lost when somebody leaves.
TEST_F(InletTest, SizeIsExactWhileOthersRunTheStrand) {
  options_.entries_max = 200'000;  // For a large stock.
  Open();
  Warm();
  std::atomic<bool> run{false};
  const std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!run.load()) continue;
      (void)cache_->stats();
      run = false;
    }
  });
  // Many are waiting each time the strand is run, and size() is read meanwhile.
  for (int i = 200; i < 19'000; i += 60) {
    Fill(i, i + 60);
    run = true;
    const auto there = static_cast<std::size_t>(i + 60);
    while (run.load()) ASSERT_EQ(cache_->size(), there);
  }
  for (int i = 0; i < 1'000; ++i) {
    run = true;
    ASSERT_TRUE(cache_->Erase(Key(i)));
    ASSERT_EQ(cache_->size(), 19'039U - static_cast<std::size_t>(i));
  }
}

TEST_F(InletTest, CanBeSetAnewErasedAndCleared) {
  Open();
  Warm();
  ASSERT_TRUE(Set("a", Value(1)));
  ASSERT_TRUE(Set("a", Value(2)));
  EXPECT_EQ(Get("a"), Value(2));
  EXPECT_EQ(Left(), std::vector<std::string>{"a:destroy:replaced"});
  ASSERT_TRUE(Set("b", Value(3)));
  EXPECT_TRUE(cache_->Erase("b"));
  EXPECT_EQ(Get("b"), "(miss)");
  EXPECT_EQ(Left(), std::vector<std::string>{"b:destroy:erased"});
  ASSERT_TRUE(Set("c", Value(4)));
  auto lease = cache_->Get("c");
  cache_->Clear();
  EXPECT_EQ((*lease)->text(), Value(4));
  (*lease)->Release();
  EXPECT_EQ(cache_->size(), 0U);
  EXPECT_EQ(Count(Reason::kCleared), 202U);
  EXPECT_EQ(cache_->stats().device.bytes, 0U);
}

TEST_F(InletTest, AllThatFitsIsKept) {
  Open();
  Fill(0, 20'000);
  EXPECT_EQ(cache_->size(), 20'000U);
  EXPECT_TRUE(events_.empty());
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(Get(Key(i)), Value(i));
  // Also where the last of it comes by other ways: a name, another size.
  cache_->Clear();
  events_.clear();
  Fill(0, 19'700);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(Set(fmt::format("other-{}", i), "x", {.tokens = 1}));
  EXPECT_EQ(cache_->size(), 20'000U);
  EXPECT_TRUE(events_.empty());
  // One more, and one leaves.
  ASSERT_TRUE(Set("one more", "x", {.tokens = 1}));
  EXPECT_EQ(events_.size(), 1U);
  EXPECT_EQ(cache_->size(), 20'000U);
}

TEST_F(InletTest, InAFullCacheAsManyLeaveAsCome) {
  Open();
  Fill(0, 100'000);
  const Stats stats = cache_->stats();
  EXPECT_LE(stats.entries, 20'000U);
  EXPECT_GE(stats.entries, 20'000U - Inlet::kStockMost);
  EXPECT_EQ(stats.sets, 100'000U);
  EXPECT_EQ(stats.left_by_reason.at(static_cast<std::size_t>(Reason::kRoom)),
            100'000U - stats.entries);
  EXPECT_EQ(Count(Reason::kRoom), events_.size());
  std::set<std::string> left;
  for (const testing::Seen& seen : events_) {
    ASSERT_TRUE(left.insert(seen.key).second) << seen.key << " left twice";
  }
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_EQ(Get(Key(i)), left.contains(Key(i)) ? "(miss)" : Value(i));
  }
  EXPECT_NE(cache_->Explain(events_.back().key).find("room"), std::string::npos);
}

// Large ones after small ones, a value and a place of another size each: who leaves for
// them is counted right.
TEST_F(InletTest, SizesMayChange) {
  options_.capacity = 8 * kMiB;
  options_.entries_max = 200'000;
  Open();
  const std::string small(40, 's');
  const std::string large(400, 'l');
  for (int i = 0; i < 250'000; ++i) ASSERT_TRUE(Set(Key(i), small));
  for (int i = 0; i < 60'000; ++i) ASSERT_TRUE(Set(fmt::format("L{}", i), large));
  for (int i = 0; i < 250'000; ++i) ASSERT_TRUE(Set(fmt::format("s{}", i), small));
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.sets, 560'000U);
  EXPECT_EQ(stats.entries + events_.size(), stats.sets);
  EXPECT_LE(stats.device.bytes, 8 * kMiB);
  EXPECT_GE(stats.device.held, 8 * kMiB - 512 * kKiB);
  Bytes bytes = 0;
  cache_->ForEach([&](const Cache::EntryInfo& info) { bytes += info.bytes; });
  EXPECT_EQ(bytes, stats.device.bytes);
}

TEST_F(InletTest, ALaneThatChangesItsSizeHasNoPlacesOfTheOld) {
  Open();
  Warm();
  const std::string value = OfTheSameLane();
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(Set(fmt::format("o{}", i), value));
  Warm(1'000);
  for (int i = 0; i < 1'000; ++i) ASSERT_EQ(Get(fmt::format("o{}", i)), value);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Get(Key(i)), Value(i));
  EXPECT_EQ(cache_->stats().device.bytes, 1'000 * value.size() + std::size_t{400} * 12);
}

TEST_F(InletTest, ALaneInUseIsNotGivenToAnotherSize) {
  Open();
  Warm();
  const std::string value = OfTheSameLane();
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(Set(Key(200 + i), Value(i)));
    ASSERT_TRUE(Set(fmt::format("o{}", i), value));
    ASSERT_EQ(LaneFor(12).bytes, 12U) << i;
  }
}

// Where the slack of size classes fills the card before the account is full.
TEST_F(InletTest, TheCardMayBeFullerThanTheAccount) {
  options_.capacity = 8 * kMiB;
  options_.entries_max = 1'000'000;
  Open();
  const std::string value(33, 'v');
  for (int i = 0; i < 400'000; ++i) ASSERT_TRUE(Set(Key(i), value));
  ASSERT_GT(inlet().waiting(), 0U) << "the last of them went over the strand";
  const Stats stats = cache_->stats();
  EXPECT_LT(stats.device.bytes, 7 * kMiB);
  EXPECT_EQ(stats.entries + events_.size(), 400'000U);
}

// The same where it is full before anybody has left for room: what is in stock is
// room for those who come over the strand.
TEST_F(InletTest, StockOnAFullCardIsGivenBackBeforeAnybodyLeaves) {
  options_.capacity = 8 * kMiB;
  options_.entries_max = 1'000'000;
  const std::string value(33, 'v');
  const auto fill_until_one_leaves = [&](int beside) {
    events_.clear();
    Open();
    int i = 0;
    for (; events_.empty(); ++i) {
      EXPECT_TRUE(Set(Key(i), value, {.tokens = i < beside ? 0 : 1}));
      if (i == beside - 1) {
        EXPECT_GT(inlet().came(), 0U);
      }
    }
    return i;
  };
  const int all_over_the_strand = fill_until_one_leaves(0);
  ASSERT_LT(cache_->stats().device.bytes, 7 * kMiB);
  EXPECT_EQ(fill_until_one_leaves(all_over_the_strand - 50), all_over_the_strand);
}

// By score, where all that stand first have been used, a set still takes but a moment.
TEST_F(InletTest, AFullCacheThatWasReadLetsNewOnesIn) {
  Open();
  Fill(0, 30'000);
  for (int i = 0; i < 30'000; ++i) (void)Get(Key(i));
  for (int i = 0; i < 30'000; ++i) (void)Get(Key(i));
  const std::size_t left = events_.size();
  Fill(30'000, 30'300);
  EXPECT_GE(events_.size() - left, 300U - Inlet::kStockMost);
  EXPECT_LE(events_.size() - left, 300U + Inlet::kStockMost);
}

TEST_F(InletTest, EmergencyRefusesTheVeryNextSet) {
  Open();
  Warm();
  cache_->Apply(0.97);
  EXPECT_FALSE(inlet().open());
  const Status refused = Set("new", Value(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBlocked);
  EXPECT_EQ(Get("new"), "(miss)");
  cache_->Apply(0.1);
  clock_->Advance(3s);
  cache_->Apply(0.1);
  ASSERT_TRUE(Set("new", Value(1)));
  EXPECT_TRUE(inlet().open());
}

TEST_F(InletTest, UnknownPressureKeepsItShut) {
  Open();
  Warm();
  const Bytes held = cache_->stats().device.bytes;
  Core::Of(*cache_)->Pass(Core::SampleValue{});  // A reading that failed.
  ASSERT_FALSE(cache_->pressure());
  EXPECT_FALSE(inlet().open());
  // It does not grow: what comes takes the place of somebody.
  ASSERT_TRUE(Set("new", Value(1)));
  EXPECT_EQ(inlet().waiting(), 0U);
  EXPECT_EQ(cache_->stats().device.bytes, held);
  EXPECT_EQ(cache_->stats().reservations, 0U);
  cache_->Apply(0.1);
  EXPECT_TRUE(inlet().open());
}

TEST_F(InletTest, AGraphKeepsItShut) {
  Open();
  Warm();
  cache_->Attach(std::make_shared<StepGraph>());
  EXPECT_FALSE(inlet().open());
  ASSERT_TRUE(Set("new", Value(1)));
  EXPECT_EQ(inlet().waiting(), 0U);
  EXPECT_EQ(cache_->stats().reservations, 0U);
}

TEST_F(InletTest, IdleOnesExpireLikeOthers) {
  options_.ttl = 10s;
  Open();
  Warm();
  ASSERT_TRUE(Set("kept", Value(1), {.idle_ttl = false}));
  ASSERT_TRUE(Set("idle", Value(2)));
  clock_->Advance(11s);
  cache_->Apply(std::nullopt);
  EXPECT_EQ(Get("idle"), "(miss)");
  EXPECT_EQ(Get("kept"), Value(1));
  EXPECT_EQ(cache_->size(), 1U);
}

TEST_F(InletTest, ASmallCacheHasNoStock) {
  options_.entries_max = 500;
  Open();
  for (int i = 0; i < 5'000; ++i) {
    ASSERT_TRUE(Set(Key(i), Value(i)));
    ASSERT_EQ(cache_->size(), static_cast<std::size_t>(std::min(i + 1, 500)));
    ASSERT_EQ(inlet().waiting(), 0U);
  }
}

// The same keys from several threads, small caches, pressure that comes and goes:
// every value is right, every set is there or has left for one reason.
TEST_F(InletTest, ThreadsAgreeOnWhatIsThere) {
  constexpr int kThreads = 4;
  constexpr int kOps = 60'000;
  constexpr int kKeys = 40'000;
  Open();
  std::atomic<std::uint64_t> sets{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::uint64_t seed = static_cast<std::uint64_t>(thread) + 1;
      for (int i = 0; i < kOps; ++i) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const int key = static_cast<int>((seed >> 33) % kKeys);
        const auto got = cache_->Get(Key(key));
        if (got && *got) {
          if ((*got)->text() != Value(key)) wrong.fetch_add(1);
          if (i % 64 == 0) (void)cache_->Erase(Key(key));
        } else if (Set(Key(key), Value(key))) {
          sets.fetch_add(1);
        }
        if (thread == 0 && i % 5'000 == 0) {
          cache_->Apply(i % 10'000 == 0 ? 0.97 : 0.2);
          clock_->Advance(3s);
          cache_->Apply(0.2);
        }
        if (thread == 1 && i % 20'000 == 7) cache_->Clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.sets, sets.load());
  EXPECT_EQ(stats.entries + events_.size(), sets.load());
  std::size_t there = 0;
  cache_->ForEach([&](const Cache::EntryInfo&) { ++there; });
  EXPECT_EQ(there, stats.entries);
  EXPECT_EQ(stats.device.bytes, there * 12);
}

}  // namespace
}  // namespace spillway
