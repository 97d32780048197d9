// SPDX-License-Identifier: Apache-2.0
// The Model is Redis as clients of a simulated daemon may expect it: it is told of
// each command when that has taken effect, with its reply, and of everything that the
// cache says to have left; it says whether the reply is right.
//
// A cache may forget, and a write that waits takes effect at some time between its
// start and its answer. So of a key the model knows *states* any of which it may be
// in; replies and events narrow them. Rules:
// 1. A key is missing only if it was erased, its time is over, or the cache has
//    announced that it left.
// 2. A refused write has changed nothing. (With on_blocked = drop a plain write that
//    finds no room is acknowledged, and the key is gone.)
// 3. A command that did not wait takes effect at one moment. One that waited may have
//    seen any state its keys were in meanwhile; what others wrote behind that stays.
// 4. After a crash a key is in the last acknowledged state, or one behind that which was
//    not acknowledged, or missing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serversim/resp.h"
#include "serversim/value.h"
#include "spillway/mode.h"

namespace spillway::serversim {

// Orders everything that happens; grows with each command and each event.
using Moment = std::uint64_t;
inline constexpr Moment kStillSo = ~Moment{0};
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
inline constexpr int kDbs = 16;

// What a key may be: a value with its facts, or nothing.
struct State {
  bool there = false;
  Value value;
  // Unix milliseconds of its end: from..to, since a write that waits may count from
  // any time in between. kNever: none.
  std::int64_t end_from = kNever;
  std::int64_t end_to = kNever;
  std::int64_t tokens = 0;
  std::string agent;
  std::string meta;

  Moment since = 0;
  Moment until = kStillSo;
  std::uint64_t command = 0;  // That made it; 0: an event, or it was so from the start.
  bool is_base = false;       // From the start, or found by a restart.

  bool SameAs(const State& other) const;
};

struct Key {
  std::vector<State> now;   // At least one; any of them.
  std::vector<State> past;  // By `until`.
  std::vector<State> ever;  // All that writes made of it.
  Moment left_at = 0;       // Last announced as gone.
  bool may_come = false;    // The disk is being read in: it may be there in a moment,
  bool must_come = false;   // or has to.
};
using KeyName = std::pair<int, std::string>;  // Database and key.

// A value in pieces.
struct Upload {
  KeyName key;
  Value value;
  Bytes filled = 0;
  std::int64_t ttl_ms = 0;  // 0: none.
  std::int64_t tokens = 0;
};

// What the model knows of one connection.
struct Talker {
  int db = 0;
  int protocol = 2;
  bool in_multi = false;
  bool multi_failed = false;
  std::vector<Words> queued;
  std::size_t exec_at = 0;
  void EndMulti() {
    in_multi = multi_failed = false;
    queued.clear();
    exec_at = 0;
  }
  std::string name;
  std::optional<Upload> upload;
  bool upload_given_up = false;  // Its room went to another write; until the next BEGIN.
  TimePoint upload_progress{};   // When its time began; zero: there is none.
  // When the command that runs, or waits, may have begun.
  Moment start = 0;
  std::int64_t start_ms = 0;
};

// A command that has not been answered: it may have taken effect.
struct OpenCommand {
  const Talker* talker = nullptr;
  Words words;
  int db = 0;
  Moment start = 0;
  std::int64_t start_ms = 0;
  std::uint64_t command = 0;
};

struct Command {
  Talker& talker;
  const Words& words;
  std::string_view reply;
  std::uint64_t number = 0;
  bool waited = false;
  std::uint64_t dropped = 0;  // Writes that were acknowledged and dropped by it.
};

// One outcome that a command may have on one key.
struct Outcome {
  std::function<bool(std::string_view)> fits;  // Empty: `reply` is compared.
  std::string reply;
  State next;
  bool changes = false;
  bool refused = false;
};

class Model {
 public:
  struct Rules {
    bool drop = false;   // on_blocked.
    bool roomy = false;  // There is room for all: no write may be refused.
    bool has_disk = false;
    bool idle_ttl = false;  // A tier ends what is idle, if its writer lets it.
    Bytes value_max = 0;    // Larger ones are refused as such.
  };
  struct World {
    std::function<std::int64_t()> unix_ms;
    std::function<bool(const KeyName&)> is_there;  // The cache has it now,
    std::function<bool(const KeyName&)> is_dead;   // or has it still, and its time is over.
    std::function<bool()> is_loading;
    std::function<bool()> refuses_writes;  // The disk does not record them.
    std::function<bool()> is_open;         // And has been read in: is_there can be asked.
    std::function<std::vector<OpenCommand>(const Talker*)> open_commands;  // Of others.
    std::function<bool()> reads_may_fail;
    std::function<bool()> is_faulty;  // Writes may fail.
    std::function<TimePoint()> now;
  };

