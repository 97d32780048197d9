// SPDX-License-Identifier: Apache-2.0
// A folder for a bench's files, removed with this object: under SPILLWAY_BENCH_DIR, or in the
// folder for temporary files.
#pragma once

#include <filesystem>
#include <string>

namespace spillway::bench {

class Scratch {
 public:
  Scratch();  // Ends the program if it cannot be made.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path() const { return path_.string(); }
  std::string disk() const { return (path_ / "disk").string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace spillway::bench
