// SPDX-License-Identifier: Apache-2.0
// A connection over a link by hand: what is read, sent and posted, and when the disk
// is said to know, is up to the test.
#include "server/connection.h"

#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/session_fixture.h"

namespace spillway::server {
namespace {

class HandLink final : public Link {
 public:
  std::ptrdiff_t Receive(std::span<iovec> into) override {
    if (incoming.empty()) return -EAGAIN;
    std::size_t moved = 0;
    for (const iovec& piece : into) {
      const std::size_t bytes = std::min(piece.iov_len, incoming.size());
      std::memcpy(piece.iov_base, incoming.data(), bytes);
      incoming.erase(0, bytes);
      moved += bytes;
    }
    return static_cast<std::ptrdiff_t>(moved);
  }
  std::ptrdiff_t Send(std::span<iovec> pieces) override {
    if (room == 0) return -EAGAIN;
    std::size_t moved = 0;
    for (const iovec& piece : pieces) {
      const std::size_t bytes = std::min(piece.iov_len, room);
      sent.append(static_cast<const char*>(piece.iov_base), bytes);
      moved += bytes;
      room -= bytes;
    }
    return static_cast<std::ptrdiff_t>(moved);
  }
  void AwaitReadable() override { awaits_readable = true; }
  void AwaitWritable() override { awaits_writable = true; }
  void Close() override { closed = true; }
  void StartTimer(Duration) override { timer = true; }
  void CancelTimer() override { timer = false; }
  std::span<char> scratch() override { return scratch_; }
  void Post(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
    came_.notify_one();
  }
  void FlushSoon() override { flushes_soon = true; }

  // The next that was posted, from whichever thread.
  void RunPosted() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(came_.wait_for(lock, std::chrono::seconds(30), [&] { return !posted_.empty(); }));
    const std::function<void()> work = std::move(posted_.front());
    posted_.pop_front();
    lock.unlock();
    work();
  }

  // All that was posted by now.
  void RunAllPosted() {
    std::unique_lock lock(mutex_);
    while (!posted_.empty()) {
      const std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::string incoming;
  std::string sent;
  std::size_t room = SIZE_MAX;  // Of the socket.
  bool awaits_readable = false;
  bool awaits_writable = false;
  bool timer = false;
  bool closed = false;
  bool flushes_soon = false;

 private:
  std::vector<char> scratch_ = std::vector<char>(256 * 1024);
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> posted_;
};

class ManualDeleteFlusher final : public DeleteFlusher {
 public:
  void Await(std::function<void(bool)> done) override { waiting.push_back(std::move(done)); }
  std::deque<std::function<void(bool)>> waiting;
};

std::string Request(const std::vector<std::string>& words) {
  std::string frame = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    frame += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return frame;
}

// In EMERGENCY, so that every value goes straight to the disk and is read from there.
class ConnectionTest : public testing::SessionTest {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/connection-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    config_.cache.disk_dir = folder_ + "/disk";
    config_.cache.disk_capacity = disk_capacity_;
    config_.cache.disk_pressure_source = "fixed:0.1";
    Open();
    while (state_->direct().loading()) std::this_thread::yield();  // Else writes wait for that.
    pressure_->Set(0.97);
    cache_->Apply();
    Connect();
  }
  // A client anew.
  void Connect() {
    auto link = std::make_unique<HandLink>();
    link_ = link.get();
    connection_ = std::make_shared<Connection>(state_.get(), &flusher_, std::move(link), "", "");
    connection_->Start();
  }
  void TearDown() override {
    if (connection_ != nullptr) connection_->Close();
    connection_.reset();
    AwaitSubmitted();
    state_.reset();
    cache_.reset();
    std::filesystem::remove_all(folder_);
  }

  // A read's completion posts and then counts itself down, on a thread of the cache: the state
  // must outlive that, as in Server::~Server.
  void AwaitSubmitted() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (state_ != nullptr && state_->in_flight.load() > 0) {
      if (std::chrono::steady_clock::now() > give_up) FAIL() << "a read never ended";
      std::this_thread::yield();
    }
  }

