// SPDX-License-Identifier: Apache-2.0
#include "cache/use_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/quiet_thread.h"
#include "cache/trace_line.h"

namespace spillway {

namespace {

constexpr auto kWriteEvery = std::chrono::milliseconds(250);
constexpr std::size_t kOpenMax = 4096;
constexpr std::size_t kChainMax = 1 << 16;  // Ids of one request.
constexpr std::size_t kParentsMax = 1 << 18;
constexpr std::size_t kLinesMax = std::size_t{16} << 20U;  // Bytes of lines not written yet.

// Never 0, which means "none".
std::uint64_t NumberOf(std::string_view key) { return HashBytes(key) | 1U; }

// The number of ids that a use takes: its tokens in units of kUnit, at least one.
std::uint64_t UnitsOf(const UseLog::Use& use) {
  constexpr Bytes kUnitBytes = UseLog::kBytesPerToken * static_cast<Bytes>(UseLog::kUnit);
  const std::uint64_t units =
      use.tokens > 0 ? (static_cast<std::uint64_t>(use.tokens) + UseLog::kUnit - 1) / UseLog::kUnit
                     : (use.bytes + kUnitBytes - 1) / kUnitBytes;
  return std::clamp<std::uint64_t>(units, 1, kChainMax);
}

}  // namespace

Result<std::unique_ptr<UseLog>> UseLog::Open(const std::string& path, std::shared_ptr<Clock> clock,
                                             std::int64_t unix_offset) {
  const auto failed = [&](std::string_view why) {
    return Error{Code::kUnavailable,
                 fmt::format("trace '{}': {}; name a file that can be written", path, why)};
  };
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
  if (fd < 0) return failed(std::strerror(errno));
  struct stat facts{};
  if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(fd);
    return failed("not a regular file");
  }
  std::unique_ptr<UseLog> log(new UseLog(path, fd, static_cast<std::uint64_t>(facts.st_size),
                                         std::move(clock), unix_offset));
  {
    const MutexLock lock(log->mutex_);
    log->lines_ = TraceHeader(kUnit);
  }
  try {
    const SignalsHeldBack held;  // A SIGXFSZ in the writer would end the program.
    log->writer_ =
        std::jthread([self = log.get()](const std::stop_token& stop) { self->Run(stop); });
  } catch (const std::system_error& error) {
    return failed(fmt::format("no thread to write it: {}", error.code().message()));
  }
  return log;
}

UseLog::UseLog(std::string path, int fd, std::uint64_t bytes, std::shared_ptr<Clock> clock,
               std::int64_t unix_offset)
    : path_(std::move(path)),
      fd_(fd),
      clock_(std::move(clock)),
      unix_offset_(unix_offset),
      written_bytes_(bytes) {
  stats_.file = path_;
}

UseLog::~UseLog() {
  writer_.request_stop();
  if (writer_.joinable()) writer_.join();
  ::close(fd_);
}

void UseLog::Hit(const Use& use) noexcept {
  const std::uint64_t number = NumberOf(use.key);
  const MutexLock lock(mutex_);
  try {
    const auto parent = parents_.find(number);
    Note(use, number, parent == parents_.end() ? 0 : parent->second);
  } catch (const std::bad_alloc&) {
    ++stats_.lost;
  }
}

void UseLog::Set(const Use& use, std::string_view parent) noexcept {
  const std::uint64_t number = NumberOf(use.key);
  const std::uint64_t of_parent = parent.empty() || parent == use.key ? 0 : NumberOf(parent);
  const MutexLock lock(mutex_);
  try {
    if (of_parent != 0) {
      // An entry whose parent is forgotten begins a request of its own.
      if (parents_.size() >= kParentsMax) parents_.clear();
      parents_[number] = of_parent;
    } else {
      parents_.erase(number);
    }
    Note(use, number, of_parent);
  } catch (const std::bad_alloc&) {
    ++stats_.lost;
  }
}

