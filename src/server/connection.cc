#include "server/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "server/command.h"

namespace spillway::server {

namespace {

namespace asio = boost::asio;

constexpr std::int64_t kLargeFrom = 32 * 1024;
// Replies that wait for the client stop us from reading its requests.
constexpr std::size_t kOutputMark = 1024 * 1024;
constexpr std::uint64_t kLeasedMark = 64 * kMiB;
constexpr std::size_t kShortReplies = 16 * 1024;
constexpr std::size_t kPiecesAtOnce = 64;
constexpr std::size_t kKeptBytes = 4 * 1024;  // Of an idle client.
constexpr int kReadsInARow = 8;
constexpr std::size_t kArgsAtOnce = 16;
constexpr Duration kRoomWait = std::chrono::seconds(10);
constexpr Duration kFetchWait = std::chrono::seconds(10);
constexpr auto kRoomLook = std::chrono::milliseconds(1);

bool IsForWantOfRoom(const Error& error) {
  return error.code == Code::kBusy || error.code == Code::kNoMemory;
}

// Which word of a command is a value that can be received apart; 0: none.
std::size_t ValueWord(std::string_view command) {
  for (const auto& [name, word] :
       {std::pair{"set", 2}, std::pair{"setnx", 2}, std::pair{"getset", 2}, std::pair{"setex", 3},
        std::pair{"psetex", 3}, std::pair{"spill.set", 2}, std::pair{"spill.append", 1}}) {
    if (SameWord(command, name)) return static_cast<std::size_t>(word);
  }
  return 0;
}

}  // namespace

Connection::Connection(State* state, Settler* settler, Loop* loop, Socket socket,
                       std::string address, std::string local_address)
    : state_(state), settler_(settler), loop_(loop), socket_(std::move(socket)), timer_(loop->io) {
  session_.id = state->next_client();
  session_.fd = socket_.native_handle();
  session_.address = std::move(address);
  session_.local_address = std::move(local_address);
  session_.since = progress_ = state->direct().Now();
  session_.last_active.store(progress_.time_since_epoch().count(), std::memory_order_relaxed);
}

Connection::~Connection() = default;

void Connection::Start() {
  {
    const std::lock_guard lock(state_->commands);
    state_->clients.emplace(session_.id, &session_);
    session_.authenticated = state_->settings.password.empty();
  }
  WaitToRead();
}

void Connection::Close() {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();
  {
    const std::lock_guard lock(state_->commands);
    state_->clients.erase(session_.id);
    session_.room.Abort();
    session_.upload.reset();
  }
  session_.out.Clear();
  session_.held.clear();
  in_ = {};
  boost::system::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  state_->connected.fetch_sub(1, std::memory_order_relaxed);
  loop_->connections.erase(self);
}

bool Connection::IsOver(TimePoint now, Duration stall_max, Duration idle_max) const {
  if (session_.kill.load(std::memory_order_relaxed)) return true;
  if (waiting_) return false;  // For us.
  const bool half = !in_.empty() || large_left_ > 0;
  if ((half || !session_.out.empty()) && stall_max > Duration::zero() &&
      now - progress_ > stall_max) {
    state_->counters.closed_slow.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  const TimePoint active{Duration(session_.last_active.load(std::memory_order_relaxed))};
  return idle_max > Duration::zero() && now - active > idle_max;
}

// --- reading ---

void Connection::WaitToRead() {
  if (closed_ || reading_ || waiting_ || writing_) return;
  reading_ = true;
  socket_.async_wait(Socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->reading_ = false;
                       if (error) return self->Close();
                       self->OnReadable();
                     });
}

void Connection::OnReadable() {
  const TimePoint now = state_->direct().clock().Coarse();
  session_.last_active.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  progress_ = now;
  for (int i = 0; i < kReadsInARow && !closed_; ++i) {
    const bool more = large_left_ > 0 ? ReadLarge() : ReadSome();
    if (!more || waiting_ || writing_) break;
  }
  if (!closed_) WaitToRead();
}

bool Connection::ReadSome() {
  char* const scratch = loop_->scratch.data();
  const ssize_t got = recv(socket_.native_handle(), scratch, Loop::kScratchBytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    Close();
    return false;
  }
  const auto bytes = static_cast<std::size_t>(got);
  state_->counters.net_in.fetch_add(bytes, std::memory_order_relaxed);
  Feed({scratch, bytes});
  return bytes == Loop::kScratchBytes || large_left_ > 0;
}

// Straight to where it belongs; what comes behind it goes the usual way.
bool Connection::ReadLarge() {
  std::array<iovec, 2> into{};
  std::size_t count = 0;
  char* const scratch = loop_->scratch.data();
  const std::uint64_t wanted = large_at_ == nullptr ? 0 : large_bytes_left_;
  if (wanted > 0) into[count++] = {large_at_, wanted};
  into[count++] = {scratch, Loop::kScratchBytes};
  msghdr message{};
  message.msg_iov = into.data();
  message.msg_iovlen = count;
  const ssize_t got = recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    Close();
    return false;
  }
  auto bytes = static_cast<std::uint64_t>(got);
  state_->counters.net_in.fetch_add(bytes, std::memory_order_relaxed);
  const std::uint64_t placed = std::min(bytes, wanted);
  if (placed > 0) {
    large_at_ += placed;
    large_bytes_left_ -= placed;
    large_left_ -= placed;
    bytes -= placed;
  }
  std::string_view rest(scratch, static_cast<std::size_t>(bytes));
  if (!TakeLarge(&rest)) return true;
  Feed(rest);
  return true;
}

