// The public API, on the embedded cpu device with time and pressure by hand.
#include "spillway/cache.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spillway/testing.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bytes kThird = 96 * kKiB;

struct Seen {
  std::string key;
  Action action;
  Reason reason;
  Level level;
  std::string order;
};

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() { options_.capacity = kMiB; }

  Options WithWorld() {
    Options options = options_;
    options.clock = clock_;
    options.pressure = pressure_;
    options.on_event = [this](const Event& event) {
      events_.push_back({std::string(event.key), event.action, event.reason, event.level,
                         std::string(event.order)});
    };
    return options;
  }
  Cache& Open() {
    auto cache = Cache::Open(WithWorld());
    if (!cache) throw std::runtime_error(cache.error().message);
    cache_ = std::move(*cache);
    return *cache_;
  }
  Status Set(std::string_view key, std::string_view value, SetOptions options = {}) {
    return cache_->Set(key, Source(value), options);
  }
  std::string Get(std::string_view key) {
    auto got = cache_->Get(key);
    if (!got || !*got) return "(miss)";
    return std::string((*got)->text());
  }
  std::vector<std::string> Left() {
    std::vector<std::string> out;
    for (const Seen& seen : events_) {
      out.push_back(seen.key + ":" + std::string(Name(seen.action)) + ":" +
                    std::string(Name(seen.reason)));
    }
    events_.clear();
    return out;
  }

  std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
  std::shared_ptr<testing::ManualPressure> pressure_ =
      std::make_shared<testing::ManualPressure>(kMiB);
  Options options_;
  std::vector<Seen> events_;
  std::unique_ptr<Cache> cache_;
};

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
  EXPECT_THAT(cache_->LeavingOrder(), ElementsAre("leaf", "root"));
  Lease leaf = std::move(**cache_->Get("leaf"));
  EXPECT_THAT(cache_->LeavingOrder(), ElementsAre());
  clock_->Advance(seconds(31));
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre());
  leaf.Release();
  clock_->Advance(seconds(31));
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre("leaf:destroy:idle", "root:destroy:idle"));
}

// --- room, budget, ttl ---

TEST_F(CacheTest, RoomIsMadeByLastUseAndNoMoreThanIsLacking) {
  options_.capacity = 300 * kKiB;  // Three of kThird fit, four do not.
  Open();
  const std::string value(kThird, 'v');
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(Set(key, value));
    clock_->Advance(seconds(1));
  }
  Get("a");
  ASSERT_TRUE(Set("d", value));
  EXPECT_THAT(Left(), ElementsAre("b:destroy:room"));
}

TEST_F(CacheTest, ReplacingInAFullTierCostsNobodyElse) {
  options_.capacity = 300 * kKiB;  // Three of kThird fit, four do not.
  Open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Set(key, std::string(kThird, key[0])));
  ASSERT_TRUE(Set("c", std::string(kThird, 'C')));
  EXPECT_THAT(Left(), ElementsAre("c:destroy:replaced"));
  EXPECT_EQ(Get("c"), std::string(kThird, 'C'));
}