void UseLog::Record(std::string_view key, Hint hint) noexcept {
  if (hint == Hint::kNone) return;
  const MutexLock lock(mutex_);
  const auto found = by_end_.find(NumberOf(key));
  if (found != by_end_.end()) found->second->hint = hint;
}

// Appends the use to the open request that ends with its parent, or begins a new
// request. Memory for its ids is reserved first.
void UseLog::Note(const Use& use, std::uint64_t number, std::uint64_t parent) {
  const TimePoint now = clock_->Now();
  CloseOlderThan(now - kOpenFor);
  const std::uint64_t units = UnitsOf(use);
  auto behind = parent == 0 ? by_end_.end() : by_end_.find(parent);
  const bool fits = behind != by_end_.end() && behind->second->chain.size() + units <= kChainMax;
  Requests one;  // Not in open_ until all that needs memory is done.
  if (fits) {
    behind->second->chain.reserve(behind->second->chain.size() + units);
  } else {
    one.emplace_back();
    one.back().chain.reserve(units);
  }
  const auto request = fits ? behind->second : one.begin();
  by_end_.insert_or_assign(number, request);
  if (fits) {
    by_end_.erase(parent);
  } else if (open_.size() >= kOpenMax) {
    Close(open_.begin());
  }
  for (std::uint64_t i = 0; i < units; ++i) request->chain.push_back(number + i);
  request->end = number;
  request->last = now;
  open_.splice(open_.end(), fits ? open_ : one, request);
  if (!use.agent.empty()) request->agent.assign(use.agent);
}

void UseLog::CloseOlderThan(TimePoint limit) {
  while (!open_.empty() && open_.front().last < limit) Close(open_.begin());
}

void UseLog::Close(Requests::iterator request) {
  const auto end = by_end_.find(request->end);
  // A later request may end with the same key.
  if (end != by_end_.end() && end->second == request) by_end_.erase(end);
  const std::size_t before = lines_.size();
  try {
    if (before > kLinesMax) throw std::bad_alloc();
    AppendTo(&lines_,
             {.at_ms = (request->last.time_since_epoch().count() + unix_offset_) / 1'000'000,
              .tokens = static_cast<Tokens>(request->chain.size()) * kUnit,
              .chain = request->chain,
              .session = request->agent,
              .hint = request->hint});
    ++lines_count_;
  } catch (const std::bad_alloc&) {
    lines_.resize(before);
    ++stats_.lost;
  }
  open_.erase(request);
}

TraceStats UseLog::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

void UseLog::Run(const std::stop_token& stop) {
  UniqueLock lock(mutex_);
  for (bool last = false; !last;) {
    // real world: a file is written
    wake_.wait_for(mutex_, stop, kWriteEvery, [] { return false; });
    last = stop.stop_requested();
    CloseOlderThan(last ? TimePoint::max() : clock_->Now() - kOpenFor);
    const std::string lines = std::exchange(lines_, {});
    const std::uint64_t count = std::exchange(lines_count_, 0);
    lock.unlock();
    if (!lines.empty()) Write(lines, count);
    lock.lock();
  }
}

// All of it or nothing: half a line would spoil the next one.
void UseLog::Write(const std::string& lines, std::uint64_t count) {
  std::size_t done = 0;
  int error = 0;
  while (done < lines.size() && error == 0) {
    const ssize_t n = ::pwrite(fd_, lines.data() + done, lines.size() - done,
                               static_cast<off_t>(written_bytes_ + done));
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n < 0 && errno != EINTR) error = errno;
    if (n == 0) error = EIO;
  }
  const bool all = done == lines.size();
  if (all) {
    written_bytes_ += done;
    said_why_ = false;
  } else {
    static_cast<void>(::ftruncate(fd_, static_cast<off_t>(written_bytes_)));
    if (!std::exchange(said_why_, true)) {
      LogWarning("trace '{}': {}; what is used is not written down until it can be", path_,
                 std::strerror(error));
    }
  }
  const MutexLock lock(mutex_);
  (all ? stats_.requests : stats_.lost) += count;
}

}  // namespace spillway