// Of bytes that have been read elsewhere: those of the large argument. True: it
// is whole.
bool Connection::TakeLarge(std::string_view* rest) {
  const std::size_t of_value = std::min<std::uint64_t>(large_bytes_left_, rest->size());
  if (large_at_ != nullptr && of_value > 0) {
    std::memcpy(large_at_, rest->data(), of_value);
    large_at_ += of_value;
  }
  large_bytes_left_ -= of_value;
  const std::size_t taken = std::min<std::uint64_t>(large_left_, rest->size());
  large_left_ -= taken;
  rest->remove_prefix(taken);
  return large_left_ == 0;
}

void Connection::Feed(std::string_view bytes) {
  for (;; bytes = {}) {
    std::size_t used = 0;
    Stop stop = Stop::kNothing;
    Bytes input_max = 0;
    const bool kept = !in_.empty();
    if (kept) in_.append(bytes);
    {
      const std::lock_guard lock(state_->commands);
      static_cast<void>(state_->TimeSinceLast());
      stop = RunRequests(kept ? std::string_view(in_) : bytes, &used);
      state_->ErasePairs();
      output_max_ = state_->settings.output_max;
      input_max = state_->settings.input_max;
    }
    kept ? in_.erase(0, used) : in_.append(bytes.substr(used));
    const bool too_much = in_.size() > input_max;
    if (in_.empty() && in_.capacity() > kKeptBytes) in_ = {};
    if (stop == Stop::kWaiting) AwaitWhatIsLacking();
    if (too_much && stop == Stop::kNeedMore) {
      LogWarning("client {}: its request holds more than input_max: closed", session_.address);
      return Close();
    }
    GoOn(stop == Stop::kFull);
    // Full: it may have been read meanwhile, or a large argument was there whole.
    if (stop != Stop::kFull || closed_ || waiting_ || writing_ || large_left_ > 0) return;
  }
}