TEST_F(CacheTest, FullOfLeasesMeansBlockedAndNothingIsLost) {
  options_.capacity = 300 * kKiB;  // Three of kThird fit, four do not.
  Open();
  const std::string value(kThird, 'v');
  ASSERT_TRUE(Set("a", value));
  ASSERT_TRUE(Set("b", value));
  ASSERT_TRUE(Set("c", value));
  Lease a = std::move(**cache_->Get("a"));
  Lease b = std::move(**cache_->Get("b"));
  const Status status = Set("d", std::string(2 * kThird, 'd'));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kBlocked);
  EXPECT_THAT(status.error().message, HasSubstr("is full"));
  EXPECT_EQ(cache_->size(), 3U);
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(CacheTest, TheTokenBudgetMakesRoomOrRefuses) {
  options_.token_budget = 100;
  Open();
  ASSERT_TRUE(Set("zero", "z", {.tokens = 0}));
  ASSERT_TRUE(Set("a", "1", {.tokens = 60}));
  clock_->Advance(seconds(1));
  ASSERT_TRUE(Set("b", "2", {.tokens = 40}));
  ASSERT_TRUE(Set("c", "3", {.tokens = 10}));
  EXPECT_THAT(Left(), ElementsAre("a:destroy:budget"));  // Not "zero": it would not help.
  EXPECT_EQ(cache_->total_tokens(), 50);
  ASSERT_TRUE(Set("c", "3", {.tokens = 60}));  // Its old tokens count no more.
  EXPECT_THAT(Left(), ElementsAre("c:destroy:replaced"));
  Lease b = std::move(**cache_->Get("b"));
  Lease c = std::move(**cache_->Get("c"));
  const Status status = Set("d", "4", {.tokens = 10});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kOverBudget);
  EXPECT_EQ(Set("e", "5", {.tokens = 101}).error().code, Code::kOverBudget);
  EXPECT_EQ(cache_->stats().refused_budget, 2U);
}

TEST_F(CacheTest, IdleEntriesExpireAndUsedOnesDoNot) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  ASSERT_TRUE(Set("b", "2"));
  clock_->Advance(minutes(6));
  EXPECT_EQ(Get("b"), "2");
  clock_->Advance(minutes(4));
  cache_->Apply(0.0);  // a is idle for exactly the ttl: not longer.
  EXPECT_THAT(Left(), ElementsAre());
  clock_->Advance(Duration(1));
  cache_->Apply(0.0);
  EXPECT_THAT(Left(), ElementsAre("a:expire:expired"));
}

TEST_F(CacheTest, AnEntrysOwnTtlEndsItWhoeverReadsIt) {
  Open();
  ASSERT_TRUE(Set("a", "1", {.ttl = seconds(5)}));
  ASSERT_TRUE(Set("b", "2", {.parent = "a"}));
  clock_->Advance(seconds(4));
  EXPECT_EQ(Get("a"), "1");
  Lease lease = std::move(**cache_->Get("a"));
  clock_->Advance(seconds(1));
  EXPECT_FALSE(cache_->Contains("a"));
  EXPECT_EQ(Get("a"), "(miss)");
  EXPECT_EQ(lease.text(), "1");
  EXPECT_THAT(Left(), ElementsAre("a:expire:expired"));
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(cache_->Match({"a", "b"}), 0U);
}

// --- pressure ---

TEST_F(CacheTest, EmergencyRefusesSetsAndNothingElse) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  EXPECT_EQ(cache_->Apply(0.96).level, Level::kEmergency);
  EXPECT_TRUE(cache_->is_blocked());
  const Status status = Set("b", "2");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kBlocked);
  EXPECT_THAT(status.error().message, HasSubstr("emergency"));
  EXPECT_EQ(Get("a"), "1");
  EXPECT_TRUE(cache_->Touch("a"));
  EXPECT_TRUE(cache_->Erase("a"));
  EXPECT_EQ(cache_->stats().refused_blocked, 1U);
}

TEST_F(CacheTest, PressureTakesTheHeaviestUntilItsTarget) {
  Open();
  const std::string value(kMiB / 10, 'v');
  ASSERT_TRUE(Set("light", value, {.tokens = 10}));
  ASSERT_TRUE(Set("heavy", value, {.tokens = 1000}));
  ASSERT_TRUE(Set("used", value, {.tokens = 1500}));
  Get("used");
  Get("used");
  const Applied applied = cache_->Apply(0.90);
  ASSERT_EQ(applied.left.size(), 1U);
  EXPECT_EQ(applied.left[0].key, "heavy");
  EXPECT_EQ(events_.at(0).order, "heavy");
  EXPECT_NEAR(*cache_->pressure(), 0.80, 1e-5);
}

