#include "replay/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace spillway {
namespace {
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
}  // namespace

Result<std::optional<std::string_view>> LineReader::Next() {
  std::size_t searched = begin_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && begin_ < buffer_.size())) {
      ++number_;
      const std::size_t length = (end == std::string::npos ? buffer_.size() : end) - begin_;
      if (length > kLineBytesMax) break;
      const std::string_view line(buffer_.data() + begin_, length);
      begin_ += length + (end == std::string::npos ? 0 : 1);
      return std::optional<std::string_view>(line);
    }
    if (ended_) return std::optional<std::string_view>();
    if (buffer_.size() - begin_ > kLineBytesMax) {
      ++number_;
      break;
    }
    searched = buffer_.size() - begin_;  // Fill moves what is left to the front.
    if (Status ok = Fill(); !ok) {
      ++number_;
      return ok.error();
    }
  }
  return Error{Code::kInvalidArgument,
               fmt::format("the line is longer than {} bytes", kLineBytesMax)};
}

Status LineReader::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  ssize_t count = 0;
  do {
    count = read(fd_, buffer_.data() + before, kReadBytes);
  } while (count < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(before + static_cast<std::size_t>(count < 0 ? 0 : count));
  if (count < 0) {
    return Error{Code::kUnavailable, fmt::format("can't read: {}", std::strerror(error))};
  }
  ended_ = count == 0;
  return {};
}

}  // namespace spillway
