// Memory over time as a CSV file, from which tools/plot_memory.py draws.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "spillway/result.h"
#include "view/snapshot.h"

namespace spillway::demo {

class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> Open(const std::string& path);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Times in seconds, memory in bytes; without a reading nothing is written.
  void Add(const view::Snapshot& snapshot);
  // Whether everything got there. Closes the file.
  Status Finish();

 private:
  Recorder(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  std::FILE* file_;
};

}  // namespace spillway::demo
