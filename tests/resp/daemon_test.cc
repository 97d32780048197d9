// SPDX-License-Identifier: Apache-2.0
// spillwayd itself, over its socket: as strict, hostile and patient clients see
// it.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "resp/daemon_fixture.h"

namespace spillway::resp {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// What TTL says of a key that was given `seconds` at some time after `before`: what is
// left, to the nearest second, however long this machine took to get here.
void ExpectLeft(const std::string& reply, int seconds,
                std::chrono::steady_clock::time_point before) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - before;
  ASSERT_THAT(reply, StartsWith(":"));
  const int left = std::atoi(reply.c_str() + 1);
  EXPECT_LE(left, seconds);
  EXPECT_GE(left, static_cast<int>(std::floor(seconds + 0.5 - passed.count())));
}

// As LMCache's native client: each reply has exactly these bytes, or it is out of
// step for good.
class StrictClient {
 public:
  explicit StrictClient(const std::string& path) : client_(path) {}

  void Set(const std::string& key, const std::string& value) {
    client_.Send(Request({"SET", key, value}));
    Expect("+OK\r\n");
  }
  bool Exists(const std::string& key) {
    client_.Send(Request({"EXISTS", key}));
    const std::string reply = Take(4);
    if (reply != ":0\r\n" && reply != ":1\r\n") Lose(reply);
    return reply == ":1\r\n";
  }
  // Empty: a miss.
  std::string Get(const std::string& key, std::size_t bytes) {
    client_.Send(Request({"GET", key}));
    const std::string head = "$" + std::to_string(bytes) + "\r\n";
    const std::string first = Take(5);
    if (first == "$-1\r\n") return {};
    const std::string rest = Take(head.size() - first.size());
    if (first + rest != head) Lose(first + rest);
    std::string value = Take(bytes);
    Expect("\r\n");
    return value;
  }
  bool in_step() const { return in_step_; }
  const std::string& lost_at() const { return lost_at_; }

 private:
  std::string Take(std::size_t bytes) {
    std::string out(bytes, '\0');
    std::size_t at = 0;
    while (at < bytes) {
      const ssize_t got = recv(client_.fd(), out.data() + at, bytes - at, 0);
      if (got <= 0) {
        Lose("(closed)");
        break;
      }
      at += static_cast<std::size_t>(got);
    }
    return out;
  }
  void Expect(const std::string& bytes) {
    const std::string got = Take(bytes.size());
    if (got != bytes) Lose(got);
  }
  void Lose(const std::string& got) {
    if (in_step_) lost_at_ = got;
    in_step_ = false;
  }

  Client client_;
  bool in_step_ = true;
  std::string lost_at_;
};

TEST_F(DaemonTest, StrictClientsStayInStepThroughEmergencyAndBack) {
  SetPressure(0.1);
  Start("capacity = \"128MiB\"\ndwell = \"100ms\"\npressure_source = \"file:" + dir_ +
        "/pressure\"\nsample_period = \"10ms\"\n[server]\nio_threads = 4\nport = 0\n");
  constexpr std::size_t kBytes = 4 << 20;
  constexpr int kClients = 8;
  constexpr int kRounds = 24;
  std::atomic<int> wrong{0};
  std::atomic<int> hits{0};
  std::atomic<int> round_of_first{0};
  std::vector<std::thread> clients;
  std::array<std::string, kClients> lost;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      StrictClient client(socket());
      for (int round = 0; round < kRounds && client.in_step(); ++round) {
        const int id = c * 4 + round % 4;
        const std::string key = "model@00000001@0@" + std::to_string(100000 + id);
        const std::string value = Value(id, kBytes);
        client.Set(key, value);
        const bool there = client.Exists(key);
        const std::string got = client.Get(key, kBytes);
        if (!got.empty() && got != value) ++wrong;
        hits += got.empty() ? 0 : 1;
        static_cast<void>(there);
        if (c == 0) round_of_first = round;
      }
      lost[static_cast<std::size_t>(c)] = client.lost_at();
    });
  }
  const auto reached = [&](int round) {
    for (int i = 0; i < 4000 && round_of_first < round; ++i) {
      std::this_thread::sleep_for(5ms);  // real world: load
    }
    return round_of_first >= round;
  };
  EXPECT_TRUE(reached(kRounds / 4));
  SetPressure(0.99);
  EXPECT_TRUE(Until({"SPILL.MODE"}, "emergency"));
  EXPECT_TRUE(reached(kRounds / 2));
  SetPressure(0.1);
  EXPECT_TRUE(Until({"SPILL.MODE"}, "relaxed"));
  for (std::thread& client : clients) client.join();
  for (const std::string& at : lost) EXPECT_EQ(at, "");
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hits, 0);
  EXPECT_THAT(Do({"INFO", "spillway"}), Not(HasSubstr("dropped_writes:0\r")));
}

