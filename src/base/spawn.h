// SPDX-License-Identifier: Apache-2.0
// Starts programs. All code that does is here.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace spillway {

struct SpawnOptions {
  std::string path = {};  // Searched in PATH if it contains no slash.
  // The first one is the name that the program sees as its own.
  std::vector<std::string> arguments = {};
  // Descriptors for its standard input, output and error; -1: the caller's.
  int in = -1;
  int out = -1;
  int err = -1;
  const sigset_t* blocked = nullptr;  // Signals blocked at its start; null: the caller's.
};

// Returns the child's pid, or -errno if it could not be started (also errors of
// exec: -ENOENT means that the program does not exist). The caller must wait
// for the child.
pid_t Spawn(const SpawnOptions& options);

}  // namespace spillway
