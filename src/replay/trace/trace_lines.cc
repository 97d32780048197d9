// SPDX-License-Identifier: Apache-2.0
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

gzFile FileOf(void* file) { return static_cast<gzFile>(file); }

Result<std::size_t> ReadFrom(gzFile file, const std::string& path, char* into, std::size_t bytes) {
  const int count = gzread(file, into, static_cast<unsigned>(bytes));
  int code = Z_OK;
  const char* what = gzerror(file, &code);
  // A truncated archive still gives its data; only the code tells that it is truncated.
  if (count >= 0 && code != Z_BUF_ERROR) return static_cast<std::size_t>(count);
  return Error{Code::kUnavailable, fmt::format("can't read '{}': {}", path,
                                               code == Z_ERRNO ? std::strerror(errno) : what)};
}

}  // namespace

void TraceLines::Close::operator()(void* file) const { gzclose(FileOf(file)); }

TraceLines::TraceLines(void* file, const std::string& path, std::size_t size)
    : file_(file),
      size_(size),
      lines_([from = FileOf(file), path](
                 char* into, std::size_t bytes) { return ReadFrom(from, path, into, bytes); },
             kLineBytesMax) {}

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

std::optional<double> TraceLines::progress() const {
  if (size_ == 0) return std::nullopt;
  const auto at = gzoffset(FileOf(file_.get()));
  return at < 0 ? 0 : static_cast<double>(at) / static_cast<double>(size_);
}

}  // namespace spillway
