#include "policy/chain_score.h"

#include <random>

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr ChainScore::Settings kAlone{.guarded = false};

std::size_t Use(BlockCache* cache, const std::vector<BlockId>& chain, double now,
                std::uint64_t session, std::uint32_t state = 0, bool done = false) {
  Visit visit;
  visit.chain = chain;
  visit.now_s = now;
  visit.session = session;
  visit.state = state;
  visit.done = done;
  return cache->Serve(visit);
}

// Sessions of `length` blocks, each of its own.
std::vector<BlockId> Chain(std::uint64_t session, std::uint32_t length) {
  std::vector<BlockId> chain(length);
  for (std::uint32_t i = 0; i < length; ++i) {
    chain[i] = static_cast<BlockId>(session * 100 + i);
  }
  return chain;
}

TEST(ChainScore, KnowingNothingItIsLru) {
  ChainScore score(6, kAlone);
  Use(&score, {0, 1, 2}, 0, 1);
  Use(&score, {10, 11, 12}, 100, 2);
  Use(&score, {20}, 200, 3);
  EXPECT_FALSE(score.Holds(2));  // The deepest of the oldest.
  EXPECT_TRUE(score.Holds(0));
  EXPECT_TRUE(score.Holds(1));
  EXPECT_TRUE(score.Holds(12));
  EXPECT_EQ(Use(&score, {0, 1, 2}, 210, 1), 2U);
}

TEST(ChainScore, LearnsWhichStateComesBackAndKeepsIt) {
  ChainScore score(30, kAlone);
  double now = 0;
  std::uint64_t session = 1;
  // State 1 is back after 20 s, state 2 never.
  for (int i = 0; i < 200; ++i) {
    Use(&score, Chain(session, 10), now, session, 1);
    Use(&score, Chain(session + 1, 10), now + 1, session + 1, 2);
    Use(&score, Chain(session, 10), now + 20, session, 2);
    session += 2;
    now += 25;
  }
  const std::uint64_t waits = session;
  const std::uint64_t gone = session + 1;
  Use(&score, Chain(waits, 10), now, waits, 1);
  Use(&score, Chain(gone, 10), now + 8, gone, 2);  // Younger, and still the one to leave.
  Use(&score, Chain(session + 2, 20), now + 10, session + 2, 1);
  EXPECT_EQ(Use(&score, Chain(waits, 10), now + 20, waits, 1), 10U);
  EXPECT_FALSE(score.Holds(Chain(gone, 10).back()));
}

TEST(ChainScore, ADoneSessionLeavesFirstButNotWhatOthersUse) {
  ChainScore score(60, kAlone);
  double now = 0;
  // Teach it that sessions are back unless they are done.
  for (std::uint64_t s = 10; s < 110; ++s) {
    std::vector<BlockId> chain = Chain(s, 10);
    chain[0] = 0;  // All share a beginning.
    Use(&score, chain, now, s);
    now += 10;
    Use(&score, chain, now, s, 0, true);
    now += 1;
  }
  std::vector<BlockId> stays = Chain(200, 10);
  std::vector<BlockId> ends = Chain(201, 10);
  stays[0] = ends[0] = 0;
  Use(&score, stays, now, 200);
  Use(&score, ends, now + 1, 201, 0, true);
  std::vector<BlockId> large = Chain(300, 50);
  large[0] = 0;
  Use(&score, large, now + 2, 300);
  EXPECT_TRUE(score.Holds(0));
  EXPECT_TRUE(score.Holds(stays.back()));
  EXPECT_FALSE(score.Holds(ends.back()));
}

TEST(ChainScore, RefusesANewcomerWorthLessThanWhoWouldLeave) {
  ChainScore score(20, kAlone);
  double now = 0;
  const auto loop = Chain(1, 20);
  for (std::uint64_t i = 0; i < 300; ++i) {
    now += 5;
    Use(&score, loop, now, 1, 1);                                            // Back every 5 s,
    if (i % 2 == 1) Use(&score, Chain(1000 + i, 20), now + 1, 1000 + i, 2);  // never back.
  }
  EXPECT_GT(score.refused(), 50U);
  EXPECT_EQ(Use(&score, loop, now + 5, 1, 1), 20U);

  ChainScore takes_all(20, {.guarded = false, .refuses = false});
  Use(&takes_all, loop, 0, 1, 1);
  Use(&takes_all, Chain(2, 20), 1, 2, 2);
  EXPECT_EQ(takes_all.refused(), 0U);
  EXPECT_EQ(Use(&takes_all, loop, 5, 1, 1), 0U);
}

