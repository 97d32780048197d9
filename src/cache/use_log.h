// The UseLog (the setting `trace`) writes down what is used, for `spillway replay`: "what if I had
// twice the RAM, or another policy?". A hit is a use, and so is a value set, since
// who misses sets. A use right behind its parent's belongs to the same request, so
// that a chain that is read and then grown is one line, root first.
//
// It stands beside the cache and never in its way: uses are noted in memory, from
// any thread; a thread of its own writes them. What it can't write or has no memory
// for is left out and counted. The file is appended to: ids are made from keys
// alone, and times are the machine's, so that a restart goes on where it was.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "spillway/clock.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway {

class UseLog {
 public:
  // Tokens of one id of the log.
  static constexpr Tokens kUnit = 128;
  // Of values whose tokens nobody said: an 8B model's.
  static constexpr Bytes kBytesPerToken = 128 * kKiB;
  // A request is over when nothing has been added to it for this long.
  static constexpr Duration kOpenFor = std::chrono::seconds(1);

  // `unix_offset`: nanoseconds from the clock's zero to 1970.
  static Result<std::unique_ptr<UseLog>> Open(const std::string& path, std::shared_ptr<Clock> clock,
                                              std::int64_t unix_offset);
  // Writes the rest.
  ~UseLog();
  UseLog(const UseLog&) = delete;
  UseLog& operator=(const UseLog&) = delete;

  struct Use {
    std::string_view key;
    Tokens tokens = 0;
    Bytes bytes = 0;
    std::string_view agent;
  };
  void Hit(const Use& use) noexcept;
  // `parent`: the key of its parent, if it has one.
  void Set(const Use& use, std::string_view parent) noexcept;
  // Said of the last use of that key, while its request is open.
  void Hear(std::string_view key, Hint hint) noexcept;

  TraceStats stats() const;
  const std::string& path() const { return path_; }

 private:
  struct Request {
    std::vector<std::uint64_t> chain;  // Ids.
    std::uint64_t end = 0;             // The key's number of its last use.
    std::string agent;
    Hint hint = Hint::kNone;
    TimePoint last;
  };
  using Requests = std::list<Request>;

  UseLog(std::string path, int fd, std::uint64_t bytes, std::shared_ptr<Clock> clock,
         std::int64_t unix_offset);
  void Note(const Use& use, std::uint64_t number, std::uint64_t parent);
  void Close(Requests::iterator request);
  void CloseOlderThan(TimePoint limit);
  void Run(const std::stop_token& stop);
  // Not under the mutex.
  void Write(const std::string& lines, std::uint64_t count);

  const std::string path_;
  const int fd_;
  const std::shared_ptr<Clock> clock_;
  const std::int64_t unix_offset_;
  std::uint64_t written_bytes_;  // The writer's.
  bool said_why_ = false;        // The writer's.

  mutable std::mutex mutex_;  // Guards all that follows.
  std::condition_variable_any wake_;
  Requests open_;  // Last use first to last.
  std::unordered_map<std::uint64_t, Requests::iterator> by_end_;
  std::unordered_map<std::uint64_t, std::uint64_t> parents_;
  std::string lines_;
  std::uint64_t lines_count_ = 0;
  TraceStats stats_;

  std::jthread writer_;  // Last: it uses all the rest.
};

}  // namespace spillway
