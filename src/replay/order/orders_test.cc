// SPDX-License-Identifier: Apache-2.0
// The contract of all orders, and how they differ.
#include "replay/order/orders.h"

#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/replay.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

// A random trace: sessions whose chains grow, branch and share a beginning.
Trace RandomTrace(std::uint64_t seed, std::size_t requests, std::size_t longest) {
  std::mt19937_64 dice(seed);
  TraceBuilder builder(1);
  std::map<std::uint64_t, std::vector<std::uint64_t>> sessions;
  for (std::size_t i = 0; i < requests; ++i) {
    const std::uint64_t session = dice() % 12;
    auto& chain = sessions[session];
    if (chain.empty()) chain = {0, 1000 + session};
    if (dice() % 4 == 0) chain.resize(1 + dice() % chain.size());
    for (std::size_t more = dice() % 4; more > 0 && chain.size() < longest; --more) {
      chain.push_back(dice() % 3 + 10);
    }
    TraceRequest request;
    request.at_ms = static_cast<std::int64_t>(i * 1000 + dice() % 900);
    request.session = session;
    request.state = static_cast<std::uint32_t>(session % 3);
    request.tokens = chain.size() * 16;
    builder.Add(request, builder.StreamOf("").number, 0, chain, 0);
  }
  Trace trace = builder.Finish();
  trace.block_tokens = 16;
  return trace;
}

std::unique_ptr<BlockCache> Make(std::string_view name, std::size_t capacity) {
  return std::move(MakeReplayPolicy(name, capacity, 16).value());
}

std::uint64_t Hits(const Trace& trace, std::string_view name, std::size_t capacity) {
  const auto cache = Make(name, capacity);
  return Replay(trace, MakeFlags(trace, {}, 1), NextUses(trace), cache.get(), {}).hit_tokens;
}

class EveryOrder : public ::testing::TestWithParam<std::string_view> {};

// Serves the whole trace; `check` is called before and after each request.
template <typename Before, typename After>
void Serve(const Trace& trace, BlockCache* cache, Before&& before, After&& after) {
  const auto next_uses = NextUses(trace);
  std::size_t at = 0;
  TraceWalk walk(trace);
  while (walk.more()) {
    const std::size_t number = walk.next();
    Visit visit;
    visit.chain = walk.Next();
    visit.now_s = static_cast<double>(trace.requests[number].at_ms) / 1000;
    visit.session = trace.requests[number].session;
    visit.number = static_cast<std::uint32_t>(number);
    visit.next_use = std::span(next_uses).subspan(at, visit.chain.size());
    at += visit.chain.size();
    before(visit);
    after(visit, cache->Serve(visit));
  }
}

TEST_P(EveryOrder, NeverHoldsMoreThanItMayAndHitsOnlyWhatItHolds) {
  for (const std::size_t capacity : {1UL, 2UL, 7UL, 20UL, 1000UL}) {
    const Trace trace = RandomTrace(capacity, 2000, 12);
    const auto cache = Make(GetParam(), capacity);
    std::size_t held = 0;
    Serve(
        trace, cache.get(),
        [&](const Visit& visit) {
          held = 0;
          while (held < visit.chain.size() && cache->Holds(visit.chain[held])) ++held;
        },
        [&](const Visit&, std::size_t run) {
          ASSERT_LE(cache->size(), capacity);
          if (GetParam() == "seed") {  // This order shares nothing between sessions.
            ASSERT_LE(run, held);
          } else {
            ASSERT_EQ(run, held);
          }
        });
    std::size_t count = 0;
    for (BlockId block = 0; block < trace.unique_blocks; ++block) count += cache->Holds(block);
    if (GetParam() != "seed") {  // This order may hold two copies.
      EXPECT_EQ(count, cache->size());
    }
    EXPECT_GE(cache->entered(), cache->size() > 0 ? 1U : 0U);
  }
}

TEST_P(EveryOrder, ARequestThatFitsIsThereAfterwards) {
  const Trace trace = RandomTrace(3, 2000, 12);
  const auto cache = Make(GetParam(), 14);
  Serve(
      trace, cache.get(), [](const Visit&) {},
      [&](const Visit& visit, std::size_t) {
        std::size_t there = 0;
        while (there < visit.chain.size() && cache->Holds(visit.chain[there])) ++there;
        ASSERT_EQ(there, visit.chain.size());
      });
}

TEST_P(EveryOrder, WithRoomForAllItHitsWhatWasEverSeen) {
  const Trace trace = RandomTrace(4, 1500, 30);
  const auto cache = Make(GetParam(), trace.unique_blocks);
  const ReplayResult result =
      Replay(trace, MakeFlags(trace, {}, 1), NextUses(trace), cache.get(), {});
  if (GetParam() == "seed") {  // This order shares nothing between sessions.
    EXPECT_LT(result.saved_ratio(), 1);
    return;
  }
  EXPECT_DOUBLE_EQ(result.saved_ratio(), 1);
  EXPECT_EQ(cache->entered(), trace.unique_blocks);
}

TEST_P(EveryOrder, IsTheSameEveryTime) {
  const Trace trace = RandomTrace(5, 3000, 10);
  EXPECT_EQ(Hits(trace, GetParam(), 25), Hits(trace, GetParam(), 25));
}

