// A folder for a bench's files that goes with it: under SPILLWAY_BENCH_DIR, else
// where temporary files are.
#pragma once

#include <filesystem>
#include <string>

namespace spillway::bench {

class Scratch {
 public:
  Scratch();  // Ends the program if there is none to be had.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path() const { return path_.string(); }
  std::string disk() const { return (path_ / "disk").string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace spillway::bench