  void Arrives(const std::string& bytes) {
    link_->incoming += bytes;
    if (!std::exchange(link_->awaits_readable, false)) return;
    connection_->OnReadable(false);
  }
  void Flushed() {
    if (std::exchange(link_->flushes_soon, false)) connection_->FlushNow();
  }
  // The disk knows all that the first who waits has written.
  void SettleOne(bool durable = true) {
    ASSERT_FALSE(flusher_.waiting.empty());
    const std::function<void(bool)> done = std::move(flusher_.waiting.front());
    flusher_.waiting.pop_front();
    done(durable);
    link_->RunPosted();
    Flushed();
  }
  std::string TakeSent() { return std::exchange(link_->sent, {}); }
  // Sends it, and sees to all that it has to wait for.
  std::string Ask(const std::vector<std::string>& words) {
    Arrives(Request(words));
    Flushed();
    return Answer();
  }
  // Sees to all that the next reply has to wait for: the disk, or room.
  std::string Answer() {
    while (link_->sent.empty() && !HasFailure()) {
      if (!flusher_.waiting.empty()) {
        SettleOne();
      } else if (std::exchange(link_->timer, false)) {
        connection_->OnTimer();
      } else if (!link_->incoming.empty() && std::exchange(link_->awaits_readable, false)) {
        connection_->OnReadable(false);
      } else {
        link_->RunPosted();
      }
      Flushed();
    }
    return TakeSent();
  }

