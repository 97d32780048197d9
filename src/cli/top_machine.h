// SPDX-License-Identifier: Apache-2.0
// This machine's memory without a daemon: reads the sources that `spillway probe` finds, and
// derives levels as a governor does.
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
  // Finds the sources. This may take a moment.
  TopMachine();

  // Reads all sources; one that hangs is given up after some time.
  std::vector<view::TierRow> Read();

 private:
  // One source, and the governor that turns its readings into levels.
  struct Watched {
    std::string name;
    BoundedReader reader;
    Governor governor;
  };
  std::vector<Watched> watched_;
};

}  // namespace spillway
