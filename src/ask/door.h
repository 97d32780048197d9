// Where neighbours knock: the sockets of all who can be asked for memory, in a
// run directory, named `ask-<device>-<pid>`, and `ask-<device>-<pid>.2` for a
// process's second cache on that device. Neither part of `<pid>.<n>` has a dash,
// so the last dash of a name ends the device's.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"

namespace spillway {

struct AskDoorName {
  std::string path;
  std::string device;
  pid_t pid = 0;
};

// Of one device, or of all when `device` is empty; sorted by path. Says nothing
// of whether anybody still listens. A directory that can't be read has none.
std::vector<AskDoorName> FindAskDoors(const std::vector<std::string>& run_dirs,
                                      std::string_view device);

// A group by its name or number.
Result<gid_t> FindGroup(const std::string& name);

// A socket that listens, and its place in the run directory.
class AskDoor {
 public:
  // Sockets of the dead are removed on the way. With a group its members may
  // ask, too: the socket gets mode 0660, and a run directory of ours lets them
  // look into it.
  static Result<AskDoor> Open(const std::string& run_dir, const std::string& device,
                              std::optional<gid_t> group);
  AskDoor(AskDoor&& other) noexcept;
  AskDoor& operator=(AskDoor&& other) = delete;
  // Closes, and removes its name if that is still its own.
  ~AskDoor();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // A forked child: it has no part in this.
  void CloseInChild();

 private:
  AskDoor(int fd, std::string path);

  int fd_ = -1;
  std::string path_;
  dev_t device_ = 0;  // Of the file at path_.
  ino_t inode_ = 0;
};

// Whether who sits at the other end may ask: our user, root, or a member of
// `group`. Else the message says who may.
Status MayAsk(int connection, std::optional<gid_t> group);

}  // namespace spillway
