// SPDX-License-Identifier: Apache-2.0
#include "http/http_server.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "base/quiet_thread.h"
#include "http/connections.h"
#include "http/stream.h"
#include "spillway/version.h"

namespace spillway::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {
constexpr std::size_t kReadAtOnce = 16 * kKiB;
}  // namespace

// State shared by all connections. All is used on the one thread, except `pool`.
struct Shared {
  Shared(const HttpSettings& given, const Api* answers)
      : settings(given), api(answers), connections(given.clients_max, given.held_max) {}

  // Streams and requests in progress are never closed for others. Together they are kept below the
  // limit, so that at least one place remains for a new connection.
  std::size_t streams_max() const {
    return std::min(settings.streams_max, std::max<std::size_t>(settings.clients_max, 1) - 1);
  }
  std::size_t working_max() const {
    return std::max<std::size_t>((settings.clients_max - streams_max()) / 2, 1);
  }

  const HttpSettings settings;
  const Api* const api;
  Connections connections;
  std::size_t working = 0;    // Requests the pool is working on.
  asio::thread_pool pool{2};  // Two threads, so that a query does not wait for a reclaim.
  bool stopping = false;
  std::atomic<std::uint64_t> clients{0};
  std::atomic<std::uint64_t> streams{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> closed_for_others{0};
};

// One connection, from request to request until one side ends it. It lives as long as a callback
// refers to it.
class Session : public Connection, public std::enable_shared_from_this<Session> {
 public:
  Session(Tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), timer_(stream_.get_executor()), shared_(std::move(shared)) {}
  ~Session() override { Leave(); }

  // False: all other connections are busy.
  bool Enter(const std::string& peer) {
    if (!shared_->connections.Add(this, peer)) return false;
    Tell();
    return true;
  }
  void Read();
  void Close() override {
    Leave();
    timer_.cancel();
    stream_.close();
  }

 private:
  using Response = beast::http::response<beast::http::string_body>;

  void Leave() {
    shared_->connections.Remove(this);
    if (std::exchange(is_stream_, false)) --shared_->streams;
    Tell();
  }
  void Tell() const {
    shared_->clients = shared_->connections.count();
    shared_->closed_for_others = shared_->connections.closed_for_others();
  }
  void ReadHeader();
  void HeardHeader(const ErrorCode& error);
  void Heard(const ErrorCode& error);
  void Work(Answer answer);
  void Respond(Answer answer);
  void Refuse(int status, std::string_view why);
  void Send(Response response, bool then_close);
  void BeginStream(const Answer& answer);
  void StepStream();
  void AwaitStep();

  beast::tcp_stream stream_;
  asio::steady_timer timer_;
  const std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_{kReadAtOnce * 32};
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  std::optional<Response> response_;
  // Only for streams.
  bool is_stream_ = false;
  std::string chunk_;
  std::shared_ptr<Stream> told_;
};

void Session::Read() {
  parser_.emplace();
  response_.reset();
  parser_->header_limit(shared_->settings.header_max);
  parser_->body_limit(shared_->settings.body_max);
  shared_->connections.Hold(this, 0);
  shared_->connections.AwaitClient(this);
  // A client may be idle between requests, but not within one.
  stream_.expires_after(shared_->settings.idle_max);
  if (buffer_.size() > 0) return ReadHeader();
  stream_.async_read_some(buffer_.prepare(kReadAtOnce),
                          [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                            if (error) return self->Close();
                            self->buffer_.commit(bytes);
                            self->ReadHeader();
                          });
}

// The time limit runs from the first byte and is not extended by further ones, so a client that
// sends single bytes slowly gains nothing.
void Session::ReadHeader() {
  stream_.expires_after(shared_->settings.header_within);
  beast::http::async_read_header(stream_, buffer_, *parser_,
                                 [self = shared_from_this()](const ErrorCode& error, std::size_t) {
                                   self->HeardHeader(error);
                                 });
}

void Session::HeardHeader(const ErrorCode& error) {
  if (error || parser_->is_done()) return Heard(error);
  const auto length = parser_->content_length();
  shared_->connections.Hold(this, length ? *length : shared_->settings.body_max);
  stream_.expires_after(shared_->settings.request_within);
  beast::http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](const ErrorCode& wrong, std::size_t) { self->Heard(wrong); });
}

