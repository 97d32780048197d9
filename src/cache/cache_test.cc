// SPDX-License-Identifier: Apache-2.0
// The public API, on the embedded cpu device with time and pressure by hand.
#include "spillway/cache.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/cache_fixture.h"

namespace spillway {
namespace {

using std::chrono::seconds;
using testing::CacheTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- values ---

TEST_F(CacheTest, WhatWasSetIsReadBack) {
  Open();
  ASSERT_TRUE(Set("a", "hello", {.tokens = 5}));
  EXPECT_EQ(Get("a"), "hello");
  EXPECT_EQ(Get("b"), "(miss)");
  EXPECT_EQ(cache_->size(), 1U);
  EXPECT_EQ(cache_->total_tokens(), 5);
}

TEST_F(CacheTest, KeysAreAnyBytesUpToTheirLimit) {
  Open();
  const std::string nul("a\0b", 3);
  const std::string longest(kKeyBytesMax, 'k');
  ASSERT_TRUE(Set(nul, "1"));
  ASSERT_TRUE(Set("a", "2"));
  ASSERT_TRUE(Set(longest, "3"));
  EXPECT_EQ(Get(nul), "1");
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(Get(longest), "3");
  EXPECT_TRUE(cache_->Erase(longest));
  EXPECT_EQ(Get(longest), "(miss)");
}

TEST_F(CacheTest, ValuesFromNothingToTheWholeTier) {
  Open();
  ASSERT_TRUE(Set("empty", ""));
  EXPECT_EQ(Get("empty"), "");
  const std::string whole(kMiB, 'x');
  ASSERT_TRUE(Set("whole", whole));
  EXPECT_EQ(Get("whole"), whole);
  const Status status = Set("more", whole + "x");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kTooLarge);
  EXPECT_THAT(status.error().message, HasSubstr("1048577 bytes do not fit"));
  EXPECT_EQ(Get("whole"), whole);
}

TEST_F(CacheTest, FragmentsAreJoinedGoingInAndFilledGoingOut) {
  Open();
  const std::string a = "abc";
  const std::string b = "defgh";
  ASSERT_TRUE(cache_->Set("k", Source({{a.data(), 3, Place::kHost}, {b.data(), 5, Place::kHost}})));
  EXPECT_EQ(Get("k"), "abcdefgh");
  std::string x(2, '.');
  std::string y(10, '.');
  GetOptions into;
  into.into = Sink({{x.data(), 2, Place::kHost}, {y.data(), 10, Place::kHost}});
  auto got = cache_->Get("k", into);
  ASSERT_TRUE(got && *got);
  EXPECT_EQ(x + y, "abcdefgh....");
  into.into = Sink(x.data(), 2);
  got = cache_->Get("k", into);
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("sink has 2 bytes, the value 8"));
}

TEST_F(CacheTest, DeviceFragmentsAreRefusedWhereThereIsNoDevice) {
  Open();
  const Status status = cache_->Set("k", Source({{nullptr, 8, Place::kDevice}}));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  ASSERT_TRUE(Set("k", "v"));
  EXPECT_EQ(cache_->Get("k", {.where = Place::kDevice}).error().code, Code::kNotResident);
}

TEST_F(CacheTest, BadArgumentsNameWhatIsWrongAndChangeNothing) {
  Open();
  const auto message = [&](std::string_view key, SetOptions options) {
    const Status status = Set(key, "v", options);
    EXPECT_FALSE(status);
    return status ? "" : status.error().message;
  };
  EXPECT_THAT(message("", {}), HasSubstr("key is empty"));
  EXPECT_THAT(message(std::string(kKeyBytesMax + 1, 'k'), {}), HasSubstr("65537 bytes"));
  EXPECT_THAT(message("k", {.tokens = -1}), HasSubstr("-1 tokens"));
  EXPECT_THAT(message("k", {.tokens = kTokensMax + 1}), HasSubstr("from 0 to"));
  const std::string long_agent(kAgentBytesMax + 1, 'a');
  EXPECT_THAT(message("k", {.agent = long_agent}), HasSubstr("agent"));
  const std::string long_meta(kMetaBytesMax + 1, 'm');
  EXPECT_THAT(message("k", {.meta = long_meta}), HasSubstr("meta"));
  const std::string long_parent(kKeyBytesMax + 1, 'p');
  EXPECT_THAT(message("k", {.parent = long_parent}), HasSubstr("parent"));
  EXPECT_THAT(message("k", {.ttl = Duration(0)}), HasSubstr("ttl"));
  EXPECT_EQ(cache_->size(), 0U);
  EXPECT_FALSE(cache_->Erase(""));
  EXPECT_FALSE(cache_->Contains(""));
  EXPECT_EQ(Get(""), "(miss)");
}

