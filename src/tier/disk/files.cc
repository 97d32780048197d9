// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/files.h"

#include <cerrno>

namespace spillway {

void Files::Run(IoFeed& feed) {
  Io io;
  while (feed.Next(&io)) {
    Bytes done = 0;
    std::int64_t result = 0;
    while (done < io.bytes) {
      result = io.write ? WriteAt(io.file, io.at + done, io.data + done, io.bytes - done)
                        : ReadAt(io.file, io.at + done, io.data + done, io.bytes - done);
      if (result == -EINTR) continue;
      if (result <= 0) break;
      done += static_cast<Bytes>(result);
    }
    feed.Done(io, result < 0 ? result : static_cast<std::int64_t>(done));
  }
}

int ReadFully(Files& files, int file, Bytes at, void* data, Bytes bytes) {
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const std::int64_t result = files.ReadAt(file, at, to, bytes);
    if (result == -EINTR) continue;
    if (result <= 0) return result < 0 ? static_cast<int>(result) : -EIO;
    at += static_cast<Bytes>(result);
    to += result;
    bytes -= static_cast<Bytes>(result);
  }
  return 0;
}

int WriteFully(Files& files, int file, Bytes at, const void* data, Bytes bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const std::int64_t result = files.WriteAt(file, at, from, bytes);
    if (result == -EINTR) continue;
    if (result <= 0) return result < 0 ? static_cast<int>(result) : -EIO;
    at += static_cast<Bytes>(result);
    from += result;
    bytes -= static_cast<Bytes>(result);
  }
  return 0;
}

}  // namespace spillway
