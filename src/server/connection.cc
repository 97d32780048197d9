// SPDX-License-Identifier: Apache-2.0
#include "server/connection.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutant.h"
#include "server/command.h"

namespace spillway::server {

namespace {

constexpr std::int64_t kLargeFrom = 32 * 1024;
constexpr std::size_t kShortReplies = 16 * 1024;
constexpr std::size_t kPiecesAtOnce = 64;
constexpr std::size_t kKeptBytes = 4 * 1024;  // Of an idle client.
constexpr int kReadsInARow = 8;
constexpr std::size_t kArgsAtOnce = 16;
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

Connection::Connection(State* state, DeleteFlusher* delete_flusher, std::unique_ptr<Link> link,
                       std::string address, std::string local_address)
    : state_(state), delete_flusher_(delete_flusher), link_(std::move(link)) {
  link_->connection_ = this;
  session_.id = state->next_client();
  session_.fd = link_->descriptor();
  session_.address = std::move(address);
  session_.local_address = std::move(local_address);
  session_.since = progress_ = state->direct().Now();
  session_.last_active.store(progress_.time_since_epoch().count(), std::memory_order_relaxed);
}

Connection::~Connection() = default;

void Connection::Start() {
  session_.give_up_room = [weak = weak_from_this(), link = link_.get()] {
    if (const auto self = weak.lock()) link->Post([self] { self->GiveUpRoom(); });
  };
  {
    const std::lock_guard lock(state_->commands);
    state_->clients.emplace(session_.id, &session_);
    session_.authenticated = state_->settings.password.empty();
  }
  WaitToRead();
}

void Connection::Close() {
  if (closed_) return;
  const bool unfinished = whole_ && session_.half_done && !MutantOn(Mutant::kGoneLeavesHalf);
  unfinished ? FinishAlone() : Drop();
}

// Nothing more is read, and replies go nowhere. It ends with the command that stands in
// front, which waits for no longer than any may.
void Connection::FinishAlone() {
  if (std::exchange(alone_, true)) return;
  session_.out.Clear();
  session_.close_after_replies = true;
  writing_ = false;
  if (waiting_ || awaits_durable_) return;
  // It has waited for its client to read.
  resume_posted_ = true;
  link_->Post([self = shared_from_this()] {
    self->resume_posted_ = false;
    self->Resume();
  });
}

void Connection::Drop() {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();
  {
    const std::lock_guard lock(state_->commands);
    state_->clients.erase(session_.id);
    session_.room.Abort();
    session_.aside.Free();
    session_.upload.reset();
    session_.suspended.then = {};
    session_.exec.reset();
    // A write on its way to the disk holds its key until it is there.
    if (!submitted_) state_->key_locks.Release(session_.id);
  }
  session_.out.Clear();
  session_.held.clear();
  in_ = {};
  state_->connected.fetch_sub(1, std::memory_order_relaxed);
  link_->Close();
}

bool Connection::IsOver(TimePoint now, Duration stall_max, Duration idle_max) {
  if (alone_) return false;
  if (session_.kill.load(std::memory_order_relaxed)) return true;
  if (waiting_ && MutantOn(Mutant::kWaitOutlivesClient)) return false;
  if (waiting_) {  // For us. One that has said all may still read: it gets a second.
    const Link::Peer peer = link_->peer();
    const bool half_closed_for_long = std::exchange(half_closed_, peer == Link::Peer::kHalfClosed);
    return peer == Link::Peer::kGone || (half_closed_ && half_closed_for_long);
  }
  half_closed_ = false;
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
  if (closed_ || alone_ || reading_ || waiting_ || awaits_durable_ || writing_) return;
  reading_ = true;
  link_->AwaitReadable();
}

void Connection::OnReadable(bool failed) {
  reading_ = false;
  if (closed_ || alone_) return;
  if (failed) return Close();
  const TimePoint now = state_->direct().clock().Coarse();
  session_.last_active.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  progress_ = now;
  for (int i = 0; i < kReadsInARow && !closed_; ++i) {
    const bool more = large_left_ > 0 ? ReadLarge() : ReadSome();
    if (!more || waiting_ || awaits_durable_ || writing_) break;
  }
  if (!closed_) WaitToRead();
}

bool Connection::ReadSome() {
  const std::span<char> scratch = link_->scratch();
  std::array<iovec, 1> into{{{scratch.data(), scratch.size()}}};
  const std::size_t bytes = Receive(into);
  if (bytes == 0) return false;
  Feed({scratch.data(), bytes});
  return bytes == scratch.size() || large_left_ > 0;
}

// 0: there is nothing now, or it is closed.
std::size_t Connection::Receive(std::span<iovec> into) {
  const std::ptrdiff_t got = link_->Receive(into);
  if (got == -EAGAIN || got == -EINTR) return 0;
  if (got <= 0) {
    Close();
    return 0;
  }
  state_->counters.net_in.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
  return static_cast<std::size_t>(got);
}

// Straight to where it belongs; what comes behind it goes the usual way.
bool Connection::ReadLarge() {
  std::array<iovec, 2> into{};
  std::size_t count = 0;
  const std::span<char> scratch = link_->scratch();
  const std::uint64_t wanted = large_at_ == nullptr ? 0 : large_bytes_left_;
  if (wanted > 0) into[count++] = {large_at_, wanted};
  into[count++] = {scratch.data(), scratch.size()};
  std::uint64_t bytes = Receive({into.data(), count});
  if (bytes == 0) return false;
  const std::uint64_t placed = std::min(bytes, wanted);
  if (placed > 0) {
    large_at_ += placed;
    large_bytes_left_ -= placed;
    large_left_ -= placed;
    bytes -= placed;
    NotePace(placed);
  }
  std::string_view rest(scratch.data(), static_cast<std::size_t>(bytes));
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
  if (of_value > 0) NotePace(of_value);
  const std::size_t taken = std::min<std::uint64_t>(large_left_, rest->size());
  large_left_ -= taken;
  rest->remove_prefix(taken);
  return large_left_ == 0;
}

// So many bytes have come of the large argument.
void Connection::NotePace(Bytes bytes) {
  const bool of_upload = session_.apart_at == 1;
  RoomPace& pace = of_upload ? session_.upload_pace : session_.room_pace;
  pace.Came(bytes, progress_);
  if (large_bytes_left_ == 0 && !of_upload) pace.End();
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
    const bool held_up = closed_ || waiting_ || awaits_durable_ || writing_ || resume_posted_;
    if (stop != Stop::kFull || held_up || large_left_ > 0) return;
  }
}

Connection::Stop Connection::RunRequests(std::string_view bytes, std::size_t* used) {
  wire::RequestLimits limits;
  limits.bulk_max = static_cast<std::int64_t>(
      std::min<Bytes>(state_->settings.bulk_max, std::uint64_t{1} << 62U));
  limits.large_from = kLargeFrom;
  while (whole_ || !session_.close_after_replies) {
    if (session_.out.over()) return Stop::kFull;
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
    if (whole_) return stop;  // It goes on later: it stays in front.
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
  return RunWhole(args);
}

// Runs the request, or goes on with it if it has waited. What is not to be answered is
// taken back before anything of it can be sent.
Connection::Stop Connection::RunWhole(std::span<const std::string_view> args) {
  using Replies = Session::Replies;
  const bool first = !std::exchange(whole_, true);
  if (first) replies_ = session_.replies;
  const Output::Mark mark = session_.out.mark();
  const bool done = first ? Dispatch(*state_, session_, args) : Continue(*state_, session_, args);
  if (session_.replies == Replies::kOff || replies_ == Replies::kSkipNext) {
    session_.out.TakeBack(mark);
  }
  if (!done) return session_.suspended.why == Wait::kOutput ? Stop::kFull : Stop::kWaiting;
  whole_ = false;
  if (replies_ == Replies::kSkipNext) session_.replies = Replies::kOn;
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
  session_.waited = {};
  if (session_.apart_at == 0) return;
  session_.apart_at = 0;
  session_.apart_bytes = 0;
  session_.room.Abort();
  session_.aside.Free();
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
  if (large_needs_room_) {  // Asked again, with the frame kept as it is.
    session_.apart_at = 0;
    return Stop::kWaiting;
  }
  // The time that its bytes take is its client's; what it has waited for us counts.
  if (const WaitBound& bound = session_.suspended.bound; bound.began()) {
    session_.waited = state_->direct().Now() - bound.since;
  }
  session_.suspended = {};
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
  // Until the command has run its old value is what others read, and it may stay.
  const Direct::Wrote wrote = state_->direct().Reserve(
      CacheKey(session_.db, key, &buffer), bytes, options, &session_.room, Direct::Old::kStays);
  const bool may_wait = session_.may_wait();
  const bool apart = wrote.on_disk || (wrote.old_in_way && !(wrote.soon && may_wait));
  if (session_.room) {
    large_at_ = session_.room.data();
  } else if (apart && session_.aside.Take(state_->aside, bytes, state_->settings.bulk_max)) {
    large_at_ = session_.aside.data();
  } else {
    if (wrote.soon) state_->ReclaimFor(session_);
    const bool may_come = wrote.soon || state_->ReclaimStalledRoom() || apart;
    large_needs_room_ = may_come && may_wait;
    session_.room_refused = !large_needs_room_;
    return;
  }
  session_.room_pace.Begin(progress_);
}

// --- waiting ---

void Connection::AwaitWhatIsLacking() {
  waiting_ = true;
  Suspended& suspended = session_.suspended;
  if (!suspended.bound.began()) suspended.bound.Begin(state_->direct().Now(), session_.waited);
  const bool ask_again = large_needs_room_ || suspended.why == Wait::kRoom ||
                         suspended.why == Wait::kTurn || suspended.why == Wait::kLoading;
  if (ask_again) return RetrySoon();
  if (suspended.why == Wait::kFetch) FetchWanted();
  SubmitPending();
}

void Connection::FetchWanted() {
  session_.pending = std::make_shared<Pending>();
  session_.lacked_room = false;
  const Duration left = session_.suspended.bound.Left(state_->direct().Now());
  for (std::string& key : std::exchange(session_.wanted, {})) {
    auto one = std::make_unique<Pending::One>();
    one->key = std::move(key);
    one->operation.kind = Operation::Kind::kGet;
    one->operation.get.wait = left;
    session_.pending->all.push_back(std::move(one));
  }
}

void Connection::SubmitPending() {
  const std::shared_ptr<Pending> pending = session_.pending;
  for (const auto& one : pending->all) {
    one->operation.key = one->key;
    if (one->operation.kind == Operation::Kind::kSet) {
      const std::string_view value = one->aside ? one->aside.text() : one->value;
      one->operation.source = Source(value.data(), value.size());
    }
    pending->operations.push_back(std::move(one->operation));
  }
  submitted_ = true;
  state_->in_flight.fetch_add(1);
  const auto end = [self = shared_from_this(), pending] {
    self->link_->Post([self, pending] { self->OnPending(pending); });
    self->state_->in_flight.fetch_sub(1);
  };
  const Duration left = session_.suspended.bound.Left(state_->direct().Now());
  state_->direct().Submit(pending->operations.data(), pending->operations.size(), left,
                          Completion(end), pending->ttl_from);
}

void Connection::OnPending(const std::shared_ptr<Pending>& pending) {
  submitted_ = false;
  if (closed_) {
    const std::lock_guard lock(state_->commands);
    state_->key_locks.Release(session_.id);
    session_.pending.reset();
    return;
  }
  session_.lacked_room = TakeFetched(pending.get());
  if (!session_.lacked_room) return Resume();
  session_.out.leased() > 0 ? AwaitReader() : RetrySoon();
}

// There was no memory to read a value into, and this client has values that it has not
// read: it does so first, in its own time. A slow client holds no keys meanwhile.
void Connection::AwaitReader() {
  {
    const std::lock_guard lock(state_->commands);
    state_->key_locks.Release(session_.id);
  }
  waiting_ = false;
  session_.suspended.why = Wait::kOutput;
  session_.suspended.bound = {};
  if (awaits_durable_ || !Flush() || writing_) return;  // It goes on behind that.
  Resume();
}

// True: for some there was no memory to read them into, which comes free as replies
// are read.
bool Connection::TakeFetched(Pending* pending) {
  const bool in_time = state_->direct().Now() <= session_.suspended.bound.until;
  bool again = false;
  for (std::size_t i = 0; i < pending->all.size(); ++i) {
    Operation& operation = pending->operations[i];
    if (operation.kind == Operation::Kind::kGet) {
      const bool soon = !operation.status && in_time && IsForWantOfRoom(operation.status.error());
      again = again || soon;
      if (!operation.status && !soon) session_.unreachable.push_back(pending->all[i]->key);
      if (operation.lease) session_.held.push_back(std::move(operation.lease));
    }
    pending->all[i]->operation = std::move(operation);
  }
  return again;
}

void Connection::RetrySoon() {
  WaitBound& bound = session_.suspended.bound;
  const bool is_over = state_->direct().Now() > bound.until;
  if (is_over && !MutantOn(Mutant::kWaitUnbounded)) bound.over = true;
  link_->StartTimer(kRoomLook);
}

// The command that waited stands in front, whole or with its large argument to come.
// While earlier replies wait for the disk it waits, too: its own would go with them.
void Connection::Resume() {
  waiting_ = large_needs_room_ = false;
  if (closed_ || awaits_durable_) return;
  progress_ = state_->direct().Now();
  // While a large argument is still coming its command stands in front and looks whole.
  if (large_left_ == 0) Feed({});
  if (!closed_) WaitToRead();
}

// Another client's write has no room, and a value has room here that has not come.
void Connection::GiveUpRoom() {
  if (closed_) return;
  const std::lock_guard lock(state_->commands);
  const TimePoint now = state_->direct().Now();
  if (session_.upload && session_.upload_pace.IsTooSlow(now)) {
    session_.upload.reset();
    session_.upload_given_up = true;
    session_.upload_pace.End();
    if (session_.apart_at == 1) large_at_ = nullptr;
  }
  if ((session_.room || session_.aside) && large_left_ > 0 && session_.room_pace.IsTooSlow(now)) {
    large_at_ = nullptr;
    session_.room.Abort();
    session_.aside.Free();
    session_.room_refused = true;
  }
}

// --- writing ---

// After requests have run. Short replies wait until all who have sent something
// have been served: each that is sent may wake its client, and a client that has
// several connections is woken once, then.
void Connection::GoOn(bool at_once) {
  if (closed_) return;
  session_.out_bytes.store(session_.out.held(), std::memory_order_relaxed);
  session_.out_leased.store(session_.out.leased(), std::memory_order_relaxed);
  const bool wrote = std::exchange(session_.wrote, false) && !alone_;
  if (wrote && state_->direct().has_pending_deletes()) return AwaitDurable();
  const bool is_short = session_.out.leased() == 0 && session_.out.held() < kShortReplies;
  if (at_once || !is_short || session_.out.empty() || session_.close_after_replies) {
    Flush();
  } else {
    FlushLater();
  }
}

// Replies to writes are sent when the disk knows of them. Where it does not take them
// in time the client gets no reply: it can't tell whether the write was done, and
// neither can it be told.
void Connection::AwaitDurable() {
  awaits_durable_ = true;
  delete_flusher_->Await([self = shared_from_this()](bool durable) {
    self->link_->Post([self, durable] {
      self->awaits_durable_ = false;
      if (self->closed_) return;
      if (!durable && !self->alone_) {
        LogWarning("client {}: the disk tier has not recorded its write: closed without a reply",
                   self->session_.address);
        return self->Close();
      }
      if (!self->Flush() || self->waiting_) return;
      self->Resume();
    });
  });
}

void Connection::FlushLater() {
  if (!std::exchange(flushes_later_, true)) link_->FlushSoon();
}

void Connection::FlushNow() {
  flushes_later_ = false;
  if (!closed_) Flush();
}

bool Connection::Flush() {
  if (awaits_durable_) return true;
  if (alone_) {
    session_.out.Clear();
    if (!whole_) Drop();
    return !closed_;
  }
  std::array<iovec, kPiecesAtOnce> pieces{};
  while (!session_.out.empty()) {
    const std::size_t count = session_.out.Pieces(pieces.data(), pieces.size());
    const std::ptrdiff_t sent = link_->Send({pieces.data(), count});
    if (sent == -EINTR) continue;
    if (sent == -EAGAIN) {
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
  if (!std::exchange(writing_, true)) link_->AwaitWritable();
}

void Connection::OnWritable(bool failed) {
  writing_ = false;
  if (closed_ || alone_) return;
  if (failed) return Close();
  if (!Flush() || writing_) return;
  // Requests that were read before, and those to come.
  if (!waiting_ && !awaits_durable_ && large_left_ == 0) Feed({});
  if (!closed_) WaitToRead();
}

void Connection::ProtocolError() {
  wire::ReplyWriter(&session_.out.text(), session_.protocol)
      .Error("ERR Protocol error: " + parser_.error());
  session_.close_after_replies = true;
}

}  // namespace spillway::server