TEST_F(CacheTest, AnEntryKeepsItsFacts) {
  Open();
  ASSERT_TRUE(Set("k", "v", {.tokens = 7, .agent = "planner", .meta = "m"}));
  auto lease = cache_->Get("k");
  ASSERT_TRUE(lease && *lease);
  EXPECT_EQ((*lease)->tokens(), 7);
  EXPECT_EQ((*lease)->agent(), "planner");
  EXPECT_EQ((*lease)->meta(), "m");
  EXPECT_GT((*lease)->generation(), 0U);
  ASSERT_TRUE(Set("context:coder", "v"));
  EXPECT_EQ((**cache_->Get("context:coder")).agent(), "coder");
  EXPECT_EQ(Lease().tokens(), 0);
  EXPECT_EQ(Lease().agent(), "");
}

// --- leases and generations ---

TEST_F(CacheTest, ALeaseOutlivesReplaceEraseAndClear) {
  Open();
  const std::string big(100'000, 'a');
  ASSERT_TRUE(Set("k", big));
  Lease first = std::move(**cache_->Get("k"));
  ASSERT_TRUE(Set("k", "second"));
  Lease second = std::move(**cache_->Get("k"));
  EXPECT_TRUE(cache_->Erase("k"));
  ASSERT_TRUE(Set("k", "third"));
  Lease third = std::move(**cache_->Get("k"));
  cache_->Clear();
  EXPECT_EQ(first.text(), big);
  EXPECT_EQ(second.text(), "second");
  EXPECT_EQ(third.text(), "third");
  EXPECT_LT(first.generation(), second.generation());
  EXPECT_EQ(cache_->size(), 0U);
  EXPECT_EQ(cache_->stats().device.bytes, 100'000U + 6 + 5);
  first.Release();
  EXPECT_EQ(cache_->stats().device.bytes, 11U);
  second = Lease();
  third = Lease();
  EXPECT_EQ(cache_->stats().device.bytes, 0U);
  EXPECT_THAT(Left(), ElementsAre("k:destroy:replaced", "k:destroy:erased", "k:destroy:cleared"));
}

TEST_F(CacheTest, ALeaseOutlivesTheCache) {
  Open();
  ASSERT_TRUE(Set("a", "still here"));
  ASSERT_TRUE(Set("b", "too"));
  Lease a = std::move(**cache_->Get("a"));
  Lease b = std::move(**cache_->Get("b"));
  cache_.reset();
  EXPECT_EQ(a.text(), "still here");
  a.Release();
  EXPECT_EQ(b.text(), "too");
}

TEST_F(CacheTest, LeasedEntriesStayThroughEmergency) {
  Open();
  ASSERT_TRUE(Set("held", "1"));
  ASSERT_TRUE(Set("idle", "2"));
  Lease held = std::move(**cache_->Get("held"));
  clock_->Advance(seconds(31));
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre("idle:destroy:idle"));
  EXPECT_EQ(held.text(), "1");
  held.Release();
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre("held:destroy:idle"));
}

TEST_F(CacheTest, GetManyLeasesWhatIsThere) {
  Open();
  for (int i = 0; i < 100; i += 2) ASSERT_TRUE(Set("key" + std::to_string(i), std::to_string(i)));
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("key" + std::to_string(i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Lease> leases(keys.size());
  EXPECT_EQ(cache_->GetMany(keys.data(), keys.size(), leases.data()), 50U);
  for (int i = 0; i < 100; ++i) {
    const auto& lease = leases[static_cast<std::size_t>(i)];
    EXPECT_EQ(static_cast<bool>(lease), i % 2 == 0);
    EXPECT_EQ(lease.text(), i % 2 == 0 ? std::to_string(i) : "");
  }
  EXPECT_EQ(cache_->stats().leases, 50U);
}

// --- lineage ---

TEST_F(CacheTest, MatchIsTheLongestLeadingRun) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  ASSERT_TRUE(Set("b", "2", {.parent = "a"}));
  ASSERT_TRUE(Set("c", "3", {.parent = "b"}));
  EXPECT_EQ(cache_->Match({"a", "b", "c"}), 3U);
  EXPECT_EQ(cache_->Match({"a", "b", "x", "c"}), 2U);
  EXPECT_EQ(cache_->Match({"x", "a"}), 0U);
  EXPECT_EQ(cache_->Match({}), 0U);
  EXPECT_EQ(cache_->GetChain({"a", "b", "c", "d"}).size(), 3U);
}

TEST_F(CacheTest, MatchStopsWhereALinkIsMissing) {
  Open();
  ASSERT_TRUE(Set("b", "2", {.parent = "a"}));  // No parent present: no link.
  ASSERT_TRUE(Set("a", "1"));
  EXPECT_EQ(cache_->Match({"a", "b"}), 1U);
  ASSERT_TRUE(Set("b", "2", {.parent = "a"}));
  EXPECT_EQ(cache_->Match({"a", "b"}), 2U);
  ASSERT_TRUE(Set("a", "new"));  // Another generation: the chain ends.
  EXPECT_EQ(cache_->Match({"a", "b"}), 1U);
  EXPECT_EQ(Get("b"), "2");
}

TEST_F(CacheTest, ChildrenLeaveBeforeTheirParents) {
  Open();
  ASSERT_TRUE(Set("root", "1", {.tokens = 1000}));
  ASSERT_TRUE(Set("leaf", "2", {.tokens = 1, .parent = "root"}));
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("leaf", "root"));
  Lease leaf = std::move(**cache_->Get("leaf"));
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre());
  clock_->Advance(seconds(31));
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre());
  leaf.Release();
  clock_->Advance(seconds(31));
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre("leaf:destroy:idle", "root:destroy:idle"));
}

