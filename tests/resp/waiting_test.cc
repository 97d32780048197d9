// SPDX-License-Identifier: Apache-2.0
// Commands that have to wait, for room or for a disk: each reply belongs to its
// request, nothing is done twice, and no other client comes in between.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/sanitized.h"
#include "resp/daemon_fixture.h"

namespace spillway::resp {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Memory far smaller than the values, or a device that takes nothing: in both, values
// are written to disk and read from there.
struct Tight {
  const char* name;
  const char* pressure;
};

class WaitingTest : public DaemonTest, public ::testing::WithParamInterface<Tight> {
 protected:
  void StartTight() {
    Start("capacity = \"2MiB\"\ndisk_dir = \"" + dir_ +
          "/disk\"\ndisk_capacity = \"256MiB\"\nsample_period = \"60s\"\npressure_source = "
          "\"fixed:" +
          GetParam().pressure + "\"\ndisk_pressure_source = \"fixed:0.1\"\n");
  }
  static std::string Bulk(const std::string& value) {
    return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }
  static void Send(Client& client, const std::vector<std::string>& words) {
    client.Send(Request(words));
  }
};

INSTANTIATE_TEST_SUITE_P(, WaitingTest,
                         ::testing::Values(Tight{"LittleMemory", "0.1"},
                                           Tight{"Emergency", "0.97"}),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(WaitingTest, ATransactionKeepsItsHeaderAndAllItsReplies) {
  StartTight();
  Client client(socket());
  const int kKeys = 40;
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(Do(client, {"SET", "k" + std::to_string(i), Value(i, 200'000)}), "+OK\r\n");
  }
  Send(client, {"MULTI"});
  Send(client, {"PING", "first"});
  for (int i = 0; i < kKeys; i += 3) Send(client, {"GET", "k" + std::to_string(i)});
  Send(client, {"SET", "new", Value(1000, 300'000)});
  Send(client, {"GETSET", "new", "short"});
  Send(client, {"SETNX", "new", "x"});
  Send(client, {"NOSUCHKEYHERE"});  // Refused when queued: it discards all.
  Send(client, {"DISCARD"});
  Send(client, {"MULTI"});
  Send(client, {"PING", "first"});
  for (int i = 0; i < kKeys; i += 3) Send(client, {"GET", "k" + std::to_string(i)});
  Send(client, {"SET", "new", Value(1000, 300'000)});
  Send(client, {"GETSET", "new", "short"});
  Send(client, {"SETNX", "new", "x"});
  Send(client, {"EXEC"});
  Send(client, {"PING", "after"});
  const int reads = (kKeys + 2) / 3;
  EXPECT_EQ(client.Reply(), "+OK\r\n");
  for (int i = 0; i < reads + 4; ++i) ASSERT_EQ(client.Reply(), "+QUEUED\r\n");
  EXPECT_THAT(client.Reply(), StartsWith("-ERR unknown command"));
  EXPECT_EQ(client.Reply(), "+OK\r\n");
  EXPECT_EQ(client.Reply(), "+OK\r\n");
  for (int i = 0; i < reads + 4; ++i) ASSERT_EQ(client.Reply(), "+QUEUED\r\n");
  std::string all = "*" + std::to_string(reads + 4) + "\r\n" + Bulk("first");
  for (int i = 0; i < kKeys; i += 3) all += Bulk(Value(i, 200'000));
  all += "+OK\r\n" + Bulk(Value(1000, 300'000)) + ":0\r\n";
  EXPECT_TRUE(client.Reply() == all);
  EXPECT_EQ(client.Reply(), Bulk("after"));
}

TEST_P(WaitingTest, ConditionalWritesAreDoneOnce) {
  StartTight();
  Client client(socket());
  const std::string large = Value(1, 3 << 20);  // Larger than memory.
  const std::string larger = Value(2, 4 << 20);
  EXPECT_EQ(Do(client, {"SETNX", "a", large}), ":1\r\n");
  EXPECT_EQ(Do(client, {"SETNX", "a", "b"}), ":0\r\n");
  EXPECT_EQ(Do(client, {"SET", "b", large, "NX", "PX", "1000000"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"SET", "b", "x", "NX", "PX", "1000000"}), "$-1\r\n");
  EXPECT_THAT(Do(client, {"PTTL", "b"}), StartsWith(":9"));
  EXPECT_EQ(Do(client, {"MSETNX", "c", large, "d", "small", "e", larger}), ":1\r\n");
  EXPECT_EQ(Do(client, {"MSETNX", "f", large, "e", "x"}), ":0\r\n");
  EXPECT_EQ(Do(client, {"EXISTS", "c", "d", "e", "f"}), ":3\r\n");
  EXPECT_EQ(Do(client, {"GETSET", "a", larger}), Bulk(large));
  EXPECT_EQ(Do(client, {"SET", "a", "end", "XX", "GET"}), Bulk(larger));
  EXPECT_EQ(Do(client, {"GETDEL", "a"}), Bulk("end"));
  EXPECT_EQ(Do(client, {"SET", "a", "x", "XX"}), "$-1\r\n");
  EXPECT_EQ(Do(client, {"MSET", "a", large, "d", larger, "g", "1"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"MGET", "d", "g", "nokey"}),
            "*3\r\n" + Bulk(larger) + Bulk("1") + "$-1\r\n");
}

TEST_P(WaitingTest, OfManyClientsThatSetNewKeysOneDoes) {
  StartTight();
  constexpr int kClients = 6;
  constexpr int kKeys = 30;
  std::vector<std::vector<std::string>> replies(kClients);
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      Client client(socket());
      for (int k = 0; k < kKeys; ++k) {
        Send(client, {"SETNX", "lock" + std::to_string(k), std::to_string(c) + Value(k, 300'000)});
      }
      for (int k = 0; k < kKeys; ++k)
        replies[static_cast<std::size_t>(c)].push_back(client.Reply());
    });
  }
  for (std::thread& thread : threads) thread.join();
  Client client(socket());
  for (std::size_t k = 0; k < kKeys; ++k) {
    std::vector<std::size_t> winners;
    for (std::size_t c = 0; c < kClients; ++c) {
      ASSERT_THAT(replies[c][k], ::testing::AnyOf(":0\r\n", ":1\r\n"));
      if (replies[c][k] == ":1\r\n") winners.push_back(c);
    }
    ASSERT_EQ(winners.size(), 1u) << k;
    EXPECT_THAT(Do(client, {"GETRANGE", "lock" + std::to_string(k), "0", "0"}),
                "$1\r\n" + std::to_string(winners[0]) + "\r\n");
  }
}

// Each value that was written is returned by exactly one GETSET, or is the last.
TEST_P(WaitingTest, NoValueIsLostBetweenManyClientsThatExchangeIt) {
  StartTight();
  constexpr int kClients = 5;
  constexpr int kTimes = 25;
  std::vector<std::vector<std::string>> old(kClients);
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      Client client(socket());
      for (int i = 0; i < kTimes; ++i) {
        const std::string name = std::to_string(c) + "/" + std::to_string(i) + " ";
        const std::string reply = Do(client, {"GETSET", "k", name + Value(i, 150'000)});
        old[static_cast<std::size_t>(c)].push_back(
            reply == "$-1\r\n" ? "" : reply.substr(reply.find('\n') + 1, 8));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::multiset<std::string> seen;
  const auto name_of = [](const std::string& value) { return value.substr(0, value.find(' ')); };
  for (const auto& of_one : old) {
    for (const std::string& value : of_one) seen.insert(name_of(value));
  }
  const std::string last = Do({"GETRANGE", "k", "0", "7"});
  seen.insert(name_of(last.substr(last.find('\n') + 1)));
  EXPECT_EQ(seen.size(), kClients * kTimes + 1u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), seen.size());
  EXPECT_TRUE(seen.contains(""));
}

// Two keys that are only ever set to the same value are never seen to differ.
TEST_P(WaitingTest, NobodySeesAPartOfATransactionThatWaits) {
  StartTight();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    Client client(socket());
    for (int i = 0; i < 40; ++i) {
      const std::string value = Value(i, 250'000);
      Send(client, {"MULTI"});
      Send(client, {"SET", "x", value});
      Send(client, {"SET", "y", value});
      Send(client, {"EXEC"});
      Send(client, {"MSET", "x", value, "y", value});
      for (int k = 0; k < 3; ++k) client.Reply();
      EXPECT_EQ(client.Reply(), "*2\r\n+OK\r\n+OK\r\n");
      EXPECT_EQ(client.Reply(), "+OK\r\n");
    }
    stop = true;
  });
  Client client(socket());
  int different = 0;
  while (!stop) {
    const std::string both = Do(client, {"MGET", "x", "y"});
    const std::size_t half = both.find("\r\n") + 2;
    different +=
        both.substr(half, (both.size() - half) / 2) != both.substr(half + (both.size() - half) / 2);
  }
  writer.join();
  EXPECT_EQ(different, 0);
}

class BoundsTest : public DaemonTest {
 protected:
  std::size_t ResidentKiB() const {
    std::ifstream status("/proc/" + std::to_string(daemon_->pid()) + "/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
    }
    return 0;
  }
};

TEST_F(BoundsTest, ATransactionOfManyReadsHoldsNoMoreThanItsBoundOfReplies) {
  Start(
      "capacity = \"256MiB\"\npressure_source = \"fixed:0.1\"\nsample_period = \"60s\"\n"
      "[server]\noutput_max = \"4MiB\"\n");
  Client client(socket());
  constexpr int kReads = 4'000;  // 62 MiB of replies.
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(Do(client, {"SET", "k" + std::to_string(i), Value(i, 16'000)}), "+OK\r\n");
  }
  ASSERT_EQ(Do(client, {"MULTI"}), "+OK\r\n");
  for (int i = 0; i < kReads; ++i) {
    ASSERT_EQ(Do(client, {"GET", "k" + std::to_string(i % 100)}), "+QUEUED\r\n");
  }
  const std::size_t before = ResidentKiB();
  client.Send(Request({"EXEC"}));
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    // Others are served while its client does not read.
    ASSERT_EQ(Do({"PING"}), "+PONG\r\n");
    most = std::max(most, ResidentKiB());
  }
  EXPECT_LE(most, before + 2 * 4096);
  std::string all = "*" + std::to_string(kReads) + "\r\n";
  for (int i = 0; i < kReads; ++i) {
    const std::string value = Value(i % 100, 16'000);
    all += "$16000\r\n" + value + "\r\n";
  }
  EXPECT_TRUE(client.Reply() == all);
  EXPECT_EQ(Do(client, {"PING"}), "+PONG\r\n");
}

// What a million keys took is given back when they are gone.
TEST_F(BoundsTest, AfterFlushallTheDaemonIsAsSmallAsItBegan) {
  Start("capacity = \"512MiB\"\npressure_source = \"fixed:0.1\"\nsample_period = \"60s\"\n");
  constexpr int kKeys = kSanitized ? 100'000 : 1'000'000;
  constexpr int kAtOnce = 1'000;
  constexpr std::size_t kMostKiB = (kSanitized ? 512U : 64U) * 1024U;
  Client client(socket());
  ASSERT_EQ(Do(client, {"PING"}), "+PONG\r\n");
  const std::size_t before = ResidentKiB();
  ASSERT_GT(before, 0U);
  for (int i = 0; i < kKeys; i += kAtOnce) {
    std::string sets;
    for (int k = i; k < i + kAtOnce; ++k) {
      sets += Request({"SET", "key:" + std::to_string(k), "a value of some bytes"});
    }
    ASSERT_TRUE(client.SendReading(sets));
    for (int k = 0; k < kAtOnce; ++k) ASSERT_EQ(client.Reply(), "+OK\r\n");
  }
  const std::size_t full = ResidentKiB();
  EXPECT_GT(full, before + kKeys / 1024 * 64);  // Else this test shows nothing.
  ASSERT_EQ(Do(client, {"FLUSHALL"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"DBSIZE"}), ":0\r\n");
  std::size_t after = ResidentKiB();
  for (int i = 0; i < 500 && after > before + kMostKiB; ++i) {
    std::this_thread::sleep_for(20ms);  // real world: memory is given back in the background
    after = ResidentKiB();
  }
  RecordProperty("full_kib", static_cast<int>(full - before));
  RecordProperty("left_kib", static_cast<int>(after) - static_cast<int>(before));
  EXPECT_LE(after, before + kMostKiB);
}

TEST_F(BoundsTest, ARangeLargerThanTheBoundOfRepliesIsWhole) {
  Start(
      "capacity = \"256MiB\"\npressure_source = \"fixed:0.1\"\nsample_period = \"60s\"\n"
      "[server]\noutput_max = \"1MiB\"\n");
  Client client(socket());
  const std::string value = Value(7, 40 << 20);
  ASSERT_EQ(Do(client, {"SET", "k", value}), "+OK\r\n");
  for (const auto& [from, to] :
       {std::pair{0, -1}, std::pair{5, -7}, std::pair{1 << 20, 20 << 20}}) {
    const std::size_t end =
        to < 0 ? value.size() + static_cast<std::size_t>(1 + to) : static_cast<std::size_t>(to) + 1;
    const std::string part =
        value.substr(static_cast<std::size_t>(from), end - static_cast<std::size_t>(from));
    EXPECT_TRUE(Do(client, {"GETRANGE", "k", std::to_string(from), std::to_string(to)}) ==
                "$" + std::to_string(part.size()) + "\r\n" + part + "\r\n");
  }
  EXPECT_EQ(Do(client, {"PING"}), "+PONG\r\n");
}

TEST_F(BoundsTest, RoomThatIsAnnouncedAndNotFilledGoesToOtherWriters) {
  Start(
      "capacity = \"8MiB\"\npressure_source = \"fixed:0.1\"\nsample_period = \"60s\"\n"
      "[server]\non_blocked = \"error\"\n");
  Client slow(socket());
  ASSERT_EQ(Do(slow, {"SPILL.BEGIN", "k", std::to_string(7 << 20)}), "+OK\r\n");
  ASSERT_EQ(Do(slow, {"SPILL.APPEND", "a few bytes"}), ":11\r\n");
  Client announces(socket());
  const std::string value = Value(3, 6 << 20);
  bool done = false;
  for (int i = 0; i < 1000 && !done; ++i) {
    done = Do({"SET", "other", value}) == "+OK\r\n";
    if (!done) std::this_thread::sleep_for(10ms);  // real world: a second has to pass
  }
  EXPECT_TRUE(done);
  EXPECT_THAT(Do(slow, {"SPILL.APPEND", "more"}), HasSubstr("was given to another write"));
  EXPECT_THAT(Do(slow, {"SPILL.COMMIT"}), HasSubstr("begin again"));
  EXPECT_EQ(Do(slow, {"GET", "k"}), "$-1\r\n");
  // The same for a large value whose bytes do not come.
  announces.Send("*3\r\n$3\r\nSET\r\n$4\r\nlate\r\n$6291456\r\nnot all");
  done = false;
  for (int i = 0; i < 1000 && !done; ++i) {
    done = Do({"SET", "third", value}) == "+OK\r\n";
    if (!done) std::this_thread::sleep_for(10ms);  // real world: a second has to pass
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(Do({"PING"}), "+PONG\r\n");
}

}  // namespace
}  // namespace spillway::resp