TEST_F(CacheTest, UnknownPressureStopsGrowthAndKeepsTheLevel) {
  Open();
  ASSERT_TRUE(Set("a", std::string(1000, 'a')));
  pressure_->Set(std::nullopt);
  cache_->Apply();
  EXPECT_EQ(cache_->pressure(), std::nullopt);
  EXPECT_EQ(cache_->level(), Level::kRelaxed);
  ASSERT_TRUE(Set("b", std::string(1000, 'b')));
  EXPECT_THAT(Left(), ElementsAre("a:destroy:room"));
  EXPECT_EQ(Set("c", std::string(1001, 'c')).error().code, Code::kBlocked);
  EXPECT_EQ(cache_->stats().samples_failed, 1U);
  pressure_->Set(0.1);
  cache_->Apply();
  EXPECT_TRUE(Set("c", std::string(1001, 'c')));
}

TEST_F(CacheTest, UnknownPressureBringsAnOverfullTierBack) {
  Open();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(Set("k" + std::to_string(i), std::string(kMiB / 10, 'x')));
  pressure_->Set(std::nullopt);
  cache_->Apply();
  EXPECT_EQ(cache_->size(), 8U);
}

TEST_F(CacheTest, StartSensesAndStopForgets) {
  options_.sample_period = milliseconds(1);
  Options options = WithWorld();
  options.clock = nullptr;
  cache_ = std::move(*Cache::Open(options));
  pressure_->Set(0.97);
  EXPECT_FALSE(cache_->is_blocked());  // Nobody senses yet.
  ASSERT_TRUE(cache_->Start());
  ASSERT_TRUE(cache_->Start());
  // The sampler works in real time; another 20 s would mean that it does not.
  for (int i = 0; i < 20'000 && !cache_->is_blocked(); ++i) usleep(1000);  // real world: a thread
  EXPECT_TRUE(cache_->is_blocked());
  cache_->Stop();
  cache_->Stop();
  EXPECT_FALSE(cache_->is_blocked());
  EXPECT_TRUE(Set("a", "1"));
}

TEST_F(CacheTest, ReclaimSaysWhyItFreesNothing) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  const Reclaimed reclaimed = cache_->Reclaim(100, seconds(1));
  EXPECT_EQ(reclaimed.freed, 0U);
  EXPECT_THAT(reclaimed.why_not_more, HasSubstr("never destroys"));
  EXPECT_EQ(cache_->Reclaim(0, seconds(1)).why_not_more, "");
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(CacheTest, HybridCountsEachAccessAsTenSeconds) {
  options_.policy = "hybrid";
  options_.capacity = 2 * kThird;
  Open();
  const std::string value(kThird, 'v');
  ASSERT_TRUE(Set("often", value));
  Get("often");
  Get("often");  // Worth 30 s by now.
  clock_->Advance(seconds(15));
  ASSERT_TRUE(Set("late", value));  // 15 s + 10 s.
  ASSERT_TRUE(Set("new", value));
  EXPECT_THAT(Left(), ElementsAre("late:destroy:room"));
}

TEST_F(CacheTest, NormalWithHybridTakesTheIdleInItsOrder) {
  options_.policy = "hybrid";
  Open();
  const std::string value(kMiB / 20, 'v');
  ASSERT_TRUE(Set("often", value));
  for (int i = 0; i < 3; ++i) Get("often");
  clock_->Advance(seconds(5));
  ASSERT_TRUE(Set("once", value));
  clock_->Advance(seconds(121));
  ASSERT_TRUE(Set("fresh", value));
  cache_->Apply(0.71);
  EXPECT_THAT(Left(), ElementsAre("once:destroy:idle"));
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
  EXPECT_EQ(stats.left_by_reason[static_cast<int>(Reason::kErased)], 1U);
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
  EXPECT_THAT(cache_->Explain("a"), HasSubstr("left the device tier 10.0 s ago: destroy (idle)"));
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
