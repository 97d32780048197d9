// The demo's folder in the run directory: its daemon's socket and settings. Gone
// with us; what demos left that were killed goes with the next.
#pragma once

#include <memory>
#include <string>

#include "spillway/result.h"

namespace spillway::demo {

// Where files of a disk tier would lie that are not to be in RAM: the run directory,
// or if that is, $TMPDIR, /var/tmp or /tmp, whichever is not first.
std::string DemoDiskBase(const std::string& run_dir);

class Folder {
 public:
  static Result<std::unique_ptr<Folder>> Make();
  // Takes the card of that name along.
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  // For the disk tier: in it, or, where that is RAM, beside other temporary files.
  const std::string& disk() const { return disk_; }
  // "demo-4711": of the folder, and of the demo's card.
  const std::string& name() const { return name_; }

 private:
  Folder(std::string run_dir, std::string name);

  const std::string run_dir_;
  const std::string name_;
  const std::string path_;
  const std::string disk_;
};

}  // namespace spillway::demo
