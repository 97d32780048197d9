// SPDX-License-Identifier: Apache-2.0
#include "monitor/source/disk.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/printable.h"
#include "monitor/source/kind.h"

namespace spillway {
namespace {

class DiskSource final : public PressureSource {
 public:
  explicit DiskSource(std::string_view path) : path_(path), name_(fmt::format("disk:{}", path)) {}

  Result<Reading> Read() override {
    struct statvfs facts{};
    if (::statvfs(path_.c_str(), &facts) == 0) return DiskReading(facts, Printable(name_));
    return Error{Code::kUnavailable,
                 fmt::format("disk: {}: {}", Printable(path_), std::strerror(errno))};
  }
  std::string_view name() const override { return name_; }

 private:
  const std::string path_;
  const std::string name_;
};

class DiskSources final : public SourceKind {
 public:
  std::string_view name() const override { return "disk"; }
  std::string_view what() const override { return "the file system under a path"; }

  Sighting Look(const Machine&) const override {
    return {.why_not = "needs a path: disk:/var/cache", .named_by_user = true};
  }

  Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                               std::string_view device) const override {
    if (device.empty()) {
      return Error{Code::kInvalidArgument, fmt::format("disk: {}", Look(machine).why_not)};
    }
    // The system would read a path with a NUL only up to the NUL.
    if (device.find('\0') != device.npos) {
      return Error{Code::kInvalidArgument, fmt::format("disk: '{}' is no path", Printable(device))};
    }
    auto source = std::make_shared<DiskSource>(device);
    if (const Result<Reading> first = source->Read(); !first) return first.error();
    return std::shared_ptr<PressureSource>(std::move(source));
  }
};

}  // namespace

Result<Reading> DiskReading(const struct statvfs& facts, std::string_view source) {
  const Bytes block = facts.f_frsize;
  const Bytes countable = block == 0 ? 0 : std::numeric_limits<Bytes>::max() / block;
  if (facts.f_blocks > countable || facts.f_bavail > countable) {
    return Error{Code::kUnavailable,
                 fmt::format("{}: absurd sizes ({} blocks of {} bytes, {} free)", source,
                             facts.f_blocks, block, facts.f_bavail)};
  }
  Reading reading;
  reading.total = facts.f_blocks * block;
  reading.free = facts.f_bavail * block;
  reading.scope = Scope::kFileSystem;
  return Checked(reading, source);
}

const SourceKind& DiskKind() {
  static const DiskSources kKind;
  return kKind;
}

}  // namespace spillway
