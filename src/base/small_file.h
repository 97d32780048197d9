// SPDX-License-Identifier: Apache-2.0
// Small text files that change while they are used: the kernel's under /proc
// and /sys, or a file that an operator writes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// A file that is kept open. The kernel regenerates its files for each read from
// the beginning, and keeping one open costs a tenth of opening it each time.
class SmallFile {
 public:
  // Empty: the file does not exist. InvalidArgument: a directory, a FIFO or a
  // device, which could block. Unavailable: the system's error.
  static Result<std::optional<SmallFile>> Open(const std::string& path);
  SmallFile(SmallFile&& other) noexcept;
  SmallFile& operator=(SmallFile&& other) noexcept;
  ~SmallFile();

  // Reads all of it, from the beginning. Unavailable if the kernel has removed
  // the file meanwhile, or if it is longer than `most` bytes.
  Result<std::string> Read(std::size_t most = 64 * kKiB) const;
  const std::string& path() const { return path_; }

 private:
  SmallFile(std::string path, int fd);

  std::string path_;
  int fd_;
};

// Opens, reads and closes a file. Empty: it does not exist.
Result<std::optional<std::string>> ReadSmallFile(const std::string& path,
                                                 std::size_t most = 64 * kKiB);

}  // namespace spillway
