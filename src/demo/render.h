// Draws a snapshot as the lines of a terminal. Pure: the same snapshot on the
// same paper gives the same lines, never more than `height` of them and none
// wider than `width` columns. `spillway top` draws with it, too.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "demo/snapshot.h"

namespace spillway::demo {

struct Paper {
  std::size_t width = 80;
  std::size_t height = 24;
  bool color = false;
  bool unicode = false;
};

std::vector<std::string> Render(const Snapshot& snapshot, const Paper& paper);

}  // namespace spillway::demo
