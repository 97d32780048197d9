// Small texts that somebody else keeps rewriting: the kernel's under /proc and
// /sys, or a file an operator writes to.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// One kept open. The kernel writes its files anew for whoever reads from their
// beginning, and keeping one open costs a tenth of opening it each time.
class SmallFile {
 public:
  // Nothing: it is not there. InvalidArgument: a directory, a FIFO, a device;
  // those might keep us waiting. Unavailable: the system's own words.
  static Result<std::optional<SmallFile>> Open(const std::string& path);
  SmallFile(SmallFile&& other) noexcept;
  SmallFile& operator=(SmallFile&& other) noexcept;
  ~SmallFile();

  // All of it, from the beginning. Unavailable when the kernel has taken it
  // away meanwhile, or when it is longer than `most` bytes.
  Result<std::string> Read(std::size_t most = 64 * kKiB) const;
  const std::string& path() const { return path_; }

 private:
  SmallFile(std::string path, int fd);

  std::string path_;
  int fd_;
};

// Opened, read and closed. Nothing: it is not there.
Result<std::optional<std::string>> ReadSmallFile(const std::string& path,
                                                 std::size_t most = 64 * kKiB);

}  // namespace spillway
