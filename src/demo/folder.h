// The demo's folder in the run directory: its daemon's socket and settings. Gone
// with us; what demos left that were killed goes with the next.
#pragma once

#include <memory>
#include <string>

#include "spillway/result.h"

namespace spillway::demo {

class Folder {
 public:
  static Result<std::unique_ptr<Folder>> Make();
  // Takes the card of that name along.
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  // "demo-4711": of the folder, and of the demo's card.
  const std::string& name() const { return name_; }

 private:
  Folder(std::string run_dir, std::string name);

  const std::string run_dir_;
  const std::string name_;
  const std::string path_;
};

}  // namespace spillway::demo