void Session::Heard(const ErrorCode& error) {
  if (error == beast::http::error::header_limit) {
    return Refuse(431, "the request's headers are too long");
  }
  if (error == beast::http::error::body_limit) return Refuse(413, "the request's body is too long");
  if (error.category() == beast::http::make_error_code(beast::http::error::bad_method).category() &&
      error != beast::http::error::end_of_stream && error != beast::http::error::partial_message) {
    return Refuse(400, "this is not HTTP/1.1");
  }
  if (error) return Close();
  ++shared_->requests;
  const auto& message = parser_->get();
  const auto field = [&](beast::http::field name) {
    const beast::string_view text = message[name];
    return std::string_view(text.data(), text.size());
  };
  const auto view = [](beast::string_view text) {
    return std::string_view(text.data(), text.size());
  };
  Request request{.method = view(message.method_string()),
                  .target = view(message.target()),
                  .host = field(beast::http::field::host),
                  .origin = field(beast::http::field::origin),
                  .authorization = field(beast::http::field::authorization),
                  .content_type = field(beast::http::field::content_type),
                  .accept_encoding = field(beast::http::field::accept_encoding),
                  .if_none_match = field(beast::http::field::if_none_match),
                  .body = message.body()};
  // A browser that lost its stream sends the last event it received.
  const beast::string_view heard = message["Last-Event-ID"];
  std::string target;
  if (!heard.empty()) {
    const std::size_t mark = std::min(request.target.find('?'), request.target.size());
    target = fmt::format("{}?after={}&{}", request.target.substr(0, mark), view(heard),
                         request.target.substr(std::min(mark + 1, request.target.size())));
    request.target = target;
  }
  Answer answer;
  try {
    answer = shared_->api->Handle(request);
  } catch (const std::bad_alloc&) {
    return Refuse(503, "no memory");
  }
  if (answer.live) return BeginStream(answer);
  if (!answer.later) return Respond(std::move(answer));
  Work(std::move(answer));
}

void Session::Work(Answer answer) {
  if (shared_->working >= shared_->working_max()) {
    return Refuse(503, "too many requests are in progress");
  }
  ++shared_->working;
  shared_->connections.Keep(this);
  stream_.expires_never();  // The work has its own time limit.
  asio::post(shared_->pool, [self = shared_from_this(), answer = std::move(answer)]() mutable {
    Answer made = answer.later();
    made.headers = std::move(answer.headers);
    asio::post(self->stream_.get_executor(), [self, made = std::move(made)]() mutable {
      --self->shared_->working;
      self->Respond(std::move(made));
    });
  });
}

void Session::Respond(Answer answer) {
  const auto& message = parser_->get();
  Response response;
  response.version(message.version());
  response.result(static_cast<unsigned>(answer.status));
  response.set(beast::http::field::content_type, answer.type);
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  if (answer.status != 304) response.content_length(answer.body.size());
  if (message.method() != beast::http::verb::head) response.body() = std::move(answer.body);
  Send(std::move(response), !message.keep_alive());
}

void Session::Refuse(int status, std::string_view why) {
  Response response;
  response.version(11);
  response.result(static_cast<unsigned>(status));
  response.set(beast::http::field::content_type, "application/json");
  response.body() = fmt::format("{{\"error\":\"{}\"}}", why);
  response.content_length(response.body().size());
  Send(std::move(response), true);
}

void Session::Send(Response response, bool then_close) {
  response.set(beast::http::field::server, "spillway/" SPILLWAY_VERSION);
  response.keep_alive(!then_close && !shared_->stopping);
  response_ = std::move(response);
  shared_->connections.Hold(this, response_->body().size());
  shared_->connections.AwaitClient(this);
  stream_.expires_after(shared_->settings.answer_within);
  const bool close = !response_->keep_alive();
  const auto done = [self = shared_from_this(), close](const ErrorCode& error, std::size_t) {
    if (error || close) return self->Close();
    self->Read();
  };
  // An answer to HEAD has a length but no body.
  if (response_->body().empty()) {
    auto serializer =
        std::make_shared<beast::http::response_serializer<beast::http::string_body>>(*response_);
    beast::http::async_write_header(
        stream_, *serializer,
        [done, serializer](const ErrorCode& error, std::size_t bytes) { done(error, bytes); });
    return;
  }
  beast::http::async_write(stream_, *response_, done);
}

// --- streams ---

void Session::BeginStream(const Answer& answer) {
  if (shared_->streams >= shared_->streams_max()) {
    return Refuse(503, "too many streams are open");
  }
  shared_->connections.Keep(this);
  ++shared_->streams;
  is_stream_ = true;
  told_ = answer.live;
  chunk_ = fmt::format("HTTP/1.1 200 OK\r\nServer: spillway/{}\r\nContent-Type: {}\r\n",
                       SPILLWAY_VERSION, answer.type);
  for (const auto& [name, value] : answer.headers) chunk_ += fmt::format("{}: {}\r\n", name, value);
  chunk_ += "Connection: close\r\n\r\nretry: 1000\n\n";
  StepStream();
}

