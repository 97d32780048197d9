// SPDX-License-Identifier: Apache-2.0
// The UseLog (the setting `trace`) records uses for `spillway replay`, which answers
// questions such as "what if I had twice the RAM, or another policy?". A hit is a use,
// and so is a set, since a client that misses sets. A use directly after the use of its
// parent belongs to the same request, so that a chain that is read and then extended is
// one line, root first.
//
// It never delays the cache: any thread records uses in memory, and a thread of its own
// writes them. Uses that can't be written or find no memory are dropped and counted.
// The file is appended to: ids are made from keys alone and times are wall-clock times,
// so that a restart continues it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "spillway/clock.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway {

class UseLog {
 public:
  // Tokens per id in the log.
  static constexpr Tokens kUnit = 128;
  // Assumed for values without a token count: an 8B model's.
  static constexpr Bytes kBytesPerToken = 128 * kKiB;
  // A request is closed when nothing has been added to it for this long.
  static constexpr Duration kOpenFor = std::chrono::seconds(1);

  // `unix_offset`: nanoseconds from 1970 to the clock's zero.
  static Result<std::unique_ptr<UseLog>> Open(const std::string& path, std::shared_ptr<Clock> clock,
                                              std::int64_t unix_offset);
  // Writes what is still in memory.
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
  // Applies a hint to the last use of that key, if its request is still open.
  void Record(std::string_view key, Hint hint) noexcept;

  TraceStats stats() const;
  const std::string& path() const { return path_; }

 private:
  struct Request {
    std::vector<std::uint64_t> chain;  // Ids.
    std::uint64_t end = 0;             // NumberOf its last use's key.
    std::string agent;
    Hint hint = Hint::kNone;
    TimePoint last;
  };
  using Requests = std::list<Request>;

  UseLog(std::string path, int fd, std::uint64_t bytes, std::shared_ptr<Clock> clock,
         std::int64_t unix_offset);
  void Note(const Use& use, std::uint64_t number, std::uint64_t parent) SPILLWAY_REQUIRES(mutex_);
  void Close(Requests::iterator request) SPILLWAY_REQUIRES(mutex_);
  void CloseOlderThan(TimePoint limit) SPILLWAY_REQUIRES(mutex_);
  void Run(const std::stop_token& stop);
  void Write(const std::string& lines, std::uint64_t count) SPILLWAY_EXCLUDES(mutex_);

  const std::string path_;
  const int fd_;
  const std::shared_ptr<Clock> clock_;
  const std::int64_t unix_offset_;
  std::uint64_t written_bytes_;  // Writer thread only.
  bool said_why_ = false;        // Writer thread only.

  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  Requests open_ SPILLWAY_GUARDED_BY(mutex_);  // By last use, oldest first.
  std::unordered_map<std::uint64_t, Requests::iterator> by_end_ SPILLWAY_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, std::uint64_t> parents_ SPILLWAY_GUARDED_BY(mutex_);
  std::string lines_ SPILLWAY_GUARDED_BY(mutex_);
  std::uint64_t lines_count_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  TraceStats stats_ SPILLWAY_GUARDED_BY(mutex_);

  std::jthread writer_;  // Last: it uses all the rest.
};

}  // namespace spillway
