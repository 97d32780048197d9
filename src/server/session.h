// SPDX-License-Identifier: Apache-2.0
// What the daemon knows of one client: how it speaks, which database it works in,
// whether it is inside a transaction. No sockets; a connection owns it, and it is
// touched only by whoever runs that connection's commands, under the one lock for
// commands, except where a field says otherwise.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cache/direct.h"
#include "server/aside.h"
#include "server/output.h"
#include "spillway/cache.h"
#include "wire/reply.h"

namespace spillway::server {

// A request kept for EXEC.
using Words = std::vector<std::string>;

struct Call;
struct Command;

// Why a command can't go on now.
enum class Wait : std::uint8_t {
  kNone,
  kFetch,    // Values are read from a lower tier: Session::wanted.
  kRoom,     // Room is being made: ask again in a moment.
  kDisk,     // A write that only the disk takes is carried there: Session::pending.
  kTurn,     // Another client's command holds the key.
  kLoading,  // The disk tier is being read in, and the command must know all keys.
  kOutput    // The client must read replies first.
};

// What a command does when its wait has ended. It owns what it needs: the words of
// the request may have moved in memory meanwhile, and are found by Call::arg.
class Continuation {
 public:
  Continuation() = default;
  template <typename Then>
    requires(!std::same_as<std::remove_cvref_t<Then>, Continuation>)
  Continuation(Then then)  // NOLINT(google-explicit-constructor): as a function is.
      : run_([then = std::move(then)](Call* call) mutable { then(*call); }) {}
  explicit operator bool() const { return !!run_; }
  void operator()(Call& call) { run_(&call); }

 private:
  std::move_only_function<void(Call*)> run_;
};

// How long one request may wait for us. All of its waits have one bound together: what it has
// waited already (for the room of its large value; in vain, for commands of its EXEC) counts,
// and each wait gets half of what is left. So one alone has kAlone, and any number less than
// kInAll, however many commands of an EXEC wait in vain.
struct WaitBound {
  static constexpr Duration kAlone = std::chrono::seconds(10);
  static constexpr Duration kInAll = 2 * kAlone;
  static constexpr Duration kMost = kInAll + kInAll / 10;            // With what Left adds.
  static constexpr Duration kLeast = std::chrono::milliseconds(20);  // Nothing waits for less.

  void Begin(TimePoint now, Duration waited) {
    since = now;
    until = now + std::max((kInAll - waited) / 2, Duration::zero());
  }
  bool began() const { return since != TimePoint{}; }
  // For what is given a time and not asked again. What only now has its turn has a little.
  Duration Left(TimePoint now) const {
    return now >= until ? Duration::zero() : std::max(until - now, (until - since) / 10);
  }

  TimePoint since;  // Of the first wait; zero: it has not waited.
  TimePoint until;
  bool over = false;  // It has waited for as long as it may.
};

struct Suspended {
  Wait why = Wait::kNone;
  const Command* command = nullptr;
  Continuation then;  // Empty: it has done nothing yet, and runs from its start.
  WaitBound bound;
};

// An EXEC in progress: its commands, and how many are done.
struct Transaction {
  std::vector<Words> queued;
  std::size_t at = 0;
  int db = 0;           // In which it began.
  Suspended suspended;  // Of the command at `at`, while that waits.
};

// What a write says of its value, kept until the write is done.
struct OwnedOptions {
  explicit OwnedOptions(const SetOptions& options)
      : agent(options.agent),
        parent(options.parent),
        meta(options.meta),
        step(options.step),
        set(options) {
    set.agent = agent;
    set.parent = parent;
    set.meta = meta;
    set.step = step;
  }
  OwnedOptions(const OwnedOptions&) = delete;
  OwnedOptions& operator=(const OwnedOptions&) = delete;

  const std::string agent;
  const std::string parent;
  const std::string meta;
  const std::string step;
  SetOptions set;  // Its views are into the strings above.
};

// What a command has submitted to the cache: reads of values in lower tiers, or a
// write that only the disk takes. It outlives its client, if that goes.
struct Pending {
  struct One {
    std::string key;                        // As the cache knows it.
    std::string value;                      // Of a write,
    Aside aside;                            // or here, if it came apart.
    std::shared_ptr<OwnedOptions> options;  // Likewise.
    Operation operation;
  };
  std::vector<std::unique_ptr<One>> all;
  std::vector<Operation> operations;
  TimePoint ttl_from;  // When the ttls of its sets began.
};

// How fast the bytes of a value come for which room is kept. Room is not kept for less
// than kBytes a kWithin while another write has none: else a client could keep it for ever
// with a byte now and then. So a value of n bytes has n / 256 KiB seconds, and one more.
class RoomPace {
 public:
  static constexpr Bytes kBytes = 256 * kKiB;
  static constexpr Duration kWithin = std::chrono::seconds(1);

