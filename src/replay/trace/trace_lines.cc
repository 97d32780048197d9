#include "replay/trace/trace_lines.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr unsigned kReadBytes = 256U << 10;

gzFile FileOf(void* file) { return static_cast<gzFile>(file); }

}  // namespace

void TraceLines::Close::operator()(void* file) const { gzclose(FileOf(file)); }

TraceLines::TraceLines(void* file, std::string path, std::size_t size)
    : file_(file), path_(std::move(path)), size_(size) {}

Result<TraceLines> TraceLines::Open(const std::string& path) {
  struct stat about = {};
  const bool is_input = path == "-";
  if (!is_input && stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is a directory; give a trace file", path)};
  }
  errno = 0;
  gzFile file = is_input ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return Error{Code::kUnavailable, fmt::format("can't open '{}': {}", path,
                                                 errno == 0 ? "no memory" : std::strerror(errno))};
  }
  const auto size = S_ISREG(about.st_mode) ? static_cast<std::size_t>(about.st_size) : 0;
  return TraceLines(file, path, size);
}

Result<std::optional<std::string_view>> TraceLines::Next() {
  std::size_t searched = begin_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && begin_ < buffer_.size())) {
      ++number_;
      const std::size_t length = (end == std::string::npos ? buffer_.size() : end) - begin_;
      const std::string_view line(buffer_.data() + begin_, length);
      begin_ += length + (end == std::string::npos ? 0 : 1);
      return std::optional<std::string_view>(line);
    }
    if (ended_) return std::optional<std::string_view>();
    if (buffer_.size() - begin_ > kLineBytesMax) {
      ++number_;
      return Error{Code::kInvalidArgument,
                   fmt::format("the line is longer than {} bytes", kLineBytesMax)};
    }
    searched = buffer_.size() - begin_;  // Fill moves what is left to the front.
    if (Status ok = Fill(); !ok) {
      ++number_;
      return ok.error();
    }
  }
}

Status TraceLines::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  const int count = gzread(FileOf(file_.get()), buffer_.data() + before, kReadBytes);
  buffer_.resize(before + static_cast<std::size_t>(count < 0 ? 0 : count));
  int code = Z_OK;
  const char* what = gzerror(FileOf(file_.get()), &code);
  // An archive that was cut off ends with what it has, and says so only here.
  if (count < 0 || code == Z_BUF_ERROR) {
    return Error{Code::kUnavailable, fmt::format("can't read '{}': {}", path_,
                                                 code == Z_ERRNO ? std::strerror(errno) : what)};
  }
  ended_ = count == 0;
  return {};
}

std::optional<double> TraceLines::progress() const {
  if (size_ == 0) return std::nullopt;
  const auto at = gzoffset(FileOf(file_.get()));
  return at < 0 ? 0 : static_cast<double>(at) / static_cast<double>(size_);
}

}  // namespace spillway
