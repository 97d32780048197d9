/* SPDX-License-Identifier: Apache-2.0
 * Finds the sockets of the caches of one device: the same directories and names as in
 * src/base/run_dir.cc and src/ask/ask_socket.cc. Directories are read by the kernel's own call,
 * since opendir allocates. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "preload/preload.h"

struct Entry64 {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[];
};

static bool Append(char* path, size_t room, const char* text) {
  const size_t have = strlen(path);
  const size_t more = strlen(text);
  if (have + more >= room) return false;
  memcpy(path + have, text, more + 1);
  return true;
}

/* In /tmp any user may have made it first: links, other owners and what others may write to are
 * left alone. */
static bool IsOwnPlace(const char* path) {
  struct stat facts;
  return lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Writes the next directory to look into; false: that was the last. */
static bool NextPlace(struct SocketSearch* search) {
  const struct Settings* const settings = SpillwaySettings();
  char* const path = search->path;
  for (;;) {
    ++search->place;
    path[0] = '\0';
    if (settings->only_run_dir) {
      return search->place == 0 && settings->run_dir[0] != '\0' &&
             Append(path, sizeof search->path, settings->run_dir);
    }
    if (search->place == 0) return Append(path, sizeof search->path, "/run/spillway");
    if (search->place == 1) {
      if (settings->xdg_dir[0] == '\0') continue;
      return Append(path, sizeof search->path, settings->xdg_dir) &&
             Append(path, sizeof search->path, "/spillway");
    }
    if (search->place > 2) return false;
    char number[16];
    size_t at = sizeof number - 1;
    number[at] = '\0';
    unsigned uid = geteuid();
    do {
      number[--at] = (char)('0' + uid % 10);
      uid /= 10;
    } while (uid > 0);
    (void)Append(path, sizeof search->path, "/tmp/spillway-");
    (void)Append(path, sizeof search->path, number + at);
    return IsOwnPlace(path);
  }
}

/* Whether `name` is "ask-<device>-<pid>" or "ask-<device>-<pid>.<n>". */
static bool Fits(const char* name, const char* device) {
  const size_t length = strlen(device);
  if (strncmp(name, "ask-", 4) != 0 || strncmp(name + 4, device, length) != 0) return false;
  name += 4 + length;
  if (*name++ != '-') return false;
  if (*name < '1' || *name > '9') return false;
  bool point = false;
  for (; *name != '\0'; ++name) {
    if (*name == '.' && !point) {
      point = true;
    } else if (*name < '0' || *name > '9') {
      return false;
    }
  }
  return true;
}

void SpillwaySearchBegin(struct SocketSearch* search, const char* device) {
  search->device = device;
  search->place = -1;
  search->dir = -1;
  search->at = search->end = 0;
}

static int Connect(const char* directory, const char* file) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!Append(address.sun_path, sizeof address.sun_path, directory) ||
      !Append(address.sun_path, sizeof address.sun_path, "/") ||
      !Append(address.sun_path, sizeof address.sun_path, file)) {
    return -1;
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr*)&address, sizeof address) == 0) return fd;
  const int error = errno;
  close(fd);
  return error == EAGAIN ? -2 : -1; /* EAGAIN: its queue is full. */
}

int SpillwaySearchNext(struct SocketSearch* search) {
  for (;;) {
    if (search->dir < 0) {
      if (!NextPlace(search)) {
        if (search->place > 2 || SpillwaySettings()->only_run_dir) return -1;
        continue;
      }
      search->dir = open(search->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      search->at = search->end = 0;
      if (search->dir < 0) continue;
    }
    if (search->at >= search->end) {
      search->at = 0;
      search->end =
          (int)syscall(SYS_getdents64, search->dir, search->entries, sizeof search->entries);
      if (search->end <= 0) {
        SpillwaySearchEnd(search);
        continue;
      }
    }
    const struct Entry64* const entry =
        (const struct Entry64*)(const void*)(search->entries + search->at);
    search->at += entry->length;
    if (!Fits(entry->name, search->device)) continue;
    const int fd = Connect(search->path, entry->name);
    if (fd != -1) return fd;
  }
}

void SpillwaySearchEnd(struct SocketSearch* search) {
  if (search->dir >= 0) close(search->dir);
  search->dir = -1;
}
