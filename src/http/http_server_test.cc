// SPDX-License-Identifier: Apache-2.0
// The server on real sockets, with misbehaving clients.
#include "http/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/testing/api_fixture.h"

namespace spillway::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval bound{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(std::string_view text) {
    ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);  // The server may have closed it already.
  }
  // Reads until `end` arrives or the server closes.
  std::string Until(std::string_view end) {
    std::string got;
    char buffer[4096];
    while (got.find(end) == std::string::npos) {
      const ssize_t bytes = ::recv(fd_, buffer, sizeof buffer, 0);
      if (bytes <= 0) return got + "(closed)";
      got.append(buffer, static_cast<std::size_t>(bytes));
    }
    return got;
  }
  std::string Rest() { return Until("never to be seen"); }
  std::string Get(const std::string& target) {
    Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return Rest();
  }

 private:
  const int fd_;
};

class HttpServerTest : public testing::ApiTest {
 protected:
  std::uint16_t Open() {
    server_ = HttpServer::Open(settings_, api_.get()).value();
    return server_->port();
  }

  HttpSettings settings_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersOneRequestAfterAnother) {
  Client client(Open());
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const std::string answer = client.Until("ok\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("Content-Length: 3\r\n"));
  }
  // Two requests at once.
  client.Send(
      "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.Until("http_hosts"), HasSubstr("ready\n"));
  client.Send("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string head = client.Rest();
  EXPECT_THAT(head, HasSubstr("200 OK"));
  EXPECT_THAT(head, ::testing::EndsWith("\r\n\r\n(closed)"));
  EXPECT_EQ(server_->counts().requests, 6U);
}

TEST_F(HttpServerTest, ControlsRunBesideTheOthers) {
  password_ = "p";
  const std::uint16_t port = Open();
  Client slow(port);
  const std::string body = R"({"bytes":"1GiB","within":"1s"})";
  slow.Send(
      "POST /api/v1/reclaim HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer p\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body);
  EXPECT_THAT(Client(port).Get("/healthz"), HasSubstr("ok\n"));
  EXPECT_THAT(slow.Rest(), HasSubstr("why_not_more"));
}

TEST_F(HttpServerTest, StreamsTellWhatHappens) {
  const std::uint16_t port = Open();
  Client client(port);
  client.Send("GET /api/v1/live?every=100ms HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.Until("event: state"), HasSubstr("text/event-stream"));
  ASSERT_TRUE(cache_->Set("gone", Source(std::string_view("v"))));
  cache_->Erase("gone");
  EXPECT_THAT(client.Until("event: left"), HasSubstr("id: 1"));
  EXPECT_EQ(server_->counts().streams, 1U);
  // An event received before is not sent again, whatever the URL says.
  Client again(port);
  again.Send(
      "GET /api/v1/live?every=100ms&after=0 HTTP/1.1\r\nHost: localhost\r\n"
      "Last-Event-ID: 1\r\n\r\n");
  EXPECT_THAT(again.Until("event: state"), ::testing::Not(HasSubstr("event: left")));
}

TEST_F(HttpServerTest, StreamsAndClientsHaveABound) {
  settings_.clients_max = 3;
  settings_.streams_max = 1;
  const std::uint16_t port = Open();
  Client first(port);
  first.Send("GET /api/v1/live?every=100ms HTTP/1.1\r\nHost: localhost\r\n\r\n");
  first.Until("event: state");
  Client second(port);
  second.Send("GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(second.Rest(), HasSubstr("503"));
  std::vector<std::unique_ptr<Client>> more;
  for (int i = 0; i < 10; ++i) {
    more.push_back(std::make_unique<Client>(port));
    more.back()->Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(more.back()->Until("ok\n"), HasSubstr("200 OK"));
    EXPECT_LE(server_->counts().clients, 3U);
  }
  // Connections that only stay open are closed for new ones; the stream is not.
  EXPECT_EQ(more.front()->Rest(), "(closed)");
  EXPECT_EQ(server_->counts().streams, 1U);
  EXPECT_THAT(first.Until("event: state"), HasSubstr("event: state"));
  EXPECT_GE(server_->counts().closed_for_others, 8U);
}

// As many of each kind as there are places, and more: /healthz is always answered.
TEST_F(HttpServerTest, ClientsThatWaitOrStallNeverKeepAWholeRequestOut) {
  settings_.clients_max = 64;
  settings_.streams_max = 16;
  const std::uint16_t port = Open();
  const auto healthy = [&] { return Client(port).Get("/healthz"); };
  const std::string live = "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string whole = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::vector<std::unique_ptr<Client>> open;
  const auto add = [&](const std::string& text, std::string_view until) {
    open.push_back(std::make_unique<Client>(port));
    open.back()->Send(text);
    if (!until.empty()) open.back()->Until(until);
  };
  for (int i = 0; i < 20; ++i) add(live, i < 16 ? "event: state" : "503");
  EXPECT_THAT(healthy(), HasSubstr("ok\n"));
  for (int i = 0; i < 100; ++i) add("", "");  // Nothing sent.
  EXPECT_THAT(healthy(), HasSubstr("ok\n"));
  for (int i = 0; i < 100; ++i) add(whole, "ok\n");  // Idle after one request.
  EXPECT_THAT(healthy(), HasSubstr("ok\n"));
  for (int i = 0; i < 300; ++i) add("GET /healthz HTTP/1.1\r\nHost: loc", "");
  EXPECT_THAT(healthy(), HasSubstr("ok\n"));
  for (int i = 0; i < 100; ++i) {
    add("POST /api/v1/drop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", "");
  }
  // Single bytes from time to time do not keep a connection open.
  for (const char byte : std::string("alhost\r\nX: y")) {
    for (const auto& each : open) each->Send(std::string_view(&byte, 1));
    EXPECT_THAT(healthy(), HasSubstr("ok\n"));
  }
  EXPECT_LE(server_->counts().clients, 64U);
  EXPECT_EQ(server_->counts().streams, 16U);
  EXPECT_EQ(server_->counts().refused, 0U);
}

TEST_F(HttpServerTest, HalfSentBodiesHoldNoMoreMemoryThanAllMay) {
  settings_.body_max = 100'000;
  settings_.held_max = 1'000'000;
  const std::uint16_t port = Open();
  std::vector<std::unique_ptr<Client>> open;
  for (int i = 0; i < 30; ++i) {
    open.push_back(std::make_unique<Client>(port));
    open.back()->Send(
        "POST /api/v1/drop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n{");
  }
  // Ten of them hold as much as all may hold: the first twenty are closed.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(open[static_cast<std::size_t>(i)]->Rest(), "(closed)");
  EXPECT_EQ(server_->counts().closed_for_others, 20U);
  EXPECT_EQ(server_->counts().clients, 10U);
  EXPECT_THAT(Client(port).Get("/healthz"), HasSubstr("ok\n"));
}

// Each byte comes in time, but not all of them together.
TEST_F(HttpServerTest, AHeaderByteByByteEndsAtItsDeadline) {
  settings_.header_within = std::chrono::milliseconds(200);
  settings_.request_within = std::chrono::hours(1);
  settings_.idle_max = std::chrono::hours(1);
  const std::uint16_t port = Open();
  Client drip(port);
  drip.Send("GET /healthz HTTP/1.1\r\nX: ");
  std::jthread sender([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      drip.Send("y");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // real world: a slow client
    }
  });
  EXPECT_EQ(drip.Rest(), "(closed)");
}

TEST_F(HttpServerTest, WhatIsNoHttpIsToldSo) {
  const std::uint16_t port = Open();
  Client resp(port);
  resp.Send("*1\r\n$4\r\nPING\r\n");
  EXPECT_THAT(resp.Rest(), StartsWith("HTTP/1.1 400"));
  Client noise(port);
  noise.Send(std::string(100'000, '\xff'));
  EXPECT_THAT(noise.Rest(), ::testing::AnyOf(StartsWith("HTTP/1.1 4"), "(closed)"));
  Client headers(port);
  headers.Send("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x'));
  EXPECT_THAT(headers.Rest(), ::testing::AnyOf(StartsWith("HTTP/1.1 431"), "(closed)"));
  Client body(port);
  body.Send("POST /api/v1/drop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_THAT(body.Rest(), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Client(port).Get("/healthz"), HasSubstr("ok\n"));
}

TEST_F(HttpServerTest, WhoIsSlowIsClosed) {
  settings_.header_within = std::chrono::milliseconds(200);
  settings_.idle_max = std::chrono::milliseconds(300);
  const std::uint16_t port = Open();
  Client silent(port);
  Client half(port);
  half.Send("GET /healthz HTT");
  EXPECT_THAT(half.Rest(), HasSubstr("(closed)"));
  EXPECT_EQ(silent.Rest(), "(closed)");
}

TEST_F(HttpServerTest, TwoCanNotHaveOnePort) {
  settings_.port = Open();
  const auto second = HttpServer::Open(settings_, api_.get());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(settings_.port)));
  EXPECT_THAT(second.error().message, HasSubstr("http_port"));
  settings_.bind = "nowhere";
  EXPECT_THAT(HttpServer::Open(settings_, api_.get()).error().message, HasSubstr("nowhere"));
}

TEST_F(HttpServerTest, EndsWhateverIsOpen) {
  const std::uint16_t port = Open();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<Client>(port));
    if (i % 2 == 0) {
      clients.back()->Send("GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
      clients.back()->Until("event: state");
    }
  }
  server_.reset();
  EXPECT_THAT(clients.front()->Rest(), HasSubstr("(closed)"));
}

}  // namespace
}  // namespace spillway::http
