// Draws a snapshot as the lines of a terminal. Pure: the same snapshot on the
// same paper gives the same lines, never more than `height` of them and none
// wider than `width` columns. The demo draws with it, and `spillway top`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "view/snapshot.h"

namespace spillway::view {

struct Paper {
  std::size_t width = 80;
  std::size_t height = 24;
  bool color = false;
  bool unicode = false;
};

std::vector<std::string> Render(const Snapshot& snapshot, const Paper& paper);
// How many rows of contexts there is room for.
std::size_t ContextRowsOn(const Snapshot& snapshot, const Paper& paper);

}  // namespace spillway::view