Connection::Stop Connection::RunRequests(std::string_view bytes, std::size_t* used) {
  wire::RequestLimits limits;
  limits.bulk_max = static_cast<std::int64_t>(
      std::min<Bytes>(state_->settings.bulk_max, std::uint64_t{1} << 62U));
  limits.large_from = kLargeFrom;
  while (!session_.close_after_replies) {
    if (OverOutput()) return Stop::kFull;
    limits.strangers = !session_.authenticated && !state_->settings.password.empty();
    const std::string_view frame = bytes.substr(*used);
    if (!whole_) {
      switch (parser_.Parse(frame, limits)) {
        case wire::RequestParser::Outcome::kMore:
          return Stop::kNeedMore;
        case wire::RequestParser::Outcome::kNothing:
          *used += parser_.consumed();
          parser_.Next();
          continue;
        case wire::RequestParser::Outcome::kError:
          ProtocolError();
          *used = bytes.size();
          return Stop::kClosing;
        case wire::RequestParser::Outcome::kLarge:
          if (const Stop stop = BeginLarge(frame, used); stop != Stop::kNothing) return stop;
          continue;
        case wire::RequestParser::Outcome::kRequest:
          break;
      }
    }
    const Stop stop = RunOne(frame);
    if (stop == Stop::kWaiting) return stop;
    *used += parser_.consumed();
    EndRequest();
    if (stop != Stop::kNothing) return stop;
  }
  *used = bytes.size();
  return Stop::kClosing;
}

Connection::Stop Connection::RunOne(std::string_view frame) {
  std::array<std::string_view, kArgsAtOnce> few;
  std::vector<std::string_view> many;
  std::span<std::string_view> args(few.data(), std::min(parser_.count(), few.size()));
  if (parser_.count() > few.size()) {
    many.resize(parser_.count());
    args = many;
  }
  for (std::size_t i = 0; i < args.size(); ++i) args[i] = parser_.arg(i, frame);
  if (parser_.inlined() && args.size() == 3 && args[2].starts_with("HTTP/")) return RefuseHttp();
  // A piece of HTTP, maybe sent through a browser: not a word to that.
  if (args[0] == "POST" || SameWord(args[0], "host:")) {
    LogWarning("client {}: possible cross-protocol attack: closed", session_.address);
    session_.out.Clear();
    session_.close_after_replies = true;
    return Stop::kClosing;
  }
  using Replies = Session::Replies;
  const Replies before = session_.replies;
  const Output::Mark mark = session_.out.mark();
  whole_ = true;
  if (!Dispatch(*state_, session_, args)) return Stop::kWaiting;
  whole_ = false;
  if (session_.replies == Replies::kOff || before == Replies::kSkipNext) {
    session_.out.TakeBack(mark);
    if (before == Replies::kSkipNext) session_.replies = Replies::kOn;
  }
  return Stop::kNothing;
}

// A browser, or a scraper of metrics with the wrong port. The answer is always the
// same: nothing of the request or of ours is in it.
Connection::Stop Connection::RefuseHttp() {
  constexpr std::string_view kWhy =
      "This port speaks the Redis protocol, not HTTP. For HTTP see http_port.\n";
  LogWarning("client {}: speaks HTTP on the port for the Redis protocol: closed", session_.address);
  session_.out.Clear();
  session_.out.text() += fmt::format(
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      kWhy.size(), kWhy);
  session_.close_after_replies = true;
  return Stop::kClosing;
}

void Connection::EndRequest() {
  parser_.Next();
  if (session_.apart_at == 0) return;
  session_.apart_at = 0;
  session_.apart_bytes = 0;
  session_.room.Abort();
  session_.aside = {};
  session_.room_refused = false;
}

// --- large arguments ---

