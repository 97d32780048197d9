// This machine's memory without a daemon: what `spillway probe` finds, read now
// and then, and what a governor would make of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "monitor/bounded_read.h"
#include "monitor/governor.h"
#include "view/snapshot.h"

namespace spillway {

class TopMachine {
 public:
  // Finds the sources; may take a moment, so do it when it is needed.
  TopMachine();

  // Reads all of them; one that hangs is given up after a while.
  std::vector<view::TierRow> Read();

 private:
  struct Watched {
    std::string name;
    BoundedReader reader;
    Governor governor;
  };
  std::vector<Watched> watched_;
};

}  // namespace spillway
