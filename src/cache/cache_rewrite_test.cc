// A key set anew with nothing changed but its bytes: to everybody a set like any
// other.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/testing/cache_fixture.h"

namespace spillway {
namespace {

using namespace std::chrono_literals;

using RewriteTest = testing::CacheTest;

TEST_F(RewriteTest, HasANewGenerationAndOneCause) {
  Open();
  ASSERT_TRUE(Set("k", "first"));
  EXPECT_EQ(Get("k"), "first");
  const Bytes bytes = cache_->stats().device.bytes;
  ASSERT_TRUE(Set("k", "other"));
  EXPECT_EQ(Get("k"), "other");
  EXPECT_EQ(Left(), std::vector<std::string>{"k:destroy:replaced"});
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.sets, 2U);
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.entries, 1U);
  EXPECT_EQ(stats.device.bytes, bytes);
  EXPECT_EQ(stats.reservations, 0U);
}

TEST_F(RewriteTest, LeavesReadersWhatTheyHave) {
  Open();
  ASSERT_TRUE(Set("k", "first"));
  auto lease = cache_->Get("k");
  ASSERT_TRUE(lease && *lease);
  ASSERT_TRUE(Set("k", "other"));
  EXPECT_EQ((*lease)->text(), "first");
  EXPECT_EQ(Get("k"), "other");
  (*lease)->Release();
  ASSERT_TRUE(Set("k", "third"));
  EXPECT_EQ(Get("k"), "third");
  EXPECT_EQ(events_.size(), 2U);
}

TEST_F(RewriteTest, CountsAsUseAndForgetsEarlierOnes) {
  options_.entries_max = 2;
  Open();
  ASSERT_TRUE(Set("a", "1"));
  clock_->Advance(1s);
  ASSERT_TRUE(Set("b", "1"));
  clock_->Advance(1s);
  ASSERT_TRUE(Set("a", "2"));
  clock_->Advance(1s);
  ASSERT_TRUE(Set("c", "1"));
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(Get("b"), "(miss)");
}

TEST_F(RewriteTest, NothingPilesUp) {
  options_.entries_max = 3;
  Open();
  for (int i = 0; i < 20'000; ++i) {
    clock_->Advance(1ms);
    ASSERT_TRUE(Set(i % 2 == 0 ? "a" : "b", fmt::format("{:8}", i)));
  }
  EXPECT_EQ(cache_->stats().entries, 2U);
  EXPECT_EQ(events_.size(), 19'998U);
  ASSERT_TRUE(Set("c", "c"));
  ASSERT_TRUE(Set("d", "d"));
  EXPECT_EQ(Get("a"), "(miss)");  // The one set longest ago.
  EXPECT_EQ(Get("b"), fmt::format("{:8}", 19'999));
}

// Whatever else changes, the set goes the long way and says it all.
TEST_F(RewriteTest, WhatChangesMoreThanBytesIsNotInPlace) {
  options_.token_budget = 1000;
  Open();
  ASSERT_TRUE(Set("k", "first", {.tokens = 10}));
  ASSERT_TRUE(Set("k", "other", {.tokens = 20}));
  EXPECT_EQ(cache_->stats().tokens, 20);
  ASSERT_TRUE(Set("k", "third", {.tokens = 20, .ttl = 1s}));
  clock_->Advance(2s);
  EXPECT_EQ(Get("k"), "(miss)");
  ASSERT_TRUE(Set("k", "third", {.tokens = 20, .agent = "me"}));
  ASSERT_TRUE(Set("k", "forth", {.tokens = 20}));
  ASSERT_TRUE(Set("k", "longer", {.tokens = 20}));
  EXPECT_EQ(Get("k"), "longer");
  EXPECT_EQ(cache_->stats().device.bytes, 6U);
}

TEST_F(RewriteTest, IsRefusedInEmergencyAsAnySet) {
  Open();
  ASSERT_TRUE(Set("k", "first"));
  cache_->Apply(0.99);
  ASSERT_EQ(cache_->level(), Level::kEmergency);
  const Status refused = Set("k", "other");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBlocked);
}

}  // namespace
}  // namespace spillway