// --- batches ---

TEST_F(CacheTest, ABatchDoesEachOnItsOwnAndCompletesOnce) {
  Open();
  const std::string big(100'000, 'b');
  std::vector<Operation> operations(6);
  operations[0].kind = Operation::Kind::kSet;
  operations[0].key = "a";
  operations[0].source = Source("1", 1);
  operations[1].kind = Operation::Kind::kSet;
  operations[1].key = "";
  operations[2].kind = Operation::Kind::kSet;
  operations[2].key = "big";
  operations[2].source = Source(big);
  operations[3].kind = Operation::Kind::kGet;
  operations[3].key = "a";
  operations[4].kind = Operation::Kind::kErase;
  operations[4].key = "nothing";
  operations[5].kind = Operation::Kind::kTouch;
  operations[5].key = "a";
  int completions = 0;
  std::promise<void> done;
  cache_->Submit(operations.data(), operations.size(), seconds(10), Completion([&] {
                   ++completions;
                   done.set_value();
                 }));
  ASSERT_EQ(done.get_future().wait_for(seconds(20)), std::future_status::ready);
  EXPECT_EQ(completions, 1);
  EXPECT_TRUE(operations[0].status);
  EXPECT_EQ(operations[1].status.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(operations[2].status);
  EXPECT_EQ(operations[3].lease.text(), "1");
  EXPECT_FALSE(operations[4].found);
  EXPECT_TRUE(operations[5].found);
  EXPECT_EQ(Get("big"), big);
}

TEST_F(CacheTest, ABatchCanCompleteByEventFd) {
  Open();
  ASSERT_TRUE(Set("a", "12345"));
  const int fd = eventfd(0, 0);
  std::string out(8, '.');
  Operation get;
  get.key = "a";
  get.get.into = Sink(out.data(), out.size());
  cache_->Submit(&get, 1, seconds(1), Completion::EventFd(fd));
  pollfd ready{fd, POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 20'000), 1);
  std::uint64_t count = 0;
  ASSERT_EQ(read(fd, &count, sizeof count), 8);
  close(fd);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(get.bytes, 5U);
  EXPECT_EQ(out, "12345...");
}

TEST_F(CacheTest, ABatchPastItsDeadlineChangesNothing) {
  Open();
  Operation set;
  set.kind = Operation::Kind::kSet;
  set.key = "a";
  set.source = Source("1", 1);
  std::promise<void> done;
  cache_->Submit(&set, 1, Duration(-1), Completion([&] { done.set_value(); }));
  done.get_future().wait();
  EXPECT_EQ(set.status.error().code, Code::kDeadline);
  EXPECT_EQ(cache_->size(), 0U);
}

// --- answers ---

TEST_F(CacheTest, StatsCountHitsFromTheLeaseWords) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  ASSERT_TRUE(Set("b", "2"));
  for (int i = 0; i < 3; ++i) Get("a");
  Get("b");
  Get("nothing");
  EXPECT_EQ(cache_->stats().hits, 4U);
  cache_->Erase("a");
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.hits, 4U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.sets, 2U);
  EXPECT_EQ(stats.entries, 1U);
  EXPECT_EQ(stats.removed_by_reason[static_cast<int>(Reason::kErased)], 1U);
  EXPECT_EQ(stats.device.capacity, kMiB);
  EXPECT_GT(stats.index_bytes, 0U);
}

TEST_F(CacheTest, ExplainTellsWhereAndWhy) {
  Open();
  EXPECT_THAT(cache_->Explain("a"), HasSubstr("never set"));
  ASSERT_TRUE(Set("a", "1", {.tokens = 9}));
  EXPECT_THAT(cache_->Explain("a"), HasSubstr("'a' is in the device tier: 1 bytes, 9 tokens"));
  ASSERT_TRUE(Set("b", "2", {.parent = "a"}));
  EXPECT_THAT(cache_->Explain("a"), HasSubstr("only after the entries that continue it"));
  Lease lease = std::move(**cache_->Get("b"));
  EXPECT_THAT(cache_->Explain("b"), HasSubstr("while it is leased"));
  lease.Release();
  clock_->Advance(seconds(31));
  cache_->Apply(0.97);
  clock_->Advance(seconds(10));
  EXPECT_THAT(cache_->Explain("a"),
              HasSubstr("removed from the device tier 10.0 s ago: destroy (idle)"));
  EXPECT_THAT(cache_->Explain("a"), HasSubstr("level emergency"));
}

TEST_F(CacheTest, ForEachShowsEveryLiveEntry) {
  Open();
  ASSERT_TRUE(Set("a", "12", {.tokens = 3, .agent = "x"}));
  ASSERT_TRUE(Set("gone", "1"));
  cache_->Erase("gone");
  Get("a");
  clock_->Advance(seconds(2));
  int count = 0;
  cache_->ForEach([&](const Cache::EntryInfo& info) {
    ++count;
    EXPECT_EQ(info.key, "a");
    EXPECT_EQ(info.agent, "x");
    EXPECT_EQ(info.bytes, 2U);
    EXPECT_EQ(info.tokens, 3);
    EXPECT_EQ(info.access_count, 2U);
    EXPECT_EQ(info.idle, Duration(seconds(2)));
    EXPECT_EQ(info.leases, 0U);
    EXPECT_FALSE(info.offloaded);
  });
  EXPECT_EQ(count, 1);
}

// --- opening ---

TEST_F(CacheTest, BadOptionsAreRefusedByName) {
  const auto refused = [&](auto change) {
    options_ = Options();
    options_.capacity = kMiB;
    change(options_);
    auto cache = Cache::Open(WithWorld());
    EXPECT_FALSE(cache);
    return cache ? "" : cache.error().message;
  };
  EXPECT_THAT(refused([](Options& o) { o.capacity = 0; }), HasSubstr("capacity is 0"));
  EXPECT_THAT(refused([](Options& o) { o.device = "tpu"; }), HasSubstr("'tpu'"));
  EXPECT_THAT(refused([](Options& o) { o.policy = "best"; }), HasSubstr("'best'"));
  EXPECT_THAT(refused([](Options& o) { o.thresholds.normal = 0.9; }),
              HasSubstr("thresholds.pressure"));
  EXPECT_THAT(refused([](Options& o) { o.token_budget = -1; }), HasSubstr("token_budget"));
  EXPECT_THAT(refused([](Options& o) { o.ttl = Duration(0); }), HasSubstr("ttl"));
  EXPECT_THAT(refused([](Options& o) { o.idle_normal = Duration(-1); }), HasSubstr("idle_normal"));
  EXPECT_THAT(refused([](Options& o) { o.sample_period = Duration(1); }),
              HasSubstr("sample_period"));
  EXPECT_THAT(refused([](Options& o) { o.reclaim_slice = Duration(0); }),
              HasSubstr("reclaim_slice"));
  EXPECT_THAT(refused([](Options& o) { o.reserve = 0.5; }), HasSubstr("reserve"));
  EXPECT_THAT(refused([](Options& o) { o.entries_max = 0; }), HasSubstr("entries_max"));
}

TEST_F(CacheTest, EntriesMaxAndNamesAreBounds) {
  options_.entries_max = 3;
  options_.names_bytes_max = 100;
  Open();
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(Set(key, "v"));
    clock_->Advance(seconds(1));
  }
  EXPECT_THAT(Left(), ElementsAre("a:destroy:room"));
  ASSERT_TRUE(Set(std::string(60, 'x'), "v"));
  Left();
  ASSERT_TRUE(Set(std::string(60, 'y'), "v"));
  EXPECT_THAT(Left(), ElementsAre("c:destroy:room", ::testing::StartsWith("xxx")));
  EXPECT_EQ(Set(std::string(101, 'z'), "v").error().code, Code::kBlocked);
}

}  // namespace
}  // namespace spillway
