// SPDX-License-Identifier: Apache-2.0
#include "cache/disk_room_source.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/printable.h"
#include "monitor/source/disk.h"

namespace spillway {

namespace {
constexpr Bytes kStatBlock = 512;  // The unit of st_blocks on every file system.
}

DiskRoomSource::DiskRoomSource(std::string directory)
    : directory_(std::move(directory)), name_("disk tier:" + directory_) {}

Result<Reading> DiskRoomSource::Read() {
  struct statvfs system{};
  struct stat blobs{};
  const std::string file = directory_ + "/blobs";
  if (::statvfs(directory_.c_str(), &system) != 0 || ::stat(file.c_str(), &blobs) != 0) {
    return Error{Code::kUnavailable,
                 fmt::format("disk: {}: {}", Printable(directory_), std::strerror(errno))};
  }
  Result<Reading> reading = DiskReading(system, name_);
  if (!reading) return reading;
  const Bytes ours = static_cast<Bytes>(blobs.st_blocks) * kStatBlock;
  reading->total = reading->free + ours;
  return reading;
}

}  // namespace spillway