  Bytes disk_capacity_ = 64 * kMiB;
  std::string folder_;
  ManualDeleteFlusher flusher_;
  HandLink* link_ = nullptr;
  std::shared_ptr<Connection> connection_;
};

// The disk answered for the DEL while the value of the SET behind it was on its way:
// the SET was run with what had come so far.
TEST_F(ConnectionTest, AValueThatIsStillComingIsNotSetWhenTheDiskHasAnswered) {
  ASSERT_EQ(Ask({"SET", "gone", "1"}), "+OK\r\n");
  const std::string value = std::string(50'000, 'a') + std::string(50'000, 'b');
  const std::string set = Request({"SET", "large", value});
  const std::string first = Request({"DEL", "gone"}) + set.substr(0, 1000);
  Arrives(first);
  ASSERT_EQ(flusher_.waiting.size(), 1U);
  SettleOne();
  EXPECT_EQ(TakeSent(), ":1\r\n");
  EXPECT_FALSE(cache_->Contains("large"));
  Arrives(set.substr(1000, 60'000));
  EXPECT_FALSE(cache_->Contains("large"));
  Arrives(set.substr(61'000));
  EXPECT_EQ(Answer(), "+OK\r\n");
  EXPECT_TRUE(Ask({"GET", "large"}) == "$100000\r\n" + value + "\r\n");
}

// The reply of a command that had waited for a read went out with those before it,
// when the disk had answered for those alone.
TEST_F(ConnectionTest, AReplyIsHeldUntilTheDiskKnowsOfItsOwnCommand) {
  ASSERT_EQ(Ask({"SET", "a", "1"}), "+OK\r\n");
  ASSERT_EQ(Ask({"SET", "b", "2"}), "+OK\r\n");
  Arrives(Request({"DEL", "a"}) + Request({"GETDEL", "b"}));
  ASSERT_EQ(flusher_.waiting.size(), 1U) << "for DEL";
  link_->RunPosted();  // What GETDEL reads is there; it goes on when DEL's reply has gone.
  ASSERT_EQ(flusher_.waiting.size(), 1U);
  SettleOne();
  EXPECT_EQ(TakeSent(), ":1\r\n");
  ASSERT_EQ(flusher_.waiting.size(), 1U) << "for GETDEL";
  Flushed();
  EXPECT_EQ(TakeSent(), "") << "the disk does not know of GETDEL yet";
  SettleOne();
  EXPECT_EQ(TakeSent(), "$1\r\n2\r\n");
}

// An acknowledged write whose older value the disk still had on record came back older
// after a kill, where the disk had stalled for more than a second.
TEST_F(ConnectionTest, AWriteThatTheDiskDoesNotRecordGetsNoReply) {
  ASSERT_EQ(Ask({"SET", "a", "1"}), "+OK\r\n");
  Arrives(Request({"DEL", "a"}));
  ASSERT_EQ(flusher_.waiting.size(), 1U);
  SettleOne(false);
  EXPECT_EQ(TakeSent(), "");
  EXPECT_TRUE(link_->closed);
}

TEST_F(ConnectionTest, WritesAreRefusedWhileTheDiskDoesNotRecordThem) {
  ASSERT_EQ(Ask({"SET", "a", "1"}), "+OK\r\n");
  state_->not_durable = true;
  for (const std::vector<std::string>& write : {std::vector<std::string>{"SET", "a", "2"},
                                                {"DEL", "a"},
                                                {"EXPIRE", "a", "9"},
                                                {"FLUSHALL"},
                                                {"MSET", "a", "1", "b", "2"},
                                                {"SPILL.SET", "a", "2"}}) {
    EXPECT_THAT(Ask(write), ::testing::StartsWith("-MISCONF The disk tier does not record"))
        << write[0];
  }
  EXPECT_EQ(Ask({"GET", "a"}), "$1\r\n1\r\n");
  EXPECT_EQ(Ask({"MULTI"}), "+OK\r\n");
  EXPECT_EQ(Ask({"GET", "a"}), "+QUEUED\r\n");
  EXPECT_EQ(Ask({"DEL", "a"}), "+QUEUED\r\n");
  EXPECT_THAT(Ask({"EXEC"}),
              ::testing::StartsWith("-EXECABORT Transaction discarded because of: MISCONF "));
  EXPECT_EQ(Ask({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  state_->not_durable = false;
  EXPECT_EQ(Ask({"SET", "a", "2"}), "+OK\r\n");
}

// EXEC that waited for its client to read was taken off its place in front: it went on
// with the words of what came behind it.
TEST_F(ConnectionTest, AnExecGoesOnWhenItsClientHasRead) {
  pressure_->Set(0.1);
  cache_->Apply();
  clock_->Advance(std::chrono::minutes(1));
  cache_->Apply();  // No EMERGENCY any more: values are in memory.
  const std::string value(10'000, 'v');
  const std::string reply = "$10000\r\n" + value + "\r\n";
  ASSERT_EQ(Ask({"SET", "key", value}), "+OK\r\n");
  constexpr int kGets = 300;  // Of which a third may be held.
  std::string all = Request({"MULTI"});
  std::string expected = "+OK\r\n";
  for (int i = 0; i < kGets; ++i) {
    all += Request({"GET", "key"});
    expected += "+QUEUED\r\n";
  }
  expected += "*300\r\n";
  for (int i = 0; i < kGets; ++i) expected += reply;
  std::vector<std::string> ran;
  state_->on_command = [&](const Session&, std::span<const std::string_view> args, bool) {
    ran.emplace_back(args.empty() ? "" : args[0]);
  };
  link_->room = 0;
  Arrives(all + Request({"EXEC"}) + Request({"PING"}));
  Flushed();
  std::string got;
  while (std::exchange(link_->awaits_writable, false)) {
    link_->room = 300'000;
    connection_->OnWritable(false);
    Flushed();
    got += TakeSent();
  }
  EXPECT_EQ(got.size(), expected.size() + 7);
  EXPECT_TRUE(got == expected + "+PONG\r\n");
  ASSERT_GE(ran.size(), 2U);
  EXPECT_EQ(ran[ran.size() - 2], "EXEC");
  EXPECT_EQ(ran.back(), "PING");
}

// Of several keys some were set and others not when the client of the command had gone.
TEST_F(ConnectionTest, AClientThatGoesLeavesNoCommandHalfDone) {
  for (const std::vector<std::vector<std::string>>& requests :
       {std::vector<std::vector<std::string>>{{"MSETNX", "a", "1", "b", "2", "c", "3"}},
        {{"MSET", "a", "1", "b", "2", "c", "3"}},
        {{"MULTI"}, {"SET", "a", "1"}, {"GET", "a"}, {"MSET", "b", "2", "c", "3"}, {"EXEC"}}}) {
    std::string all;
    for (const auto& words : requests) all += Request(words);
    Arrives(all + Request({"SET", "later", "4"}));
    Flushed();
    connection_->Close();  // The first value is on its way to the disk.
    EXPECT_FALSE(link_->closed) << requests[0][0];
    while (!link_->closed && !HasFailure()) {
      if (std::exchange(link_->timer, false)) {
        connection_->OnTimer();
      } else {
        link_->RunPosted();
      }
    }
    Connect();
    EXPECT_EQ(Ask({"EXISTS", "a", "b", "c"}), ":3\r\n") << requests[0][0];
    EXPECT_EQ(Ask({"EXISTS", "later"}), ":0\r\n");
    EXPECT_EQ(Ask({"DEL", "a", "b", "c"}), ":3\r\n") << "nobody holds them";
  }
}

TEST_F(ConnectionTest, AClientThatGoesEndsACommandThatHasWrittenNothing) {
  ASSERT_EQ(Ask({"SET", "a", "1"}), "+OK\r\n");
  Arrives(Request({"MULTI"}) + Request({"GET", "a"}) + Request({"SET", "b", "2"}) +
          Request({"EXEC"}));
  connection_->Close();
  EXPECT_TRUE(link_->closed);
  link_->RunPosted();  // What GET has read.
  Connect();
  EXPECT_EQ(Ask({"EXISTS", "a", "b"}), ":1\r\n");
}

// Values that are read from disk, more than may be lent beside the tiers at once (64 MiB).
class ManyValuesTest : public ConnectionTest {
 protected:
  static constexpr int kKeys = 12;
  void SetUp() override {
    disk_capacity_ = 256 * kMiB;
    ConnectionTest::SetUp();
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_EQ(Ask({"SET", "k" + std::to_string(i), Value(i)}), "+OK\r\n");
    }
  }
  static std::string Value(int i) { return std::string(8 * kMiB, static_cast<char>('a' + i)); }
  static std::string Bulk(int i) {
    return "$" + std::to_string(8 * kMiB) + "\r\n" + Value(i) + "\r\n";
  }
  // All replies, to a client that reads little at a time.
  std::string Read(std::size_t bytes) {
    std::string all = TakeSent();
    while (all.size() < bytes && !HasFailure()) {
      link_->room = 3 * kMiB;
      clock_->Advance(std::chrono::seconds(1));
      if (std::exchange(link_->awaits_writable, false)) {
        connection_->OnWritable(false);
      } else if (std::exchange(link_->timer, false)) {
        connection_->OnTimer();
      } else {
        link_->RunPosted();
      }
      Flushed();
      all += TakeSent();
    }
    return all;
  }
};

// They were read all at once, again and again, and after 10 s the answer was an error.
TEST_F(ManyValuesTest, MGetAnswersMoreThanHasRoomInMemoryTogether) {
  std::vector<std::string> words{"MGET"};
  std::string expected = "*14\r\n";
  for (int i = 0; i < kKeys; ++i) {
    words.push_back("k" + std::to_string(i));
    expected += Bulk(i);
    if (i != 3) continue;
    words.insert(words.end(), {"none", "k3"});
    expected += "$-1\r\n" + Bulk(3);
  }
  link_->room = 0;
  Arrives(Request(words));
  EXPECT_TRUE(Read(expected.size()) == expected);
  link_->room = SIZE_MAX;
  EXPECT_EQ(Ask({"PING"}), "+PONG\r\n");
}

// A client that had not read what it was given got an error for the next value.
TEST_F(ManyValuesTest, GetsWaitForTheirClientToReadAndNotForOthers) {
  std::string all;
  std::string expected;
  for (int i = 0; i < kKeys; ++i) {
    all += Request({"GET", "k" + std::to_string(i)});
    expected += Bulk(i);
  }
  link_->room = 0;
  Arrives(all);
  EXPECT_TRUE(Read(expected.size()) == expected);
  link_->room = 0;
  all = Request({"MULTI"});
  std::string queued = "+OK\r\n";
  for (int i = 0; i < kKeys; ++i) {
    all += Request({"GET", "k" + std::to_string(i)});
    queued += "+QUEUED\r\n";
  }
  Arrives(all + Request({"EXEC"}));
  expected = queued + "*12\r\n" + expected;
  EXPECT_TRUE(Read(expected.size()) == expected);
}

// What is in memory, too, is answered in parts where its copies are more than may be held.
TEST_F(ManyValuesTest, MGetOfManySmallValuesIsAnsweredInParts) {
  state_->settings.output_max = 2 * kMiB;
  pressure_->Set(0.1);
  cache_->Apply();
  clock_->Advance(std::chrono::minutes(1));
  cache_->Apply();  // No EMERGENCY any more: values are in memory.
  const std::string value(500, 's');
  ASSERT_EQ(Ask({"SET", "small", value}), "+OK\r\n");
  std::vector<std::string> words(10'001, "small");
  words[0] = "MGET";
  std::string expected = "*10000\r\n";
  for (int i = 0; i < 10'000; ++i) expected += "$500\r\n" + value + "\r\n";
  link_->room = 0;
  Arrives(Request(words));
  EXPECT_TRUE(Read(expected.size()) == expected);
}

// Memory alone, in which two large values have no room beside one another.
class LittleMemoryTest : public ConnectionTest {
 protected:
  void SetUp() override {
    config_.cache.capacity = 8 * kMiB;
    config_.server.on_blocked = OnBlocked::kError;
    Open();
    Connect();
  }
  // Several clients: the one in use, and others put by.
  struct Client {
    HandLink* link;
    std::shared_ptr<Connection> connection;
  };
  Client Take() { return {link_, connection_}; }
  void Use(const Client& client) {
    link_ = client.link;
    connection_ = client.connection;
  }
  static std::string Bulk(const std::string& value) {
    return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }
  const std::string old_ = std::string(5 * kMiB, 'o');
  const std::string new_ = std::string(5 * kMiB, 'n');
};

// Room for the new value was made of the old one before the command had decided.
TEST_F(LittleMemoryTest, ALargeValueDoesNotDestroyTheOldOneBeforeItsCommandRuns) {
  ASSERT_EQ(Ask({"SET", "k", old_, "EX", "1000"}), "+OK\r\n");
  EXPECT_EQ(Ask({"SETNX", "k", new_}), ":0\r\n");
  EXPECT_EQ(Ask({"SET", "k", new_, "NX"}), "$-1\r\n");
  EXPECT_EQ(Ask({"SET", "k", new_, "BOGUS"}), "-ERR syntax error\r\n");
  EXPECT_TRUE(Ask({"SET", "k", new_, "XX", "KEEPTTL", "GET"}) == Bulk(old_));
  EXPECT_EQ(Ask({"TTL", "k"}), ":1000\r\n");
  EXPECT_TRUE(Ask({"GETSET", "k", old_}) == Bulk(new_));
  EXPECT_EQ(Ask({"TTL", "k"}), ":-1\r\n");
  EXPECT_EQ(Ask({"PSETEX", "k", "1000000", new_}), "+OK\r\n");
  EXPECT_EQ(Ask({"SPILL.SET", "k", old_, "TOKENS", "3"}), "+OK\r\n");
  EXPECT_TRUE(Ask({"GETDEL", "k"}) == Bulk(old_));
  EXPECT_EQ(Ask({"SET", "k", new_, "XX"}), "$-1\r\n");
  EXPECT_EQ(Ask({"SETNX", "k", old_}), ":1\r\n");
  EXPECT_EQ(state_->aside->load(), 0U);
}

TEST_F(LittleMemoryTest, AClientThatGoesWithHalfAValueLeavesTheOldOne) {
  ASSERT_EQ(Ask({"SET", "k", old_}), "+OK\r\n");
  Arrives(Request({"SET", "k", new_}).substr(0, 3 * kMiB));
  EXPECT_GT(state_->aside->load(), 0U);
  connection_->Close();
  EXPECT_EQ(state_->aside->load(), 0U);
  Connect();
  EXPECT_TRUE(Ask({"GET", "k"}) == Bulk(old_));
  // Of a value in pieces, too; there is no room for it beside the old one.
  EXPECT_EQ(Ask({"SPILL.BEGIN", "k", std::to_string(5 * kMiB)}),
            "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
  EXPECT_TRUE(Ask({"GET", "k"}) == Bulk(old_));
  ASSERT_EQ(Ask({"SPILL.BEGIN", "k", std::to_string(2 * kMiB)}), "+OK\r\n");
  EXPECT_TRUE(Ask({"GET", "k"}) == Bulk(old_));
  EXPECT_EQ(Ask({"SPILL.APPEND", std::string(2 * kMiB, 'p')}), ":2097152\r\n");
  EXPECT_EQ(Ask({"SPILL.COMMIT"}), "+OK\r\n");
  EXPECT_EQ(Ask({"STRLEN", "k"}), ":2097152\r\n");
}

// Values beside the tiers have a bound of their own, and who does not send gives way.
TEST_F(LittleMemoryTest, ValuesBesideTheTiersAreBounded) {
  state_->settings.bulk_max = 8 * kMiB;
  ASSERT_EQ(Ask({"SET", "k", old_}), "+OK\r\n");
  Arrives(Request({"SET", "k", new_}).substr(0, kMiB));
  EXPECT_EQ(state_->aside->load(), 5 * kMiB);
  HandLink* const first_link = link_;
  const std::shared_ptr<Connection> first = connection_;
  Connect();
  Arrives(Request({"GETSET", "k", new_}));
  EXPECT_TRUE(link_->timer);
  EXPECT_EQ(state_->aside->load(), 5 * kMiB);
  clock_->Advance(RoomPace::kWithin + std::chrono::milliseconds(200));
  link_->timer = false;
  connection_->OnTimer();
  first_link->RunPosted();
  EXPECT_TRUE(Answer() == Bulk(old_));
  EXPECT_EQ(state_->aside->load(), 0U);
  first->Close();
}

// Each of its commands waited for as long as one may, and its keys were held for as long as all.
TEST_F(LittleMemoryTest, AllWritesOfAnExecThatWaitInVainHaveOneBound) {
  ASSERT_EQ(Ask({"SPILL.BEGIN", "slow", std::to_string(7 * kMiB)}), "+OK\r\n");
  const Client slow = Take();
  clock_->Advance(RoomPace::kWithin);  // It is told to give its room up, and never does.
  Connect();
  ASSERT_EQ(Ask({"MULTI"}), "+OK\r\n");
  std::string expected = "*12\r\n";
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(Ask({"SET", "k" + std::to_string(i), std::string(2 * kMiB, 'v')}), "+QUEUED\r\n");
    expected += "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  }
  Arrives(Request({"EXEC"}));
  Duration waited{};
  while (std::exchange(link_->timer, false) && waited < WaitBound::kMost) {
    clock_->Advance(std::chrono::milliseconds(10));
    waited += std::chrono::milliseconds(10);
    connection_->OnTimer();
  }
  Flushed();
  EXPECT_EQ(TakeSent(), expected);
  EXPECT_GE(waited, WaitBound::kAlone);
  EXPECT_LT(waited, WaitBound::kMost);
  // The next request has a bound of its own.
  Arrives(Request({"SET", "k", std::string(2 * kMiB, 'v')}));
  clock_->Advance(WaitBound::kAlone - std::chrono::milliseconds(10));
  ASSERT_TRUE(std::exchange(link_->timer, false));
  connection_->OnTimer();
  ASSERT_TRUE(link_->timer);
  EXPECT_EQ(TakeSent(), "");
  slow.link->RunAllPosted();
  EXPECT_EQ(Answer(), "+OK\r\n");
  slow.connection->Close();
}

// Pieces of no bytes, or of a few, kept the room of SPILL.BEGIN from all others for ever.
TEST_F(LittleMemoryTest, RoomIsKeptForWhoFillsItAndNotForATrickle) {
  const std::vector<std::string> begin{"SPILL.BEGIN", "slow", std::to_string(7 * kMiB)};
  ASSERT_EQ(Ask(begin), "+OK\r\n");
  const Client slow = Take();
  Connect();
  const Client other = Take();
  // The other client sends a large value. False: it waits for its room, or has set it.
  const auto is_refused = [&] {
    Use(other);
    if (std::exchange(link_->timer, false)) {
      connection_->OnTimer();
    } else {
      Arrives(Request({"SET", "k", new_}));
    }
    while (!link_->incoming.empty() && std::exchange(link_->awaits_readable, false)) {
      connection_->OnReadable(false);
    }
    Flushed();
    slow.link->RunAllPosted();
    return TakeSent().starts_with("-OOM");
  };
  int steps = 0;
  while (is_refused() && ++steps < 100) {
    clock_->Advance(std::chrono::milliseconds(300));
    Use(slow);
    ASSERT_EQ(Ask({"SPILL.APPEND", steps % 2 == 0 ? "" : "x"}),
              steps % 2 == 0 ? ":0\r\n" : ":1\r\n");
    ASSERT_EQ(Ask(begin), "+OK\r\n");
  }
  EXPECT_EQ(steps, 4) << "a second";
  Use(slow);
  EXPECT_THAT(Ask({"SPILL.APPEND", "y"}), ::testing::HasSubstr("given to another write"));
  Use(other);
  EXPECT_EQ(Answer(), "+OK\r\n");
  ASSERT_EQ(Ask({"DEL", "k"}), ":1\r\n");
  // A client that sends enough keeps it.
  Use(slow);
  ASSERT_EQ(Ask(begin), "+OK\r\n");
  for (int i = 1; i <= 28; ++i) {
    clock_->Advance(std::chrono::milliseconds(900));
    ASSERT_TRUE(is_refused());
    Use(slow);
    ASSERT_EQ(Ask({"SPILL.APPEND", std::string(256 * kKiB, 's')}),
              ":" + std::to_string(i * 256 * 1024) + "\r\n");
  }
  EXPECT_EQ(Ask({"SPILL.COMMIT"}), "+OK\r\n");
  slow.connection->Close();
  Use(other);
}

}  // namespace
}  // namespace spillway::server