// Makes room for it. What has been read of it already is moved there; in front of
// it the frame stays as it is.
Connection::Stop Connection::BeginLarge(std::string_view frame, std::size_t* used) {
  const std::size_t word = parser_.count() == 0 ? 0 : ValueWord(parser_.arg(0, frame));
  const bool stranger = !session_.authenticated && !state_->settings.password.empty();
  if (word == 0 || word != parser_.count() || session_.in_multi || stranger) {
    parser_.GoOn();
    return Stop::kNothing;
  }
  const auto bytes = static_cast<Bytes>(parser_.large_bytes());
  const std::string_view key = word > 1 ? parser_.arg(1, frame) : std::string_view();
  PlaceLarge(parser_.arg(0, frame), key, bytes);
  if (session_.apart_at == 0) {
    parser_.GoOn();
    return Stop::kNothing;
  }
  if (session_.room_is_coming) {  // Asked again, with the frame kept as it is.
    large_needs_room_ = true;
    session_.apart_at = 0;
    return Stop::kWaiting;
  }
  const std::size_t head = parser_.consumed();
  parser_.TakeOut();
  large_bytes_left_ = bytes;
  large_left_ = bytes + 2;
  std::string_view rest = frame.substr(head);
  const bool whole = TakeLarge(&rest);
  std::string kept(frame.substr(0, head));
  kept.append(rest);
  // The head stays in front of what comes; all that was shown has been used.
  if (frame.data() >= in_.data() && frame.data() <= in_.data() + in_.size()) {
    *used = 0;
    in_ = std::move(kept);
  } else {
    *used += frame.size();
    in_ = std::move(kept);
  }
  static_cast<void>(whole);
  return Stop::kFull;
}

void Connection::PlaceLarge(std::string_view command, std::string_view key, Bytes bytes) {
  session_.apart_at = parser_.count();
  session_.apart_bytes = bytes;
  session_.room_refused = false;
  large_at_ = nullptr;
  if (session_.upload && parser_.count() == 1) {
    Session::Upload& upload = *session_.upload;
    if (bytes > upload.room.size() - upload.filled) {
      session_.apart_at = 0;  // Too much: the command will say so.
      return;
    }
    large_at_ = upload.room.data() + upload.filled;
    return;
  }
  if (parser_.count() == 1 || key.size() > kDbKeyMax) {
    session_.apart_at = 0;
    return;
  }
  std::string buffer;
  SetOptions options;  // The command will say the rest.
  options.idle_ttl = SameWord(command, "spill.set");
  const Direct::Wrote wrote =
      state_->direct().Reserve(CacheKey(session_.db, key, &buffer), bytes, options, &session_.room);
  session_.room_is_coming = wrote.soon && !session_.no_more_waiting;
  if (session_.room) {
    large_at_ = session_.room.data();
  } else if (wrote.on_disk) {
    session_.aside.resize(bytes);
    large_at_ = reinterpret_cast<std::byte*>(session_.aside.data());
  } else if (!session_.room_is_coming) {
    session_.room_refused = true;
  }
}

// --- waiting ---

void Connection::AwaitWhatIsLacking() {
  waiting_ = true;
  if (session_.waits_since == TimePoint{}) session_.waits_since = state_->direct().Now();
  if (std::exchange(session_.room_is_coming, false)) return RetrySoon();
  if (!session_.wanted.empty()) {
    session_.pending = std::make_unique<Pending>();
    for (std::string& key : std::exchange(session_.wanted, {})) {
      auto one = std::make_unique<Pending::One>();
      one->key = std::move(key);
      one->operation.kind = Operation::Kind::kGet;
      one->operation.get.wait = kFetchWait;
      session_.pending->all.push_back(std::move(one));
    }
  }
  SubmitPending();
}

void Connection::SubmitPending() {
  Pending& pending = *session_.pending;
  for (const auto& one : pending.all) {
    one->operation.key = one->key;
    if (one->operation.kind == Operation::Kind::kSet) {
      one->operation.source = Source(one->value.data(), one->value.size());
    }
    pending.operations.push_back(std::move(one->operation));
  }
  state_->in_flight.fetch_add(1);
  state_->cache().Submit(pending.operations.data(), pending.operations.size(), kFetchWait,
                         Completion([self = shared_from_this()] {
                           asio::post(self->loop_->io, [self] { self->OnPending(); });
                           self->state_->in_flight.fetch_sub(1);
                         }));
}

void Connection::OnPending() {
  Pending& pending = *session_.pending;
  const bool in_time = state_->direct().Now() - session_.waits_since <= kRoomWait;
  bool again = false;
  for (std::size_t i = 0; i < pending.all.size(); ++i) {
    Operation& operation = pending.operations[i];
    if (operation.kind == Operation::Kind::kGet) {
      // Memory to read it into comes free as replies are read.
      const bool soon = !operation.status && in_time && IsForWantOfRoom(operation.status.error());
      again = again || soon;
      if (!operation.status && !soon) session_.unreachable.push_back(pending.all[i]->key);
      if (operation.lease) session_.held.push_back(std::move(operation.lease));
    }
    pending.all[i]->operation = std::move(operation);
  }
  pending.done = true;
  again ? RetrySoon() : Resume();
}

