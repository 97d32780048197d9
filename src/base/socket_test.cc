// SPDX-License-Identifier: Apache-2.0
#include "base/socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using ::testing::HasSubstr;

constexpr Duration kWithin = std::chrono::seconds(20);

// The socket is one end of a pair; the test holds the other.
class SocketTest : public ::testing::Test {
 protected:
  SocketTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const timeval bound{.tv_sec = 0, .tv_usec = 50'000};
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      ::setsockopt(ends[0], SOL_SOCKET, option, &bound, sizeof bound);
    }
    socket_.emplace(ends[0]);
    theirs_ = ends[1];
  }
  ~SocketTest() override { HangUp(); }
  void HangUp() {
    if (theirs_ >= 0) ::close(std::exchange(theirs_, -1));
  }
  void Say(const std::string& text) const {
    ASSERT_EQ(::write(theirs_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  std::optional<Socket> socket_;
  int theirs_ = -1;
};

TEST_F(SocketTest, LinesAndBytesComeInTurn) {
  Say("one\r\n\r\nab\r\ncd" + std::string(100'000, 'x') + "last\r\n");
  EXPECT_EQ(socket_->ReadLine().value(), "one");
  EXPECT_EQ(socket_->ReadLine().value(), "");
  EXPECT_EQ(socket_->ReadBytes(6).value(), "ab\r\ncd");
  EXPECT_EQ(socket_->ReadBytes(100'000).value(), std::string(100'000, 'x'));
  EXPECT_EQ(socket_->ReadLine().value(), "last");
}

TEST_F(SocketTest, WaitsOnlySoLong) {
  EXPECT_EQ(socket_->ReadLine().error().code, Code::kDeadline);
  Say("half a line");
  EXPECT_EQ(socket_->ReadLine().error().code, Code::kDeadline);
  EXPECT_EQ(socket_->ReadBytes(100).error().code, Code::kDeadline);
  // The other side reads nothing.
  EXPECT_EQ(socket_->SendAll(std::string(64 << 20, 'x')).error().code, Code::kDeadline);
}

TEST_F(SocketTest, ALineHasAnEnd) {
  for (int i = 0; i < 2; ++i) Say(std::string(40'000, 'x'));
  const Result<std::string> line = socket_->ReadLine();
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().message, HasSubstr("a line is too long"));
}

TEST_F(SocketTest, AnotherSideThatIsGoneIsAnError) {
  Say("ab");
  HangUp();
  EXPECT_EQ(socket_->ReadBytes(3).error().code, Code::kUnavailable);
  EXPECT_EQ(socket_->ReadLine().error().code, Code::kUnavailable);
  EXPECT_EQ(socket_->SendAll("x").error().code, Code::kUnavailable);  // And no SIGPIPE.
}

TEST(Socket, WhereNothingListensTheErrorNamesTheAddress) {
  const Result<Socket> path = Socket::ConnectUnix("/nowhere/spillway.sock", kWithin);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().message, "/nowhere/spillway.sock: No such file or directory");
  const std::string too_long = "/" + std::string(200, 'x');
  EXPECT_THAT(Socket::ConnectUnix(too_long, kWithin).error().message,
              HasSubstr("x: File name too long"));
  EXPECT_EQ(ConnectUnix("/nowhere/spillway.sock"), -ENOENT);
  EXPECT_EQ(ConnectUnix(too_long), -ENAMETOOLONG);
  const Result<Socket> port = Socket::ConnectHost("127.0.0.1", 1, kWithin);
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().message, "127.0.0.1:1: Connection refused");
  EXPECT_THAT(Socket::ConnectHost("no host", 1, kWithin).error().message, HasSubstr("no host:1: "));
}

TEST(Socket, ConnectsToAHost) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  ASSERT_EQ(::bind(listener, address, bytes), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, address, &bytes), 0);
  Result<Socket> socket = Socket::ConnectHost("127.0.0.1", ntohs(at.sin_port), kWithin);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_TRUE(socket->SendAll("hello"));
  const int accepted = ::accept(listener, nullptr, nullptr);
  std::array<char, 5> heard{};
  EXPECT_EQ(::recv(accepted, heard.data(), heard.size(), MSG_WAITALL), 5);
  ::close(accepted);
  ::close(listener);
}

}  // namespace
}  // namespace spillway