TEST(ChainScore, LearnsThatALaterTurnComesBackAndAFirstOneDoesNot) {
  ChainScore score(30, {.guarded = false, .refuses = false});
  double now = 0;
  std::uint64_t session = 1;
  for (int i = 0; i < 200; ++i) {
    // Nine have one turn; the tenth has three, 20 s apart.
    for (int k = 0; k < 9; ++k, ++session) Use(&score, Chain(session, 10), now, session);
    for (std::uint32_t turn = 0; turn < 3; ++turn) {
      Use(&score, Chain(session, 10 + turn), now + 20 * turn, session);
    }
    ++session;
    now += 65;
  }
  const std::uint64_t second = session;
  const std::uint64_t first = session + 1;
  Use(&score, Chain(second, 10), now, second);
  Use(&score, Chain(first, 10), now + 10, first);  // It would be back sooner, if at all.
  Use(&score, Chain(second, 11), now + 20, second);
  Use(&score, Chain(session + 2, 15), now + 25, session + 2);
  // What the second turn brought was used no oftener than the other.
  EXPECT_TRUE(score.Holds(Chain(second, 11).back()));
  EXPECT_FALSE(score.Holds(Chain(first, 10).back()));
}

// Hits of the last phase, after the world has turned round: who came back never
// does any more, and who never did always does.
std::size_t HitsAfterATurnOfTheWorld(ChainScore* score) {
  double now = 0;
  std::uint64_t session = 1;
  std::size_t hits = 0;
  for (int i = 0; i < 24'000; ++i) {
    const bool turned = i >= 12'000;
    const std::uint32_t back = turned ? 2 : 1;
    Use(score, Chain(session, 10), now, session, back);
    Use(score, Chain(session + 1, 10), now + 1, session + 1, 3 - back);
    Use(score, Chain(session + 2, 10), now + 2, session + 2, 3 - back);
    const std::size_t hit = Use(score, Chain(session, 10), now + 3, session, 3 - back);
    if (turned) hits += hit;
    session += 3;
    now += 4;
  }
  return hits;
}

TEST(ChainScore, TheGuardFollowsLruWhenWhatWasLearntIsWrong) {
  ChainScore alone(30, kAlone);
  ChainScore guarded(30);
  const std::size_t hits = HitsAfterATurnOfTheWorld(&alone);
  EXPECT_GT(HitsAfterATurnOfTheWorld(&guarded), hits);
  EXPECT_GT(guarded.guard().fallbacks(), 0U) << hits;
}

TEST(ChainScore, HistoryIsBoundedAndNothingIsLostByForgetting) {
  ChainScore score(64, {.guarded = false, .refuses = true, .waits_max = 100});
  std::mt19937_64 dice(11);
  double now = 0;
  for (int i = 0; i < 20000; ++i) {
    now += 1;
    const std::uint64_t session = dice() % 5000;
    Use(&score, Chain(session, 1 + static_cast<std::uint32_t>(dice() % 12)), now, session,
        static_cast<std::uint32_t>(dice() % 3), dice() % 10 == 0);
    ASSERT_LE(score.size(), 64U);
    ASSERT_LE(score.waiting(), 100U + 8U);  // And those of one request.
  }
  EXPECT_EQ(score.size(), 64U);
}

TEST(ChainScore, WhatIsThereOfAChainIsALeadingRun) {
  ChainScore score(50);
  std::mt19937_64 dice(5);
  double now = 0;
  for (int i = 0; i < 5000; ++i) {
    now += static_cast<double>(dice() % 30);
    const std::uint64_t session = dice() % 40;
    const auto chain = Chain(session, 1 + static_cast<std::uint32_t>(dice() % 20));
    const std::size_t run = Use(&score, chain, now, session);
    EXPECT_LE(run, chain.size());
    const auto whole = Chain(session, 20);
    bool gap = false;
    for (const BlockId block : whole) {
      if (!score.Holds(block)) gap = true;
      ASSERT_FALSE(gap && score.Holds(block)) << "after request " << i;
    }
  }
}

}  // namespace
}  // namespace spillway
