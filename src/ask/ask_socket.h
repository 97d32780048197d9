// SPDX-License-Identifier: Apache-2.0
// The sockets on which caches can be asked for memory. They are in a run directory and named
// `ask-<device>-<pid>`, or `ask-<device>-<pid>.2` for a process's second cache on that device. The
// part after the last dash never contains a dash, so the device name may.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"

namespace spillway {

// The path of such a socket, and the parts of its name.
struct AskSocketName {
  std::string path;
  std::string device;
  pid_t pid = 0;
};

// Lists the sockets of one device, or of all if `device` is empty, sorted by path. A process may
// have ended without removing its socket. A directory that cannot be read counts as empty.
std::vector<AskSocketName> FindAskSockets(const std::vector<std::string>& run_dirs,
                                          std::string_view device);

// Finds a group by its name or number.
Result<gid_t> FindGroup(const std::string& name);

// A listening socket and its file in the run directory.
class AskSocket {
 public:
  // Opens a socket, and removes the sockets of dead processes on the way. With `group`, its members
  // may ask, too: the socket gets mode 0660, and a run directory of ours becomes searchable for the
  // group.
  static Result<AskSocket> Open(const std::string& run_dir, const std::string& device,
                                std::optional<gid_t> group);
  AskSocket(AskSocket&& other) noexcept;
  AskSocket& operator=(AskSocket&& other) = delete;
  // Closes the socket, and removes its file if that is still this socket's.
  ~AskSocket();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // Called in a forked child: closes the child's copy and leaves the file to the parent.
  void CloseInChild();

 private:
  AskSocket(int fd, std::string path);

  int fd_ = -1;
  std::string path_;
  dev_t device_ = 0;  // Of the file at path_, to recognize it.
  ino_t inode_ = 0;
};

// Whether the peer process may ask: our user, root, or a member of `group`. Otherwise the message
// lists the allowed users and group.
Status MayAsk(int connection, std::optional<gid_t> group);

}  // namespace spillway