TEST_F(DaemonTest, PipelinedRequestsOfAllSizesKeepTheirOrder) {
  Start("capacity = \"256MiB\"\n");
  Client client(socket());
  std::string requests;
  std::vector<std::string> values;
  for (int i = 0; i < 60; ++i) {
    values.push_back(Value(i, static_cast<std::size_t>(i % 3 == 0   ? 1 << 20
                                                       : i % 3 == 1 ? 100
                                                                    : 40'000 + i)));
    requests += Request({"SET", "k" + std::to_string(i), values.back()});
    requests += Request({"GET", "k" + std::to_string(i)});
  }
  std::thread sender([&] { client.Send(requests); });
  for (const std::string& value : values) {
    ASSERT_EQ(client.Reply(), "+OK\r\n");
    ASSERT_EQ(client.Reply(), "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n");
  }
  sender.join();
}

TEST_F(DaemonTest, LargeValuesWithOptionsBehindThemAndWithoutRoom) {
  Start("capacity = \"64MiB\"\n");
  Client client(socket());
  const std::string value = Value(1, 1 << 20);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(Do(client, {"SET", "k", value, "EX", "100", "NX"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"SET", "k", "other" + value, "NX"}), "$-1\r\n");
  ExpectLeft(Do(client, {"TTL", "k"}), 100, before);
  EXPECT_EQ(Do(client, {"SET", "k", value, "BOGUS"}), "-ERR syntax error\r\n");
  EXPECT_EQ(Do(client, {"GETSET", "k", "2" + value}), "$1048576\r\n" + value + "\r\n");
  EXPECT_THAT(Do(client, {"SET", "huge", std::string(80 << 20, 'x')}), StartsWith("-"));
  EXPECT_EQ(Do(client, {"SPILL.BEGIN", "piece", "1048580"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"SPILL.APPEND", value}), ":1048576\r\n");
  EXPECT_EQ(Do(client, {"SPILL.APPEND", "tail"}), ":1048580\r\n");
  EXPECT_EQ(Do(client, {"SPILL.COMMIT"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"GET", "piece"}), "$1048580\r\n" + value + "tail\r\n");
  EXPECT_EQ(Do(client, {"PING"}), "+PONG\r\n");
}

// Whatever was said behind a large value counts as if the value were small.
TEST_F(DaemonTest, LargeValuesKeepWhatIsSaidOfThem) {
  Start("capacity = \"64MiB\"\ntoken_budget = 100\n");
  Client client(socket());
  for (const std::size_t bytes :
       {std::size_t{100}, std::size_t{32} << 10U, std::size_t{1} << 20U}) {
    SCOPED_TRACE(bytes);
    const std::string value = Value(1, bytes);
    ASSERT_EQ(Do(client, {"FLUSHALL"}), "+OK\r\n");
    const auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(Do(client, {"SPILL.SET", "a", value, "TOKENS", "16", "AGENT", "planner", "META",
                          "blob", "TTL", "100s"}),
              "+OK\r\n");
    const std::string got = Do(client, {"SPILL.GET", "a"}).substr(0, 200);
    EXPECT_THAT(got, HasSubstr("tokens\r\n:16\r\n"));
    EXPECT_THAT(got, HasSubstr("$7\r\nplanner\r\n"));
    EXPECT_THAT(got, HasSubstr("$4\r\nblob\r\n"));
    ExpectLeft(Do(client, {"TTL", "a"}), 100, before);
    EXPECT_EQ(Do(client, {"SPILL.SET", "b", value, "TOKENS", "16", "PARENT", "a"}), "+OK\r\n");
    EXPECT_EQ(Do(client, {"SPILL.SET", "c", value, "PARENT", "absent"}), "+OK\r\n");
    // A chain stops where a parent was named that was not there.
    EXPECT_EQ(Do(client, {"SPILL.MATCH", "a", "b"}), ":2\r\n");
    EXPECT_EQ(Do(client, {"SPILL.MATCH", "a", "c"}), ":1\r\n");
    EXPECT_THAT(Do(client, {"SPILL.STATS"}), HasSubstr("$6\r\ntokens\r\n:32\r\n"));
    // Over the budget: others leave for it, or it is refused whole.
    EXPECT_EQ(Do(client, {"SPILL.SET", "d", value, "TOKENS", "90"}), "+OK\r\n");
    EXPECT_THAT(Do(client, {"SPILL.STATS"}), HasSubstr("$6\r\ntokens\r\n:90\r\n"));
    EXPECT_THAT(Do(client, {"SPILL.SET", "d", value, "TOKENS", "101"}), StartsWith("-OOM"));
    EXPECT_THAT(Do(client, {"SPILL.SET", "e", value, "TOKENS", "-1"}), StartsWith("-ERR"));
    EXPECT_THAT(Do(client, {"SPILL.SET", "e", value, "TOKEN", "1"}), HasSubstr("is no option"));
    EXPECT_EQ(Do(client, {"EXISTS", "d", "e"}), ":1\r\n");
    EXPECT_EQ(Do(client, {"DEL", "d"}), ":1\r\n");
    EXPECT_THAT(Do(client, {"SPILL.STATS"}), HasSubstr("$6\r\ntokens\r\n:0\r\n"));
  }
}

TEST_F(DaemonTest, HostileClientsHurtNobody) {
  Start("capacity = \"64MiB\"\n[server]\npassword = \"secret\"\n");
  // Half frames, never finished, and strangers with large appetites.
  std::vector<std::unique_ptr<Client>> half;
  for (int i = 0; i < 200; ++i) {
    half.push_back(std::make_unique<Client>(socket()));
    half.back()->Send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16");
  }
  {
    Client stranger(socket());
    stranger.Send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n");
    EXPECT_EQ(stranger.Rest(), "-ERR Protocol error: unauthenticated bulk length\r\n");
  }
  {
    Client http(socket());
    http.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(http.Rest(), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("Redis protocol")));
    Client pieces(socket());
    pieces.Send("POST x\r\nHost: x\r\n\r\n");
    EXPECT_EQ(pieces.Rest(), "");
  }
  Client client(socket());
  EXPECT_EQ(Do(client, {"AUTH", "secret"}), "+OK\r\n");
  const std::string value = Value(1, 8 << 20);
  EXPECT_EQ(Do(client, {"SET", "k", value}), "+OK\r\n");
  // Asks for much, and reads nothing.
  Client greedy(socket());
  EXPECT_EQ(Do(greedy, {"AUTH", "secret"}), "+OK\r\n");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += Request({"GET", "k"});
  greedy.Send(many);
  // A glob bomb over a key made for it.
  std::string bomb;
  for (int i = 0; i < 1000; ++i) bomb += "*a";
  EXPECT_EQ(Do(client, {"SET", std::string(60'000, 'a'), "v"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"KEYS", bomb + "b"}), "*0\r\n");
  EXPECT_EQ(Do(client, {"GET", "k"}), "$8388608\r\n" + value + "\r\n");
  EXPECT_TRUE(daemon_->alive());
}

TEST_F(DaemonTest, TheSocketIsOursAlone) {
  Start();
  struct stat about{};
  ASSERT_EQ(stat(socket().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
}

// The exit status and the words of a daemon that does not start.
std::string Refusal(const std::string& words) {
  const std::string command = Program() + " " + words + " 2>&1; echo \"($?)\"";
  std::string out;
  FILE* const pipe = popen(command.c_str(), "r");
  char line[512];
  while (fgets(line, sizeof line, pipe) != nullptr) out += line;
  pclose(pipe);
  return out;
}

TEST_F(DaemonTest, WhoCantStartSaysWhy) {
  Start("", {"--dir", dir_ + "/disk"});
  EXPECT_THAT(Refusal("--for 1s --port 0 --http-port 0 --socket " + socket()),
              AllOf(HasSubstr("another process listens on"), HasSubstr("(1)")));
  EXPECT_THAT(Refusal("--for 1s --port 0 --http-port 0 --socket " + dir_ + "/b.sock --dir " + dir_ +
                      "/disk"),
              AllOf(HasSubstr("disk"), HasSubstr("(1)")));
  Write("bad.toml", "[server]\nprot = 1\n");
  EXPECT_THAT(Refusal("--for 1s --config " + dir_ + "/bad.toml"),
              AllOf(HasSubstr("bad.toml:2: server.prot"), HasSubstr("did you mean 'port'"),
                    HasSubstr("(2)")));
  EXPECT_THAT(Refusal("--for 1s --config " + dir_ + "/none.toml"), HasSubstr("no such file"));
}

// Nothing goes to disk by itself here: what is found again was written when it
// was told to stop.
TEST_F(DaemonTest, WhatOnlyMemoryHadIsServedAfterSigtermAndARestart) {
  const std::string config = "capacity = \"64MiB\"\ndisk_dir = \"" + dir_ +
                             "/disk\"\ndisk_capacity = \"256MiB\"\nwrite_back_after = \"1h\"\n";
  const auto fill_and_stop = [&] {
    Client client(socket());
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(Do(client, {"SET", "k" + std::to_string(i), Value(i, 100'000)}), "+OK\r\n");
    }
    ASSERT_EQ(daemon_->Stop(), 0);
  };
  const auto served = [&] {
    Client client(socket());
    int count = 0;
    for (int i = 0; i < 200; ++i) {
      const std::string got = Do(client, {"GET", "k" + std::to_string(i)});
      if (got == "$-1\r\n") continue;
      EXPECT_EQ(got, "$100000\r\n" + Value(i, 100'000) + "\r\n") << i;
      ++count;
    }
    return count;
  };
  Start(config);
  fill_and_stop();
  Start(config);
  EXPECT_EQ(served(), 200);
  Do({"FLUSHALL"});
  ASSERT_EQ(daemon_->Stop(), 0);
  Start(config + "[server]\nstop_flush = 0\n");  // It can be left out.
  fill_and_stop();
  Start(config);
  EXPECT_EQ(served(), 0);
}

TEST_F(DaemonTest, StopsGracefullyAndStartsWarm) {
  const std::string config = "capacity = \"64MiB\"\ndisk_dir = \"" + dir_ +
                             "/disk\"\ndisk_capacity = \"256MiB\"\nwrite_back_after = \"10ms\"\n";
  Start(config);
  {
    Client client(socket());
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(Do(client, {"SET", "k" + std::to_string(i), Value(i, 100'000)}), "+OK\r\n");
    }
    ASSERT_EQ(Do(client, {"SET", "gone", "x"}), "+OK\r\n");
    ASSERT_EQ(Do(client, {"DEL", "gone"}), ":1\r\n");
    ASSERT_EQ(Do(client, {"SET", "short", "x", "EX", "1000"}), "+OK\r\n");
    ASSERT_EQ(Do(client, {"EXPIRE", "short", "2000"}), ":1\r\n");
    Do(client, {"SELECT", "5"});
    ASSERT_EQ(Do(client, {"SET", "five", "5"}), "+OK\r\n");
  }
  std::this_thread::sleep_for(1500ms);  // real world: what is idle is copied down
  ASSERT_EQ(daemon_->Stop(), 0);
  Start(config);
  Client client(socket());
  int back = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string got = Do(client, {"GET", "k" + std::to_string(i)});
    if (got == "$-1\r\n") continue;
    ASSERT_EQ(got, "$100000\r\n" + Value(i, 100'000) + "\r\n");
    ++back;
  }
  EXPECT_EQ(back, 20);
  EXPECT_EQ(Do(client, {"GET", "gone"}), "$-1\r\n");
  EXPECT_EQ(Do(client, {"TTL", "short"}).substr(0, 3), ":19");
  Do(client, {"SELECT", "5"});
  EXPECT_EQ(Do(client, {"GET", "five"}), "$1\r\n5\r\n");
  EXPECT_TRUE(Until({"INFO", "keyspace"}, "db5:keys=1"));
}

// Databases that have been found on disk, in part or not yet, and values that went
// straight there: FLUSHDB knows whose they are, and DBSIZE counts them.
TEST_F(DaemonTest, FlushdbAfterARestartEmptiesItsDatabaseAndNoOther) {
  const auto key = [](int i) { return "k" + std::to_string(i); };
  for (const std::string flushed : {"0", "5"}) {
    const std::string other = flushed == "0" ? "5" : "0";
    const std::string config = "capacity = \"8MiB\"\ndisk_dir = \"" + dir_ + "/disk" + flushed +
                               "\"\ndisk_capacity = \"256MiB\"\n[server]\nstop_flush = \"60s\"\n";
    Start(config);
    {
      Client client(socket());
      Do(client, {"SELECT", other});
      ASSERT_EQ(Do(client, {"SET", "huge", Value(1, 12'000'000)}), "+OK\r\n");  // Straight to disk.
      EXPECT_EQ(Do(client, {"DBSIZE"}), ":1\r\n");
      for (int i = 0; i < 300; ++i) {
        Do(client, {"SELECT", i % 3 == 0 ? flushed : other});
        ASSERT_EQ(Do(client, {"SET", key(i), Value(i, 1000)}), "+OK\r\n");
      }
    }
    ASSERT_EQ(daemon_->Stop(), 0);
    Start(config);
    {
      Client client(socket());
      Do(client, {"SELECT", flushed});
      ASSERT_EQ(Do(client, {"FLUSHDB"}), "+OK\r\n");
      EXPECT_TRUE(Until({"INFO", "keyspace"}, "db" + other + ":keys=201,")) << flushed;
      EXPECT_EQ(Do(client, {"DBSIZE"}), ":0\r\n");
      Do(client, {"SELECT", other});
      EXPECT_EQ(Do(client, {"DBSIZE"}), ":201\r\n");
      for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(Do(client, {"EXISTS", key(i)}), i % 3 == 0 ? ":0\r\n" : ":1\r\n") << i;
      }
      EXPECT_EQ(Do(client, {"STRLEN", "huge"}), ":12000000\r\n");
    }
    // It is final.
    ASSERT_EQ(daemon_->Stop(), 0);
    Start(config);
    EXPECT_TRUE(Until({"INFO", "keyspace"}, "db" + other + ":keys=201,")) << flushed;
    {
      Client client(socket());
      Do(client, {"SELECT", flushed});
      EXPECT_EQ(Do(client, {"DBSIZE"}), ":0\r\n");
    }
    ASSERT_EQ(daemon_->Stop(), 0);
  }
}

// What a number of SPILL.STATS is.
long Number(const std::string& stats, const std::string& name) {
  const std::size_t at = stats.find("\r\n" + name + "\r\n:");
  return at == std::string::npos ? -1 : std::atol(stats.c_str() + at + name.size() + 5);
}

TEST_F(DaemonTest, AGraphBringsUpWhatItsNextStepsNeed) {
  SetPressure(0.1);
  // While readings are late the pressure is unknown, and sets may be refused: a second
  // is longer than a busy machine is late.
  Start("capacity = \"8MiB\"\ndisk_dir = \"" + dir_ +
        "/disk\"\ndisk_capacity = \"256MiB\"\nwrite_back_after = \"10ms\"\ndwell = \"10ms\"\n"
        "pressure_source = \"file:" +
        dir_ + "/pressure\"\nsample_period = \"1s\"\n");
  Client client(socket());
  const std::string context = Value(1, 1 << 20);
  ASSERT_EQ(Do(client, {"SPILL.SET", "coder's", context, "AGENT", "coder"}), "+OK\r\n");
  // Others come, and it has to leave memory.
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(Do(client, {"SET", "k" + std::to_string(i), Value(i, 1 << 20)}), "+OK\r\n");
  }
  EXPECT_TRUE(Until({"SPILL.EXPLAIN", "coder's"}, "is in the disk tier"));
  for (int i = 0; i < 20; ++i) Do(client, {"DEL", "k" + std::to_string(i)});  // Now there is room.
  const std::string before = Do(client, {"SPILL.STATS"});
  EXPECT_EQ(Number(before, "ahead_bytes"), 0);
  const std::string run =
      R"({"run":"r","steps":[{"id":"plan","agent":"planner"},{"id":"code","agent":"coder"}],)"
      R"("edges":[{"from":"plan","to":"code"}]})";
  EXPECT_EQ(Do(client, {"SPILL.GRAPH", "LOAD", run}), "$1\r\nr\r\n");
  EXPECT_EQ(Do(client, {"SPILL.GRAPH", "START", "r", "plan"}), "+OK\r\n");
  EXPECT_TRUE(Until({"SPILL.STATS"}, "ahead_bytes\r\n:1048576\r\n"));
  EXPECT_TRUE(Until({"SPILL.EXPLAIN", "coder's"}, "is in the device"));  // It has arrived.
  EXPECT_EQ(Do(client, {"SPILL.GRAPH", "FINISH", "r", "plan"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"SPILL.GRAPH", "START", "r", "code"}), "+OK\r\n");
  EXPECT_EQ(Do(client, {"GET", "coder's"}), "$1048576\r\n" + context + "\r\n");
  EXPECT_TRUE(Until({"SPILL.STATS"}, "ahead_useful_bytes\r\n:1048576\r\n"));
  SetPressure(0.75);
  EXPECT_TRUE(Until({"SPILL.MODE"}, "workflow_aware"));
}

// Memory holds far less than is written, so that many writes go straight to disk. One
// of them was taken for the next one of its key, which was acknowledged and not written.
TEST_F(DaemonTest, AKeyWrittenTwiceHasItsSecondValueWhereWritesGoToDisk) {
  Start("capacity = \"4MiB\"\ndisk_dir = \"" + dir_ + "/disk\"\ndisk_capacity = \"512MiB\"\n");
  Client client(socket());
  const std::size_t sizes[] = {10, 100, 1000, 5000, 20'000, 33'000, 60'000, 150'000, 300'000};
  std::mt19937 random(7);
  for (int i = 0; i < 1500; ++i) {
    const std::string key = "k" + std::to_string(random() % 200);
    const std::string second = Value(i + 10'000, sizes[random() % std::size(sizes)]);
    ASSERT_EQ(Do(client, {"SET", key, Value(i, sizes[random() % std::size(sizes)])}), "+OK\r\n");
    ASSERT_EQ(Do(client, {"SET", key, second}), "+OK\r\n");
    const std::string got = Do(client, {"GET", key});
    ASSERT_TRUE(got == "$" + std::to_string(second.size()) + "\r\n" + second + "\r\n") << i;
  }
}

// Memory to read them into is lent to somebody who has not read his replies yet.
TEST_F(DaemonTest, AGetWaitsForMemoryToReadItsValueInto) {
  constexpr int kKeys = 20;
  constexpr std::size_t kBytes = 6 << 20;
  constexpr std::string_view kPassing = "\"passing_bytes\":";
  Start("capacity = \"8MiB\"\ndisk_dir = \"" + dir_ +
        "/disk\"\ndisk_capacity = \"512MiB\"\nwrite_back_after = \"0ms\"\n");
  Client client(socket());
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(Do(client, {"SET", "k" + std::to_string(i), Value(i, kBytes)}), "+OK\r\n");
  }
  Client slow(socket());
  // At once: whoever has replies to read is not read from, and one that is read alone
  // would be answered alone.
  std::string gets;
  for (int i = 0; i < kKeys; ++i) gets += Request({"GET", "k" + std::to_string(i)});
  slow.Send(gets);
  bool full = false;
  for (int i = 0; i < 3000 && !full; ++i) {
    const std::string stats = Do(client, {"SPILL.STATS", "JSON"});
    const std::size_t at = stats.find(kPassing);
    ASSERT_NE(at, stats.npos);
    full = std::atol(stats.c_str() + at + kPassing.size()) > (64 << 20) - long{kBytes};
    std::this_thread::sleep_for(10ms);  // real world: another process reads its disk
  }
  ASSERT_TRUE(full);
  client.Send(Request({"GET", "k3"}));
  std::this_thread::sleep_for(100ms);  // real world: time enough for an error
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(slow.Reply(), "$" + std::to_string(kBytes) + "\r\n" + Value(i, kBytes) + "\r\n") << i;
  }
  EXPECT_EQ(client.Reply().substr(0, 40),
            ("$" + std::to_string(kBytes) + "\r\n" + Value(3, kBytes)).substr(0, 40));
}

TEST_F(DaemonTest, SighupReadsTheFileAgainAndABadOneChangesNothing) {
  Start("[server]\nidle_max = \"100s\"\n");
  Write("d.toml", "[server]\nidle_max = \"200s\"\n");
  kill(daemon_->pid(), SIGHUP);
  EXPECT_TRUE(Until({"CONFIG", "GET", "timeout"}, "200"));
  Write("d.toml", "[server]\nidle_max = \"soon\"\n");
  kill(daemon_->pid(), SIGHUP);
  EXPECT_EQ(Do({"CONFIG", "GET", "timeout"}), "*2\r\n$7\r\ntimeout\r\n$3\r\n200\r\n");
}

TEST_F(DaemonTest, WhoStallsOrIsKilledIsClosedAndWhoOnlyWaitsIsNot) {
  Start("[server]\nstall_max = \"1s\"\n");
  Client half(socket());
  half.Send("*2\r\n$3\r\nGET\r\n$1");
  Client quiet(socket());
  EXPECT_EQ(Do(quiet, {"PING"}), "+PONG\r\n");
  Client victim(socket());
  const std::string id = Do(victim, {"CLIENT", "ID"});
  EXPECT_EQ(Do({"CLIENT", "KILL", "ID", id.substr(1, id.size() - 3)}), ":1\r\n");
  EXPECT_EQ(victim.Rest(), "");
  EXPECT_EQ(half.Rest(), "");
  EXPECT_EQ(Do(quiet, {"PING"}), "+PONG\r\n");
}

TEST_F(DaemonTest, ManyIdleClientsAreFew) {
  Start();
  const auto resident = [&] {
    std::ifstream file("/proc/" + std::to_string(daemon_->pid()) + "/statm");
    long pages = 0;
    long in_memory = 0;
    file >> pages >> in_memory;
    return in_memory * 4096;
  };
  Do({"PING"});
  const long before = resident();
  std::vector<std::unique_ptr<Client>> idle;
  constexpr int kIdle = 400;
  for (int i = 0; i < kIdle; ++i) {
    idle.push_back(std::make_unique<Client>(socket()));
    ASSERT_EQ(Do(*idle.back(), {"PING"}), "+PONG\r\n");
  }
  const long each = (resident() - before) / kIdle;
  RecordProperty("bytes_per_idle_client", static_cast<int>(each));
  EXPECT_LT(each, 64 * 1024);
}

}  // namespace
}  // namespace spillway::resp
