#include "demo/client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/http_client.h"
#include "demo/socket_contexts.h"

namespace spillway::demo {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A client at one end; the test is the daemon at the other.
class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const timeval bound{.tv_sec = 0, .tv_usec = 50'000};
    ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    client_.emplace(Socket(ends[0]));
    theirs_ = ends[1];
  }
  void TearDown() override {
    if (theirs_ >= 0) ::close(theirs_);
  }
  void Say(const std::string& text) {
    ASSERT_EQ(::write(theirs_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string Heard() const {
    std::string text(1 << 16, '\0');
    const ssize_t n = ::recv(theirs_, text.data(), text.size(), MSG_DONTWAIT);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return text;
  }

  std::optional<Client> client_;
  int theirs_ = -1;
};

TEST_F(ClientTest, SaysWordsAndUnderstandsEveryKindOfReply) {
  Say("+OK\r\n:42\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n");
  EXPECT_EQ(client_->Ask({"SPILL.GET", "a key"})->text, "OK");
  EXPECT_EQ(Heard(), "*2\r\n$9\r\nSPILL.GET\r\n$5\r\na key\r\n");
  EXPECT_EQ(client_->Receive()->number, 42);
  EXPECT_EQ(client_->Receive()->text, "a\r\n");
  EXPECT_EQ(client_->Receive()->kind, Reply::Kind::kNothing);
  EXPECT_EQ(client_->Receive()->kind, Reply::Kind::kNothing);
}

TEST_F(ClientTest, AListIsAMapByName) {
  Say("*4\r\n$6\r\ntokens\r\n:256\r\n$5\r\nvalue\r\n$2\r\nxy\r\n");
  const Result<Reply> reply = client_->Receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->Named("tokens")->number, 256);
  EXPECT_EQ(reply->Named("value")->text, "xy");
  EXPECT_EQ(reply->Named("256"), nullptr);
}

TEST_F(ClientTest, ARefusedWriteIsBlockedAndAllElseUnavailable) {
  Say("-OOM command not allowed when used memory > 'maxmemory'.\r\n-ERR no such run\r\n");
  EXPECT_EQ(client_->Ask({"SPILL.SET"}).error().code, Code::kBlocked);
  const Result<Reply> other = client_->Ask({"SPILL.GRAPH"});
  EXPECT_EQ(other.error().code, Code::kUnavailable);
  EXPECT_EQ(other.error().message, "ERR no such run");
}

TEST_F(ClientTest, LargeWordsAndTextsArriveWhole) {
  const std::string large(100'000, 'x');
  std::string reply = "$100000\r\n" + large + "\r\n";
  Say(reply);
  const std::array<std::string_view, 3> words = {"SET", "k", large};
  const Result<Reply> got = client_->Ask(words);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text, large);
  std::string heard;
  for (std::string more = Heard(); !more.empty(); more = Heard()) heard += more;
  EXPECT_EQ(heard, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n" + large + "\r\n");
}

TEST_F(ClientTest, WhatIsNoRedisIsAnError) {
  for (const char* line : {"HTTP/1.1 400 Bad Request\r\n", "\r\n", "$x\r\n", "$-7\r\n",
                           "$99999999999\r\n", "*1\r\n*1\r\n", "*-3\r\n", "$1\r\nabc"}) {
    SetUp();
    Say(line);
    const Result<Reply> reply = client_->Receive();
    ASSERT_FALSE(reply) << line;
    EXPECT_THAT(reply.error().message, HasSubstr("no spillwayd")) << line;
    TearDown();
  }
}

TEST_F(ClientTest, WaitsOnlySoLong) {
  const Result<Reply> none = client_->Receive();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kDeadline);
  Say("$5\r\nab");
  EXPECT_EQ(client_->Receive().error().code, Code::kDeadline);
}

TEST_F(ClientTest, ADaemonThatHasGoneIsAnError) {
  ::close(std::exchange(theirs_, -1));
  EXPECT_EQ(client_->Ask({"PING"}).error().code, Code::kUnavailable);
}

TEST(Client, NobodyThereNamesThePath) {
  const Result<Client> client = Client::Connect("/nowhere/spillway.sock");
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, HasSubstr("/nowhere/spillway.sock"));
  EXPECT_FALSE(Client::Connect("/" + std::string(200, 'x')));
}

TEST(SocketContexts, WithoutADaemonEveryCallIsAnError) {
  SocketContexts contexts("/nowhere/spillway.sock");
  const std::array<std::string_view, 1> keys = {"k"};
  EXPECT_FALSE(contexts.Read(keys, [](std::size_t, const Found&) { FAIL(); }));
  EXPECT_FALSE(contexts.Match(keys));
  EXPECT_FALSE(contexts.Set({"k", "", 1}, "a", {}));
  EXPECT_FALSE(contexts.Forget(keys));
}

}  // namespace
}  // namespace spillway::demo
