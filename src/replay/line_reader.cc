// SPDX-License-Identifier: Apache-2.0
#include "replay/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace spillway {
namespace {
constexpr std::size_t kReadBytes = std::size_t{256} << 10;

Result<std::size_t> ReadFrom(int fd, char* into, std::size_t bytes) {
  ssize_t count = 0;
  do {
    count = read(fd, into, bytes);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return static_cast<std::size_t>(count);
  return Error{Code::kUnavailable, fmt::format("can't read: {}", std::strerror(errno))};
}
}  // namespace

LineReader::LineReader(int fd)
    : LineReader([fd](char* into, std::size_t bytes) { return ReadFrom(fd, into, bytes); }) {}

Result<std::optional<std::string_view>> LineReader::Next() {
  std::size_t searched = begin_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && begin_ < buffer_.size())) {
      ++number_;
      const std::size_t length = (end == std::string::npos ? buffer_.size() : end) - begin_;
      if (length > line_bytes_max_) break;
      const std::string_view line(buffer_.data() + begin_, length);
      begin_ += length + (end == std::string::npos ? 0 : 1);
      return std::optional<std::string_view>(line);
    }
    if (ended_) return std::optional<std::string_view>();
    if (buffer_.size() - begin_ > line_bytes_max_) {
      ++number_;
      break;
    }
    searched = buffer_.size() - begin_;  // Fill moves the remaining data to the front.
    if (Status ok = Fill(); !ok) {
      ++number_;
      return ok.error();
    }
  }
  return Error{Code::kInvalidArgument,
               fmt::format("the line is longer than {} bytes", line_bytes_max_)};
}

Status LineReader::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  const Result<std::size_t> count = read_(buffer_.data() + before, kReadBytes);
  buffer_.resize(before + (count ? *count : 0));
  if (!count) return count.error();
  ended_ = *count == 0;
  return {};
}

}  // namespace spillway