// The next step is made after the last one was taken: a slow reader gets fewer messages, and holds
// the memory of one.
void Session::StepStream() {
  if (shared_->stopping) return Close();
  try {
    chunk_ += shared_->api->Step(told_.get());
  } catch (const std::bad_alloc&) {
    return Close();
  }
  if (chunk_.empty()) return AwaitStep();
  stream_.expires_after(shared_->settings.answer_within);
  asio::async_write(stream_, asio::buffer(chunk_),
                    [self = shared_from_this()](const ErrorCode& error, std::size_t) {
                      if (error) return self->Close();
                      self->chunk_.clear();
                      self->stream_.expires_never();
                      self->AwaitStep();
                    });
}

void Session::AwaitStep() {
  timer_.expires_after(told_->every);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& cancelled) {
    if (!cancelled) self->StepStream();
  });
}

// --- the server ---

class HttpServer::Impl {
 public:
  Impl(const HttpSettings& settings, const Api* api)
      : shared_(std::make_shared<Shared>(settings, api)), acceptor_(io_) {}
  ~Impl() {
    asio::post(io_, [this] { Stop(); });
    if (thread_.joinable()) thread_.join();
    shared_->pool.join();
    io_.restart();
    io_.poll();  // Answers of the pool that came too late.
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status Listen() {
    const HttpSettings& settings = shared_->settings;
    const std::string where = fmt::format("{}:{}", settings.bind, settings.port);
    ErrorCode error;
    const asio::ip::address address = asio::ip::make_address(settings.bind, error);
    if (error) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("http: '{}' is not an address; an example is 127.0.0.1", settings.bind)};
    }
    const Tcp::endpoint endpoint(address, settings.port);
    const bool failed = acceptor_.open(endpoint.protocol(), error) ||
                        acceptor_.set_option(asio::socket_base::reuse_address(true), error) ||
                        acceptor_.bind(endpoint, error) ||
                        acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (failed) {
      return Error{Code::kUnavailable,
                   fmt::format("http: can't listen on {}: {}; http_port chooses another one", where,
                               error.message())};
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    if (settings.tick) Tick();
    thread_ = QuietThread([this] { io_.run(); });
    return {};
  }
  std::uint16_t port() const { return port_; }
  const Shared& shared() const { return *shared_; }

 private:
  void Tick() {
    tick_.expires_after(shared_->settings.tick());
    tick_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled && !shared_->stopping) Tick();
    });
  }
  void Accept() {
    acceptor_.async_accept([this](const ErrorCode& error, Tcp::socket socket) {
      if (error == asio::error::operation_aborted || shared_->stopping) return;
      if (error) {
        // Usually out of descriptors: wait until a connection is closed.
        pause_.expires_after(std::chrono::milliseconds(100));  // real world: the kernel's
        pause_.async_wait([this](const ErrorCode& cancelled) {
          if (!cancelled) Accept();
        });
        return;
      }
      ErrorCode gone;
      const Tcp::endpoint peer = socket.remote_endpoint(gone);
      const auto session = std::make_shared<Session>(std::move(socket), shared_);
      if (!session->Enter(gone ? std::string() : peer.address().to_string())) {
        ++shared_->refused;  // It is closed by the session's destructor.
      } else {
        std::erase_if(sessions_, [](const std::weak_ptr<Session>& each) { return each.expired(); });
        sessions_.push_back(session);
        session->Read();
      }
      Accept();
    });
  }
  void Stop() {
    shared_->stopping = true;
    ErrorCode ignored;
    std::ignore = acceptor_.close(ignored);
    pause_.cancel();
    tick_.cancel();
    for (const std::weak_ptr<Session>& each : sessions_) {
      if (const auto session = each.lock()) session->Close();
    }
  }

  asio::io_context io_{1};
  const std::shared_ptr<Shared> shared_;
  Tcp::acceptor acceptor_;
  asio::steady_timer pause_{io_};
  asio::steady_timer tick_{io_};
  std::vector<std::weak_ptr<Session>> sessions_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

Result<std::unique_ptr<HttpServer>> HttpServer::Open(const HttpSettings& settings, const Api* api) {
  auto impl = std::make_unique<Impl>(settings, api);
  if (Status listening = impl->Listen(); !listening) return listening.error();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->port(); }

HttpServer::Counts HttpServer::counts() const {
  const Shared& shared = impl_->shared();
  return {.clients = shared.clients,
          .streams = shared.streams,
          .requests = shared.requests,
          .refused = shared.refused,
          .closed_for_others = shared.closed_for_others};
}

}  // namespace spillway::http