TEST_P(EveryOrder, NobodyNotToldTheFutureBeatsBelady) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace = RandomTrace(seed, 800, 10);
    for (const std::size_t capacity : {10UL, 16UL, 30UL, 60UL}) {
      EXPECT_LE(Hits(trace, GetParam(), capacity), Hits(trace, "belady", capacity))
          << "seed " << seed << " capacity " << capacity;
    }
  }
}

TEST_P(EveryOrder, TakesEmptyAndTooLongRequests) {
  const auto cache = Make(GetParam(), 4);
  const std::vector<BlockId> chain = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::uint32_t> again(8, 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    Visit visit;
    visit.number = i;
    visit.now_s = i;
    visit.session = 1;
    EXPECT_EQ(cache->Serve(visit), 0U);
    visit.chain = chain;
    visit.next_use = again;
    EXPECT_LE(cache->Serve(visit), 4U);
    EXPECT_LE(cache->size(), 4U);
  }
}

// A request larger than the cache keeps its beginning: inserting the rest would evict the blocks it
// continues, and all would be lost.
TEST_P(EveryOrder, ARequestThatIsTooLargeKeepsItsBeginning) {
  if (GetParam() == "seed") return;  // This order keeps whole contexts.
  const auto cache = Make(GetParam(), 6);
  std::vector<BlockId> chain(30);
  for (std::size_t i = 0; i < chain.size(); ++i) chain[i] = static_cast<BlockId>(i);
  const std::vector<std::uint32_t> again(chain.size(), 100);
  for (std::uint32_t i = 0; i < 60; ++i) {
    Visit visit;
    visit.number = i;
    visit.now_s = 10.0 * i;
    visit.session = 1;
    visit.chain = chain;
    const std::vector<std::uint32_t> next(chain.size(), i + 1);
    visit.next_use = next;
    ASSERT_EQ(cache->Serve(visit), i == 0 ? 0U : 6U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOrder, ::testing::ValuesIn([] {
                           const auto names = ReplayPolicyNames();
                           return std::vector<std::string_view>(names.begin(), names.end());
                         }()),
                         [](const auto& order) {
                           std::string name(order.param);
                           std::erase(name, '-');
                           return name;
                         });

// Serves single blocks, one after another, and shows which were hits.
std::string HitsOf(std::string_view name, std::size_t capacity, const std::string& uses) {
  const auto cache = Make(name, capacity);
  std::string hits;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const BlockId block = static_cast<BlockId>(uses[i] - 'a');
    const std::size_t next = uses.find(uses[i], i + 1);
    const std::uint32_t next_use =
        next == std::string::npos ? kNeverAgain : static_cast<std::uint32_t>(next);
    Visit visit;
    visit.chain = {&block, 1};
    visit.now_s = static_cast<double>(i);
    visit.session = block;
    visit.number = static_cast<std::uint32_t>(i);
    visit.next_use = {&next_use, 1};
    hits += cache->Serve(visit) == 1 ? '+' : '.';
  }
  return hits;
}

TEST(Orders, DecideAsWorkedOutByHand) {
  //                                           abcadabca
  EXPECT_EQ(HitsOf("lru", 3, "abcadabca"), "...+.+..+");     // d evicts b: b and c miss.
  EXPECT_EQ(HitsOf("belady", 3, "abcadabca"), "...+.++.+");  // d replaces c, not b.
  EXPECT_EQ(HitsOf("lfu", 3, "aabbcdcd"), ".+.+....");       // c and d replace each other.
  EXPECT_EQ(HitsOf("lru-2", 3, "aabbcdab"), ".+.+..++");
  EXPECT_EQ(HitsOf("arc", 3, "aabbcdab"), ".+.+..++");
  EXPECT_EQ(HitsOf("documented", 3, "aabbcdab"), ".+.+..++");  // Few uses weigh most.
  EXPECT_EQ(HitsOf("lru", 3, "aabbcdab"), ".+.+....");
}

// The LRU fallback of the learned score: entries that used to return never do any more, and entries
// that never did always do.
TEST(Orders, TheScoreGivesWayToLastUseWhereWhatItLearntIsWrong) {
  const auto hits = [](std::string_view name) {
    const auto cache = Make(name, 30);
    std::size_t sum = 0;
    std::uint32_t number = 0;
    const auto use = [&](std::uint64_t session, double now, std::uint32_t state) {
      std::vector<BlockId> chain(10);
      for (std::uint32_t i = 0; i < 10; ++i) chain[i] = static_cast<BlockId>(session * 10 + i);
      Visit visit;
      visit.chain = chain;
      visit.now_s = now;
      visit.session = session;
      visit.state = state;
      visit.number = number++;
      return cache->Serve(visit);
    };
    std::uint64_t session = 1;
    double now = 0;
    for (int i = 0; i < 9000; ++i, session += 3, now += 4) {
      const bool turned = i >= 1000;
      const std::uint32_t back = turned ? 2 : 1;
      use(session, now, back);
      use(session + 1, now + 1, 3 - back);
      use(session + 2, now + 2, 3 - back);
      const std::size_t hit = use(session, now + 3, 3 - back);
      if (turned) sum += hit;
    }
    return sum;
  };
  // The score is tried again from time to time, less and less often.
  EXPECT_GE(hits("score") + hits("lru") / 8, hits("lru"));
}

TEST(Orders, AnUnknownNameListsTheKnown) {
  const auto made = MakeReplayPolicy("lruu", 1, 1);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("'lruu' is not known; known: score"));
  EXPECT_THAT(made.error().message, HasSubstr("did you mean 'lru'?"));
}

}  // namespace
}  // namespace spillway
