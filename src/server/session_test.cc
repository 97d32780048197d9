// SPDX-License-Identifier: Apache-2.0
// Commands in their own language: send one, expect the reply.
#include <cstring>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/lmcache_key.h"
#include "server/testing/session_fixture.h"

namespace spillway::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

class CommandTest : public testing::SessionTest {};

constexpr const char* kChunk = "model@00000001@0@abcdef0123456789";
constexpr const char* kOom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

std::string Metadata(int tokens) {
  const std::int32_t words[7] = {4096, 1, 2, 2, 32, tokens, 1024};
  return std::string(reinterpret_cast<const char*>(words), sizeof words);
}

TEST_F(CommandTest, DatabasesDoNotSeeEachOther) {
  Open();
  EXPECT_EQ(Do({"SET", "k", "zero"}), "+OK\r\n");
  EXPECT_EQ(Do({"SELECT", "3"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "$-1\r\n");
  EXPECT_EQ(Do({"SET", "k", "three"}), "+OK\r\n");
  EXPECT_EQ(Do({"DBSIZE"}), ":1\r\n");
  EXPECT_EQ(Do({"FLUSHDB"}), "+OK\r\n");
  EXPECT_EQ(Do({"DBSIZE"}), ":0\r\n");
  EXPECT_EQ(Do({"SELECT", "0"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "$4\r\nzero\r\n");
  // Others find it under its own name.
  EXPECT_TRUE(cache_->Contains("k"));
}

// Whatever the share of each: only keys of the database go.
TEST_F(CommandTest, FlushdbEmptiesItsDatabaseAndNoOther) {
  Open();
  for (const char* db : {"0", "3", "15"}) {
    Do({"SELECT", db});
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(Do({"SET", "k" + std::to_string(i), "v", "PX", i % 4 == 0 ? "60000" : "600000"}),
                "+OK\r\n");
    }
    EXPECT_EQ(Do({"PERSIST", "k1"}), ":1\r\n");
  }
  EXPECT_THAT(Do({"INFO", "keyspace"}), AllOf(HasSubstr("db0:keys=40,expires=39,avg_ttl=0\r\n"),
                                              HasSubstr("db3:keys=40,expires=39,avg_ttl=0\r\n"),
                                              HasSubstr("db15:keys=40,expires=39,avg_ttl=0\r\n")));
  Do({"SELECT", "3"});
  EXPECT_EQ(Do({"FLUSHDB"}), "+OK\r\n");
  EXPECT_EQ(Do({"DBSIZE"}), ":0\r\n");
  EXPECT_EQ(Do({"RANDOMKEY"}), "$-1\r\n");
  EXPECT_EQ(Do({"FLUSHDB"}), "+OK\r\n");
  for (const char* db : {"0", "15"}) {
    Do({"SELECT", db});
    EXPECT_EQ(Do({"DBSIZE"}), ":40\r\n");
    EXPECT_EQ(Do({"EXISTS", "k0", "k39"}), ":2\r\n");
  }
  EXPECT_EQ(Do({"FLUSHALL"}), "+OK\r\n");
  EXPECT_EQ(Do({"DBSIZE"}), ":0\r\n");
  EXPECT_THAT(Do({"INFO", "keyspace"}), Not(HasSubstr("keys=")));
}

TEST_F(CommandTest, RandomkeyNamesAKeyOfItsDatabaseThatIsNotOver) {
  Open();
  for (int i = 0; i < 3000; ++i) Do({"SET", "many" + std::to_string(i), "v"});
  Do({"SELECT", "7"});
  Do({"SET", "one", "v"});
  Do({"SET", "over", "v", "PX", "1000"});
  std::set<std::string> drawn;
  for (int i = 0; i < 200; ++i) drawn.insert(Do({"RANDOMKEY"}));
  EXPECT_THAT(drawn, ::testing::ElementsAre("$3\r\none\r\n", "$4\r\nover\r\n"));
  clock_->Advance(1s);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Do({"RANDOMKEY"}), "$3\r\none\r\n");
  EXPECT_EQ(Do({"KEYS", "*"}), "*1\r\n$3\r\none\r\n");
  EXPECT_EQ(Do({"SCAN", "0", "COUNT", "1000"}), "*2\r\n$1\r\n0\r\n*1\r\n$3\r\none\r\n");
  Do({"SELECT", "0"});
  EXPECT_THAT(Do({"RANDOMKEY"}), HasSubstr("many"));
}

TEST_F(CommandTest, OddKeysOfDatabaseZeroAreNotTakenForOthers) {
  Open();
  const std::string odd("\xff\x03k", 3);
  EXPECT_EQ(Do({"SET", odd, "odd"}), "+OK\r\n");
  EXPECT_EQ(Do({"SET", "", "empty"}), "+OK\r\n");
  EXPECT_EQ(Do({"SELECT", "3"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "$-1\r\n");
  EXPECT_EQ(Do({"SELECT", "0"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", odd}), "$3\r\nodd\r\n");
  EXPECT_EQ(Do({"GET", ""}), "$5\r\nempty\r\n");
  EXPECT_EQ(Do({"DBSIZE"}), ":2\r\n");
}

TEST_F(CommandTest, KeysEndWhenTheirTimeIsOver) {
  Open();
  Do({"SET", "k", "v", "PX", "1500"});
  EXPECT_EQ(Do({"PTTL", "k"}), ":1500\r\n");
  clock_->Advance(1s);
  EXPECT_EQ(Do({"TTL", "k"}), ":1\r\n");
  clock_->Advance(500ms);
  EXPECT_EQ(Do({"GET", "k"}), "$-1\r\n");
  EXPECT_EQ(Do({"TTL", "k"}), ":-2\r\n");
}

TEST_F(CommandTest, AnEndInUnixMillisecondsIsExact) {
  // A wall clock that stands anywhere between two milliseconds of the cache's.
  std::int64_t wall_ns = 1'700'000'000'000'123'456;
  Open([](const void* at) { return *static_cast<const std::int64_t*>(at); }, &wall_ns);
  for (int i = 0; i < 1000; ++i) {
    const auto step = std::chrono::microseconds(1 + 7 * i % 997);
    clock_->Advance(step);
    wall_ns += std::chrono::nanoseconds(step).count();
    const std::int64_t now_ms = wall_ns / 1'000'000;
    Do({"SET", "k", "v"});
    EXPECT_EQ(Do({"GETEX", "k", "PXAT", std::to_string(now_ms + 1500)}), "$1\r\nv\r\n");
    ASSERT_EQ(Do({"PTTL", "k"}), ":1500\r\n") << wall_ns;
    ASSERT_EQ(Do({"PEXPIRETIME", "k"}), ":" + std::to_string(now_ms + 1500) + "\r\n");
    Do({"SET", "k", "v", "PXAT", std::to_string(now_ms + 77'777)});
    ASSERT_EQ(Do({"PEXPIRETIME", "k"}), ":" + std::to_string(now_ms + 77'777) + "\r\n");
  }
}

TEST_F(CommandTest, OfTheSameExpiryOptionTheLastCounts) {
  Open();
  EXPECT_EQ(Do({"SET", "k", "v", "EX", "10", "ex", "20"}), "+OK\r\n");
  EXPECT_EQ(Do({"TTL", "k"}), ":20\r\n");
  EXPECT_EQ(Do({"GETEX", "k", "PX", "5000", "PX", "7000"}), "$1\r\nv\r\n");
  EXPECT_EQ(Do({"PTTL", "k"}), ":7000\r\n");
  EXPECT_EQ(Do({"SET", "k", "w", "KEEPTTL", "KEEPTTL"}), "+OK\r\n");
  EXPECT_EQ(Do({"PTTL", "k"}), ":7000\r\n");
  EXPECT_EQ(Do({"GETEX", "k", "PERSIST", "PERSIST"}), "$1\r\nw\r\n");
  EXPECT_EQ(Do({"PTTL", "k"}), ":-1\r\n");
  for (const char* other : {"PX", "EXAT", "PXAT"}) {
    EXPECT_EQ(Do({"SET", "k", "v", "EX", "10", other, "20"}), "-ERR syntax error\r\n");
  }
  EXPECT_EQ(Do({"SET", "k", "v", "EX", "10", "KEEPTTL"}), "-ERR syntax error\r\n");
  EXPECT_EQ(Do({"GETEX", "k", "EX", "10", "PERSIST"}), "-ERR syntax error\r\n");
}

TEST_F(CommandTest, TrackingIsAlwaysOff) {
  Open();
  EXPECT_THAT(Do({"CLIENT", "TRACKING", "ON"}), HasSubstr("client-side caching is not offered"));
  EXPECT_THAT(Do({"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a"}), StartsWith("-ERR client"));
  EXPECT_EQ(Do({"CLIENT", "TRACKING", "OFF"}), "+OK\r\n");
  EXPECT_EQ(Do({"CLIENT", "TRACKING", "maybe"}), "-ERR syntax error\r\n");
  EXPECT_EQ(Do({"CLIENT", "TRACKING", "ON", "PREFIX"}), "-ERR syntax error\r\n");
  EXPECT_EQ(Do({"CLIENT", "TRACKINGINFO"}),
            "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\n"
            "prefixes\r\n*0\r\n");
  EXPECT_EQ(Do({"CLIENT", "GETREDIR"}), ":-1\r\n");
  EXPECT_THAT(Do({"CLIENT", "CACHING", "YES"}), StartsWith("-ERR CLIENT CACHING can be called"));
}

TEST_F(CommandTest, InfoSaysThatThereIsNoReplication) {
  Open();
  EXPECT_THAT(Do({"INFO", "replication"}),
              AllOf(HasSubstr("role:master\r\n"), HasSubstr("\r\nmaster_repl_offset:0\r\n"),
                    HasSubstr("\r\nmaster_replid:"), HasSubstr("\r\nrepl_backlog_active:0\r\n")));
}

TEST_F(CommandTest, AKeyThatIsBeingReadCanStillGetAnotherEnd) {
  Open();
  Do({"SET", "k", "v"});
  auto lease = cache_->Get("k");
  EXPECT_EQ(Do({"EXPIRE", "k", "10"}), ":1\r\n");
  EXPECT_EQ(Do({"TTL", "k"}), ":10\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "$1\r\nv\r\n");
  EXPECT_EQ((*lease)->text(), "v");
}

TEST_F(CommandTest, WhatWouldEditAValueIsNotOfferedAndSaysSo) {
  Open();
  Do({"SET", "k", "1"});
  EXPECT_THAT(Do({"INCR", "k"}), StartsWith("-ERR 'incr' is not offered"));
  EXPECT_THAT(Do({"APPEND", "k", "x"}), StartsWith("-ERR 'append' is not offered"));
  EXPECT_THAT(Do({"RENAME", "k", "l"}), StartsWith("-ERR 'rename' is not offered"));
  EXPECT_EQ(Do({"GET", "k"}), "$1\r\n1\r\n");
}

TEST_F(CommandTest, InEmergencyWritesAreRefusedAndReadsGoOn) {
  Open();
  Do({"SET", "k", "v"});
  cache_->Apply(0.97);
  EXPECT_EQ(Do({"SET", "k", "w"}), kOom);
  EXPECT_EQ(Do({"SETEX", "k", "10", "w"}), kOom);
  EXPECT_EQ(Do({"MSET", "k", "w"}), kOom);
  EXPECT_EQ(Do({"SETNX", "l", "w"}), kOom);
  EXPECT_EQ(Do({"GET", "k"}), "$1\r\nv\r\n");
  EXPECT_EQ(Do({"DEL", "k"}), ":1\r\n");
}

TEST_F(CommandTest, DropAcknowledgesAndLeavesNoOldValue) {
  config_.server.on_blocked = OnBlocked::kDrop;
  Open();
  Do({"SET", "k", "old"});
  cache_->Apply(0.97);
  EXPECT_EQ(Do({"SET", "k", "new"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "$-1\r\n");
  EXPECT_EQ(Do({"SETNX", "k", "new"}), kOom);
  EXPECT_EQ(Do({"SET", "k", "new", "NX"}), kOom);
  EXPECT_EQ(state_->counters.dropped_writes.load(), 1u);
}

TEST_F(CommandTest, AutoDropsForLmcacheUnlessItSaidHello) {
  Open();
  Do({"SET", kChunk, "old"});
  cache_->Apply(0.97);
  EXPECT_EQ(Do({"SET", kChunk, "new"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", kChunk}), "$-1\r\n");
  EXPECT_EQ(Do({"SET", "plain", "new"}), kOom);
  Session polite;
  Do(polite, {"HELLO", "3"});
  EXPECT_EQ(Do(polite, {"SET", kChunk, "new"}), kOom);
}

TEST_F(CommandTest, ADroppedHalfTakesTheOtherWithIt) {
  Open();
  const std::string key = "m@1@0@ab@half";
  Do({"SET", key + "kv_bytes", "bytes"});
  Do({"SET", key + "metadata", Metadata(256)});
  cache_->Apply(0.97);
  EXPECT_EQ(Do({"SET", key + "kv_bytes", "newer"}), "+OK\r\n");
  EXPECT_EQ(Do({"EXISTS", key + "metadata", key + "kv_bytes"}), ":0\r\n");
}

TEST_F(CommandTest, PairsAreEvictedTogetherAndTokensAreLearnt) {
  config_.cache.capacity = 8 * kMiB;
  Open();
  const std::string value(kMiB, 'v');
  for (int i = 0; i < 20; ++i) {
    const std::string key = "m@1@0@" + std::to_string(1000 + i) + "@half";
    Do({"SET", key + "kv_bytes", value});
    Do({"SET", key + "metadata", Metadata(256)});
    clock_->Advance(200ms);
  }
  int pairs = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "m@1@0@" + std::to_string(1000 + i) + "@half";
    const std::string there = Do({"EXISTS", key + "metadata", key + "kv_bytes"});
    EXPECT_NE(there, ":1\r\n") << key;
    pairs += there == ":2\r\n" ? 1 : 0;
  }
  EXPECT_GT(pairs, 0);
  EXPECT_LT(pairs, 20);
  EXPECT_EQ(cache_->total_tokens(), 256 * pairs);
}

// Its client waits for ever for a GET that finds nothing where EXISTS said yes.
TEST_F(CommandTest, WhatExistsAnnouncedToLmcacheIsThereForItsGet) {
  config_.cache.capacity = 8 * kMiB;
  Open();
  const std::string value(64 * 1024, 'v');
  const auto fill = [&] {  // Twice what the cache holds.
    for (int i = 0; i < 256; ++i) Do({"SET", "other" + std::to_string(i), value});
  };
  Do({"SET", kChunk, value});
  EXPECT_EQ(Do({"EXISTS", kChunk}), ":1\r\n");
  fill();
  EXPECT_EQ(Do({"GET", kChunk}), "$65536\r\n" + value + "\r\n");
  clock_->Advance(6s);
  state_->ErasePairs();  // As the daemon does every 100 ms.
  EXPECT_EQ(state_->announced.bytes(), 0u);
  fill();
  EXPECT_EQ(Do({"GET", kChunk}), "$-1\r\n");
}

TEST_F(CommandTest, AnnouncedEntriesAreBoundedAndYieldInEmergency) {
  config_.cache.capacity = 8 * kMiB;
  Open();
  const std::string value(64 * 1024, 'v');
  for (int i = 0; i < 64; ++i) {
    const std::string key = "m@1@0@" + std::to_string(1000 + i);
    Do({"SET", key, value});
    EXPECT_EQ(Do({"EXISTS", key}), ":1\r\n");
  }
  EXPECT_GT(state_->announced.bytes(), 0u);
  EXPECT_LE(state_->announced.bytes(), 8 * kMiB / 20);
  cache_->Apply(0.97);
  state_->ErasePairs();
  EXPECT_EQ(state_->announced.bytes(), 0u);
  Do({"EXISTS", "m@1@0@1000"});
  EXPECT_EQ(state_->announced.bytes(), 0u);
}

TEST_F(CommandTest, OthersAreAnnouncedNothing) {
  Open();
  Do({"SET", "plain", "v"});
  Do({"EXISTS", "plain"});
  EXPECT_EQ(state_->announced.bytes(), 0u);
  Session polite;
  Do({"SET", kChunk, "v"});
  Do(polite, {"HELLO", "3"});
  Do(polite, {"EXISTS", kChunk});
  EXPECT_EQ(state_->announced.bytes(), 0u);
}

TEST_F(CommandTest, TransactionsRunAsAWhole) {
  Open();
  EXPECT_EQ(Do({"MULTI"}), "+OK\r\n");
  EXPECT_EQ(Do({"SET", "k", "v"}), "+QUEUED\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "+QUEUED\r\n");
  EXPECT_EQ(Do({"EXEC"}), "*2\r\n+OK\r\n$1\r\nv\r\n");
  Do({"MULTI"});
  EXPECT_THAT(Do({"NOSUCH"}), StartsWith("-ERR unknown command"));
  EXPECT_EQ(Do({"EXEC"}), "-EXECABORT Transaction discarded because of previous errors.\r\n");
}

TEST_F(CommandTest, APasswordIsAskedForAndNeverShown) {
  config_.server.password = "secret";
  Open();
  EXPECT_EQ(Do({"GET", "k"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_THAT(Do({"AUTH", "secre"}), StartsWith("-WRONGPASS"));
  EXPECT_THAT(Do({"AUTH", "secrets"}), StartsWith("-WRONGPASS"));
  EXPECT_THAT(Do({"HELLO", "3"}), StartsWith("-NOAUTH"));
  EXPECT_EQ(Do({"AUTH", "secret"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "$-1\r\n");
  EXPECT_THAT(Do({"CONFIG", "GET", "*pass*"}), Not(HasSubstr("secret")));
}

TEST_F(CommandTest, TheSlowLogKeepsKeysAndNoValues) {
  config_.server.slowlog_us = 0;
  Open();
  Do({"SET", "key", "the-value"});
  Do({"CONFIG", "SET", "requirepass", "the-password"});
  const std::string log = Do({"SLOWLOG", "GET", "-1"});
  EXPECT_THAT(log, HasSubstr("key"));
  EXPECT_THAT(log, HasSubstr("(9 bytes)"));
  EXPECT_THAT(log, Not(HasSubstr("the-value")));
  EXPECT_THAT(log, Not(HasSubstr("the-password")));
}

TEST_F(CommandTest, ConfigSetChangesAllOrNothing) {
  Open();
  EXPECT_EQ(Do({"CONFIG", "SET", "on_blocked", "drop", "timeout", "30"}), "+OK\r\n");
  EXPECT_EQ(Do({"CONFIG", "GET", "timeout"}), "*2\r\n$7\r\ntimeout\r\n$2\r\n30\r\n");
  EXPECT_THAT(Do({"CONFIG", "SET", "timeout", "40", "on_blocked", "maybe"}), StartsWith("-ERR"));
  EXPECT_EQ(Do({"CONFIG", "GET", "timeout"}), "*2\r\n$7\r\ntimeout\r\n$2\r\n30\r\n");
  EXPECT_THAT(Do({"CONFIG", "SET", "port", "1"}), HasSubstr("immutable"));
}

TEST_F(CommandTest, SpillSetKeepsWhatItWasToldAndMatchFollowsTheChain) {
  Open();
  EXPECT_EQ(Do({"SPILL.SET", "a", "1", "TOKENS", "16", "AGENT", "planner", "META", "m"}),
            "+OK\r\n");
  EXPECT_EQ(Do({"SPILL.SET", "b", "2", "TOKENS", "16", "PARENT", "a"}), "+OK\r\n");
  EXPECT_EQ(Do({"SPILL.MATCH", "a", "b", "c"}), ":2\r\n");
  EXPECT_THAT(Do({"SPILL.GET", "a"}), HasSubstr("$7\r\nplanner\r\n"));
  EXPECT_THAT(Do({"SPILL.SET", "c", "3", "TOKEN", "1"}), HasSubstr("'token' is no option"));
  EXPECT_THAT(Do({"SPILL.SET", "c", "3", "TTL", "soon"}), HasSubstr("not a duration"));
  EXPECT_EQ(Do({"SPILL.MATCH", "c"}), ":0\r\n");
  EXPECT_THAT(Do({"SPILL.EXPLAIN", "a"}), HasSubstr("a"));
  EXPECT_THAT(Do({"SPILL.MODE"}), HasSubstr("relaxed"));
}

TEST_F(CommandTest, WhatIsSaidOfTheNextUseReachesTheScore) {
  config_.cache.policy = "score";
  Open();
  EXPECT_EQ(
      Do({"SPILL.SET", "k", "v", "HINT", "again", "ETA", "30s", "STEP", "tool", "RECOMPUTE", "2s"}),
      "+OK\r\n");
  const std::string said = Do({"SPILL.EXPLAIN", "k"});
  EXPECT_THAT(said, HasSubstr("waits for tool"));
  EXPECT_THAT(said, HasSubstr("said to be used again"));
  EXPECT_THAT(said, HasSubstr("A miss would cost 2 s."));
  EXPECT_THAT(Do({"SPILL.GET", "k", "RANGE", "0", "1", "STEP", "human"}), HasSubstr("$1\r\nv\r\n"));
  EXPECT_THAT(Do({"SPILL.EXPLAIN", "k"}), HasSubstr("waits for human"));
  EXPECT_EQ(Do({"SPILL.TOUCH", "k", "HINT", "done", "STEP", "build", "ETA", "500ms"}), ":1\r\n");
  EXPECT_THAT(Do({"SPILL.EXPLAIN", "k"}), HasSubstr("waits for build, said to be done"));
  EXPECT_EQ(Do({"SPILL.BEGIN", "p", "1", "STEP", "piece", "RECOMPUTE", "3s"}), "+OK\r\n");
  EXPECT_EQ(Do({"SPILL.APPEND", "x"}), ":1\r\n");
  EXPECT_EQ(Do({"SPILL.COMMIT"}), "+OK\r\n");
  EXPECT_THAT(Do({"SPILL.EXPLAIN", "p"}), HasSubstr("waits for piece"));
  EXPECT_THAT(Do({"SPILL.EXPLAIN", "p"}), HasSubstr("A miss would cost 3 s."));

  EXPECT_THAT(Do({"SPILL.TOUCH", "k", "ETA", "soon"}),
              HasSubstr("eta: \"soon\" is not a duration"));
  EXPECT_THAT(Do({"SPILL.TOUCH", "k", "RECOMPUTE", "1s"}), HasSubstr("is no option here"));
  EXPECT_THAT(Do({"SPILL.GET", "k", "HINT", "maybe"}), HasSubstr("not again, done or none"));
  EXPECT_THAT(Do({"SPILL.GET", "k", "HINT"}), HasSubstr("syntax error"));
  EXPECT_THAT(Do({"SPILL.SET", "k", "v", "STEP", std::string(2000, 'x')}), HasSubstr("at most"));
  EXPECT_THAT(Do({"SPILL.SET", "k", "v", "RECOMPUTE", "-1s"}), HasSubstr("not a duration"));
}

TEST_F(CommandTest, AValueInPiecesIsSeenOnlyWhenItIsWhole) {
  Open();
  EXPECT_EQ(Do({"SPILL.BEGIN", "k", "6"}), "+OK\r\n");
  EXPECT_EQ(Do({"SPILL.APPEND", "abc"}), ":3\r\n");
  EXPECT_THAT(Do({"SPILL.COMMIT"}), StartsWith("-ERR only 3 of 6"));
  EXPECT_THAT(Do({"SPILL.APPEND", "defg"}), StartsWith("-ERR 4 bytes more do not fit"));
  EXPECT_EQ(Do({"GET", "k"}), "$-1\r\n");
  EXPECT_EQ(Do({"SPILL.APPEND", "def"}), ":6\r\n");
  EXPECT_EQ(Do({"SPILL.COMMIT"}), "+OK\r\n");
  EXPECT_EQ(Do({"GET", "k"}), "$6\r\nabcdef\r\n");
}

TEST_F(CommandTest, AValueInPiecesKeepsWhatItWasTold) {
  Open();
  EXPECT_EQ(Do({"SPILL.BEGIN", "k", "3", "TTL", "10s", "TOKENS", "7", "AGENT", "a"}), "+OK\r\n");
  clock_->Advance(20s);  // It has not begun to live yet.
  EXPECT_EQ(Do({"SPILL.APPEND", "abc"}), ":3\r\n");
  EXPECT_EQ(Do({"SPILL.COMMIT"}), "+OK\r\n");
  EXPECT_EQ(Do({"TTL", "k"}), ":10\r\n");
  EXPECT_THAT(Do({"SPILL.GET", "k"}), HasSubstr("tokens\r\n:7\r\n"));
  clock_->Advance(10s);
  EXPECT_EQ(Do({"GET", "k"}), "$-1\r\n");
  EXPECT_THAT(Do({"SPILL.BEGIN", "k", "99999999999"}), HasSubstr("do not fit"));
  EXPECT_THAT(Do({"SPILL.BEGIN", "k", "3", "TOKENS", "-1"}), HasSubstr("-1 tokens"));
}

TEST_F(CommandTest, AGraphIsToldStepByStep) {
  Open();
  const std::string run =
      R"({"run":"r","steps":[{"id":"plan","agent":"planner"},{"id":"code","agent":"coder"}],)"
      R"("edges":[{"from":"plan","to":"code"}]})";
  EXPECT_EQ(Do({"SPILL.GRAPH", "LOAD", run}), "$1\r\nr\r\n");
  EXPECT_EQ(Do({"SPILL.GRAPH", "STEPS", "r"}), "*4\r\n$4\r\nplan\r\n:0\r\n$4\r\ncode\r\n:1\r\n");
  EXPECT_EQ(Do({"SPILL.GRAPH", "START", "r", "plan"}), "+OK\r\n");
  EXPECT_EQ(Do({"SPILL.GRAPH", "FINISH", "r", "plan"}), "+OK\r\n");
  EXPECT_THAT(Do({"SPILL.GRAPH", "STEPS", "r"}), HasSubstr("$4\r\ncode\r\n:0\r\n"));
  EXPECT_EQ(Do({"SPILL.GRAPH", "END", "r"}), "+OK\r\n");
  EXPECT_THAT(Do({"SPILL.GRAPH", "LOAD", "{\"run\":\"x\",\"steps\":3}"}), StartsWith("-ERR"));
  EXPECT_THAT(Do({"SPILL.GRAPH", "START", "nobody", "x"}), StartsWith("-ERR"));
}

TEST_F(CommandTest, AGraphDecidesWhoLeaves) {
  config_.cache.capacity = 4 * kMiB;
  Open();
  const std::string value(kMiB - 64 * kKiB, 'v');
  for (const std::string agent : {"planner", "coder", "tester", "writer"}) {
    Do({"SPILL.SET", agent + "'s", value, "AGENT", agent});
    clock_->Advance(1s);
  }
  const std::string run =
      R"({"run":"r","steps":[{"id":"plan","agent":"planner"},{"id":"code","agent":"coder"},)"
      R"({"id":"test","agent":"tester"}],"edges":[{"from":"plan","to":"code"},)"
      R"({"from":"code","to":"test"}]})";
  cache_->Apply(0.75);
  EXPECT_THAT(Do({"SPILL.MODE"}), HasSubstr("$6\r\nnormal\r\n"));
  cache_->Apply(0.1);
  EXPECT_EQ(Do({"SPILL.GRAPH", "LOAD", run}), "$1\r\nr\r\n");
  EXPECT_EQ(Do({"SPILL.GRAPH", "START", "r", "plan"}), "+OK\r\n");
  cache_->Apply(0.75);
  EXPECT_THAT(Do({"SPILL.MODE"}), HasSubstr("workflow_aware"));
  cache_->Apply(0.1);
  // By last use the planner's would go first; but it runs.
  Do({"SPILL.SET", "new", value});
  Do({"SPILL.SET", "newer", value});
  EXPECT_EQ(Do({"EXISTS", "planner's", "coder's"}), ":2\r\n");
  EXPECT_EQ(Do({"EXISTS", "writer's"}), ":0\r\n");
  EXPECT_EQ(Do({"SPILL.GRAPH", "END", "r"}), "+OK\r\n");
}

TEST_F(CommandTest, TheTiersTtlIsForContextsAndNotForPlainKeys) {
  config_.cache.ttl = 10s;
  Open();
  Do({"SET", "plain", "v"});
  Do({"SET", "ends", "v", "EX", "5"});
  Do({"MSET", "many", "v"});
  Do({"SPILL.SET", "context", "v"});
  Do({"SPILL.SET", "kept", "v"});
  Do({"SPILL.SET", "parent", "v"});
  Do({"SPILL.SET", "child", "v", "PARENT", "parent"});
  clock_->Advance(8s);
  Do({"GET", "kept"});
  clock_->Advance(4s);
  for (int i = 0; i < 3; ++i) cache_->Apply(0.1);
  EXPECT_EQ(Do({"EXISTS", "plain", "many"}), ":2\r\n");
  EXPECT_EQ(Do({"EXISTS", "ends", "context", "child", "parent"}), ":0\r\n");
  EXPECT_EQ(Do({"EXISTS", "kept"}), ":1\r\n");
  // What becomes of a key is what its last writer says.
  Do({"SET", "kept", "w"});
  Do({"SPILL.SET", "plain", "w"});
  clock_->Advance(1h);
  for (int i = 0; i < 3; ++i) cache_->Apply(0.1);
  EXPECT_EQ(Do({"EXISTS", "kept", "many"}), ":2\r\n");
  EXPECT_EQ(Do({"EXISTS", "plain"}), ":0\r\n");
}

TEST_F(CommandTest, EveryCommandIsDocumented) {
  Open();
  Do({"HELLO", "2"});
  for (const Command& command : Commands()) {
    EXPECT_FALSE(command.summary.empty()) << command.name;
    EXPECT_THAT(Do({"COMMAND", "DOCS", std::string(command.name)}),
                HasSubstr(std::string(command.summary)));
  }
}

TEST_F(CommandTest, ClientsAreListedAndNamed) {
  Open();
  EXPECT_EQ(Do({"CLIENT", "SETNAME", "a b"}),
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n");
  EXPECT_EQ(Do({"CLIENT", "SETINFO", "LIB-NAME", "redis-py"}), "+OK\r\n");
  EXPECT_THAT(Do({"CLIENT", "INFO"}), HasSubstr("lib-name=redis-py"));
}

TEST(LmcacheKey, KnowsItsShapesAndNoOthers) {
  EXPECT_TRUE(IsLmcacheKey(kChunk));
  EXPECT_TRUE(IsLmcacheKey("meta/llama@1@0@ab12@halfmetadata"));
  EXPECT_TRUE(IsLmcacheKey("m@1@0@ab12@half:kv_bytes"));
  EXPECT_FALSE(IsLmcacheKey("user@host"));
  EXPECT_FALSE(IsLmcacheKey("a@b@c@xyz"));
  EXPECT_FALSE(IsLmcacheKey("metadata"));
  EXPECT_FALSE(IsLmcacheKey(""));
  EXPECT_EQ(PairOf("m@1@0@ab@halfmetadata"), "m@1@0@ab@halfkv_bytes");
  EXPECT_EQ(PairOf(kChunk), "");
  EXPECT_EQ(TokensIn(Metadata(256)), 256);
  EXPECT_EQ(TokensIn("short"), std::nullopt);
}

}  // namespace
}  // namespace spillway::server