void Connection::RetrySoon() {
  if (state_->direct().Now() - session_.waits_since > kRoomWait) session_.no_more_waiting = true;
  timer_.expires_after(kRoomLook);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->Resume();
  });
}

// The command that waited stands in front, whole or with its large argument to
// come.
void Connection::Resume() {
  if (closed_) return;
  waiting_ = large_needs_room_ = false;
  progress_ = state_->direct().Now();
  Feed({});
  if (!closed_) WaitToRead();
}

// --- writing ---

bool Connection::OverOutput() const {
  return session_.out.held() > kOutputMark || session_.out.leased() > kLeasedMark;
}

// After requests have run. Short replies wait until all who have sent something
// have been served: each that is sent may wake its client, and a client that has
// several connections is woken once, then.
void Connection::GoOn(bool at_once) {
  if (closed_) return;
  session_.out_bytes.store(session_.out.held(), std::memory_order_relaxed);
  session_.out_leased.store(session_.out.leased(), std::memory_order_relaxed);
  if (std::exchange(session_.wrote, false) && state_->direct().needs_settling()) {
    settling_ = waiting_ = true;
    settler_->Await([self = shared_from_this()] {
      asio::post(self->loop_->io, [self] {
        self->settling_ = false;
        // It may be waiting for something else besides.
        if (self->whole_ || self->closed_) {
          if (!self->closed_) self->Flush();
          return;
        }
        self->Flush();
        self->Resume();
      });
    });
    return;
  }
  const bool is_short = session_.out.leased() == 0 && session_.out.held() < kShortReplies;
  if (at_once || !is_short || session_.out.empty() || session_.close_after_replies) {
    Flush();
  } else {
    FlushLater();
  }
}

void Connection::FlushLater() {
  if (std::exchange(flushes_later_, true)) return;
  loop_->to_flush.push_back(shared_from_this());
  if (loop_->to_flush.size() > 1) return;
  asio::post(loop_->io, [loop = loop_] {
    for (const auto& one : std::exchange(loop->to_flush, {})) {
      one->flushes_later_ = false;
      if (!one->closed_) one->Flush();
    }
  });
}

bool Connection::Flush() {
  if (settling_) return true;
  std::array<iovec, kPiecesAtOnce> pieces{};
  while (!session_.out.empty()) {
    const std::size_t count = session_.out.Pieces(pieces.data(), pieces.size());
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (session_.out.held() > output_max_) {
        LogWarning("client {}: replies beyond output_max: closed", session_.address);
        Close();
        return false;
      }
      WaitToWrite();
      return true;
    }
    if (sent <= 0) {
      Close();
      return false;
    }
    state_->counters.net_out.fetch_add(static_cast<std::uint64_t>(sent), std::memory_order_relaxed);
    session_.out.Sent(static_cast<std::size_t>(sent));
    progress_ = state_->direct().clock().Coarse();
  }
  if (session_.close_after_replies) {
    Close();
    return false;
  }
  return true;
}

void Connection::WaitToWrite() {
  if (std::exchange(writing_, true)) return;
  socket_.async_wait(Socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->writing_ = false;
                       if (self->closed_) return;
                       if (error) return self->Close();
                       if (!self->Flush() || self->writing_) return;
                       // Requests that were read before, and those to come.
                       if (!self->waiting_ && self->large_left_ == 0) self->Feed({});
                       if (!self->closed_) self->WaitToRead();
                     });
}

void Connection::ProtocolError() {
  wire::ReplyWriter(&session_.out.text(), session_.protocol)
      .Error("ERR Protocol error: " + parser_.error());
  session_.close_after_replies = true;
}

}  // namespace spillway::server
