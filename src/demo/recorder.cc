#include "demo/recorder.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace spillway::demo {

namespace {

Error Failed(const std::string& path) {
  return Error{Code::kUnavailable,
               fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return Failed(path);
  std::fputs("t,total,free,others,ours_backed,ours_unbacked,level\n", file);
  return std::unique_ptr<Recorder>(new Recorder(path, file));
}

Recorder::~Recorder() {
  if (file_ != nullptr) std::fclose(file_);
}

void Recorder::Add(const view::Snapshot& s) {
  if (file_ == nullptr || s.memory.total == 0) return;
  const std::string line = fmt::format(
      "{:.3f},{},{},{},{},{},{}\n", std::chrono::duration<double>(s.at).count(), s.memory.total,
      s.memory.free, s.memory.others, s.memory.ours_backed, s.memory.ours_unbacked, Name(s.level));
  std::fputs(line.c_str(), file_);
}

Status Recorder::Finish() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (file == nullptr) return {};
  const bool written = std::ferror(file) == 0;
  if (std::fclose(file) != 0 || !written) return Failed(path_);
  return {};
}

}  // namespace spillway::demo