  Model(Rules rules, World world) : rules_(rules), world_(std::move(world)) {}

  Moment moment() const { return moment_; }
  void Tick() { ++moment_; }

  // Empty: the reply is right.
  std::string Check(Command& command);
  // Whether it may change keys by itself, whenever it takes effect.
  static bool IsWrite(const Words& words);

  // The cache says that it left, and it can't be found any more.
  std::string Left(const KeyName& name, Action action, Reason reason);
  void Acknowledge(std::uint64_t command);
  bool IsAcknowledged(std::uint64_t command) const {
    return command < acknowledged_.size() && acknowledged_[command];
  }
  // The client has gone; its command may have been carried out, or may yet be.
  void GiveUp(const OpenCommand& open);

  // --- ends ---

  // `strict`: all stays. `trusted`: nothing older than what was acknowledged comes back.
  void Restart(bool strict, bool crashed, bool trusted, const std::vector<OpenCommand>& open);
  // The disk has been read in: what is not there is gone.
  std::string Loaded();

  struct Range {
    std::int64_t least = 0;
    std::int64_t most = 0;
  };
  void KnowKeysOf(const OpenCommand& open);
  Range CountOf(int db, bool with_end = false);
  const std::map<KeyName, Key>& keys() const { return keys_; }
  // A key of which at least one state is there.
  bool MayBeThere(const KeyName& name);

 private:
  using Handler = std::string (Model::*)(Command&);
  static const std::map<std::string, Handler, std::less<>>& Handlers();

  Key& KeyOf(const KeyName& name);
  std::string CheckQueued(Command& command, std::string_view name);
  std::string Single(Command& command);
  std::string One(Command& command, const KeyName& name, const Words& words, std::string_view reply,
                  std::uint64_t dropped);
  void Settle(Key* key, const KeyName& name, std::vector<State> finals, Moment start);
  void Replace(Key* key, std::vector<State> finals);
  std::vector<State> StatesBehind(const OpenCommand& open, const KeyName& name,
                                  const Key& key) const;
  void AddBehind(const OpenCommand& open, const Words& words, const State& before,
                 std::vector<State>* states) const;
  std::vector<State> OpenStates(const Talker& talker, const KeyName& name, const Key& key);
  static bool MayBeGone(const State& state, std::int64_t by);
  static bool MayBeAlive(const State& state, std::int64_t from);
  // Least and most of 0 and 1: whether it is there.
  Range Presence(const KeyName& name, const Talker& talker, bool waited, bool counts_dead);

  // model_many.cc
  std::string MGet(Command& command);
  std::string MSet(Command& command);
  std::string MSetNx(Command& command);
  std::string CountKeys(Command& command);
  std::string DbSize(Command& command);
  std::string Keys(Command& command);
  std::string Scan(Command& command);
  std::string RandomKey(Command& command);
  std::string Flush(Command& command);
  std::string Info(Command& command);
  std::string Listed(Command& command, const std::vector<std::string_view>& names);

  // model_talk.cc
  std::string Ping(Command& command);
  std::string Echo(Command& command);
  std::string Select(Command& command);
  std::string Multi(Command& command);
  std::string Exec(Command& command);
  std::string Discard(Command& command);
  std::string Hello(Command& command);
  std::string Reset(Command& command);
  std::string ClientName(Command& command);
  std::string Begin(Command& command);
  std::string Append(Command& command);
  std::string Commit(Command& command);
  std::string Whatever(Command& command);

  const Rules rules_;
  const World world_;
  Moment moment_ = 1;
  std::map<KeyName, Key> keys_;
  std::array<Moment, kDbs> flushed_{};  // When it was last emptied.
  std::vector<bool> acknowledged_;
};

std::string Lower(std::string_view text);
// For messages: no long ones, nothing unprintable.
std::string Shown(std::string_view bytes);
std::string Shown(const Words& words);
// "is not" what was expected, or empty.
std::string Differs(std::string_view reply, std::string_view expected);

inline constexpr std::string_view kOom =
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
inline constexpr std::string_view kNotInteger = "-ERR value is not an integer or out of range\r\n";
inline constexpr std::string_view kSyntax = "-ERR syntax error\r\n";

// What a command on one key may do with it. `alive`: its time is not over.
struct OnKey {
  const Words& words;
  int protocol = 2;
  std::int64_t from_ms = 0;  // The time, from..to.
  std::int64_t to_ms = 0;
  const Model::Rules& rules;
  bool reads_may_fail = false;
  bool is_faulty = false;
};
// Whether it knows the command.
bool OutcomesOf(const OnKey& on, const State& state, bool alive, std::vector<Outcome>* outcomes);

}  // namespace spillway::serversim
