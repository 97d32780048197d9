// What the daemon knows of one client: how it speaks, which database it works in,
// whether it is inside a transaction. No sockets; a connection owns it, and it is
// touched only by whoever runs that connection's commands, under the one lock for
// commands, except where a field says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/direct.h"
#include "server/output.h"
#include "spillway/cache.h"
#include "wire/reply.h"

namespace spillway::server {

// A request kept for EXEC.
using Words = std::vector<std::string>;

// Something that a command waits for: values that come up from a lower tier, or a
// write that only the disk takes.
struct Pending {
  struct One {
    std::string key;    // As the cache knows it.
    std::string value;  // Of a write, as are these.
    std::string agent;
    std::string parent;
    std::string meta;
    Operation operation;

    // What the write says of its value, kept here until it is done.
    void Tell(const SetOptions& options) {
      agent = options.agent;
      parent = options.parent;
      meta = options.meta;
      operation.set = options;
      operation.set.agent = agent;
      operation.set.parent = parent;
      operation.set.meta = meta;
    }
  };
  std::vector<std::unique_ptr<One>> all;
  std::vector<Operation> operations;
  bool done = false;
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
  std::size_t exec_at = 0;  // Where an EXEC that waited goes on.

  // --- a value that arrived apart, in the cache's memory ---
  Reservation room;
  std::string aside;          // Or here, where there was no such room.
  bool room_refused = false;  // No tier may take it: its bytes went nowhere.
  std::size_t apart_at = 0;   // Which word it is; 0: none.
  Bytes apart_bytes = 0;

  // --- a command that waits ---
  std::vector<std::string> wanted;  // Keys to be brought up.
  bool room_is_coming = false;
  TimePoint waits_since;
  std::unique_ptr<Pending> pending;
  std::vector<Lease> held;  // So that what was brought up stays until it is read.
  std::vector<std::string> unreachable;
  bool no_more_waiting = false;

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