  // On the connection's thread. A value that is begun in place of one that never came
  // has no more time than that: BeginIfEnded.
  void BeginIfEnded(TimePoint now) {
    if (mark_.load(std::memory_order_relaxed) == kEnded) Begin(now);
  }
  void Begin(TimePoint now) {
    came_ = 0;
    mark_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  void Came(Bytes bytes, TimePoint now) {
    came_ += bytes;
    if (came_ >= kBytes) Begin(now);
  }
  // It has come, or the room has been given up.
  void End() { mark_.store(kEnded, std::memory_order_relaxed); }

  // Any thread: when kBytes had last come, or the room was made.
  TimePoint mark() const { return TimePoint(Duration(mark_.load(std::memory_order_relaxed))); }
  bool IsTooSlow(TimePoint now) const {
    const TimePoint::rep mark = mark_.load(std::memory_order_relaxed);
    return mark != kEnded && now - TimePoint(Duration(mark)) >= kWithin;
  }

 private:
  static constexpr TimePoint::rep kEnded = std::numeric_limits<TimePoint::rep>::max();
  std::atomic<TimePoint::rep> mark_{kEnded};
  Bytes came_ = 0;
};

struct Session {
  // Constant.
  std::uint64_t id = 0;
  int fd = -1;
  std::string address;
  std::string local_address;
  TimePoint since;

  // --- how it speaks ---
  wire::Protocol protocol = wire::Protocol::kResp2;
  bool said_hello = false;
  bool authenticated = false;
  int db = 0;
  std::string name;
  std::string library;
  std::string library_version;
  bool no_evict = false;
  bool no_touch = false;
  enum class Replies : std::uint8_t { kOn, kOff, kSkipNext, kSkip } replies = Replies::kOn;

  // --- a transaction ---
  bool in_multi = false;
  bool multi_failed = false;
  std::vector<Words> queued;
  std::size_t queued_bytes = 0;
  std::optional<Transaction> exec;
  void EndMulti() {
    in_multi = multi_failed = false;
    queued = {};
    queued_bytes = 0;
  }

  // --- a value that arrived apart, in the cache's memory ---
  Reservation room;
  Aside aside;                // Or here, where there was no such room.
  bool room_refused = false;  // No tier may take it: its bytes went nowhere.
  std::size_t apart_at = 0;   // Which word it is; 0: none.
  Bytes apart_bytes = 0;

  // --- a command that waits ---
  Suspended suspended;
  Duration waited{};  // Of this request, before: see WaitBound.
  bool may_wait() const {
    return !suspended.bound.over && waited < WaitBound::kInAll - WaitBound::kLeast;
  }
  std::vector<std::string> wanted;  // Keys to be brought up.
  std::shared_ptr<Pending> pending;
  std::vector<Lease> held;  // So that what was brought up stays until it is read.
  std::vector<std::string> unreachable;
  // The command that waits has written something and is not done: if its client goes it is
  // finished all the same, so that others see all of it or nothing.
  bool half_done = false;
  bool lacked_room = false;  // For some of what was last wanted there was no memory.

  // --- a value sent in pieces (SPILL.BEGIN) ---
  struct Upload {
    std::string key;
    Reservation room;
    Bytes filled = 0;
    std::optional<Duration> ttl;  // From the commit on.
    // Of its next use.
    Hint hint = Hint::kNone;
    std::optional<Duration> eta;
    std::optional<Duration> recompute;
    std::string step;
  };
  std::optional<Upload> upload;
  bool upload_given_up = false;  // Its room went to another write.
  // How fast the bytes come of a value that has room already (`room` or `aside`, and
  // `upload`), and how another client's write, for which there is none, tells the
  // connection to give room up that waits for its bytes.
  RoomPace room_pace;
  RoomPace upload_pace;
  std::function<void()> give_up_room;

  Output out;
  bool close_after_replies = false;
  bool wrote = false;  // In this round: the disk may have to be told first.

  // --- for CLIENT LIST; any thread ---
  std::atomic<TimePoint::rep> last_active{0};
  std::atomic<bool> kill{false};
  const char* last_command = "NULL";        // Of the table: lives for ever.
  std::atomic<std::uint64_t> out_bytes{0};  // As it was after the last requests.
  std::atomic<std::uint64_t> out_leased{0};
};

}  // namespace spillway::server
