// SPDX-License-Identifier: Apache-2.0
// Draws a snapshot as lines for a terminal. Pure: the same snapshot on the same paper gives the
// same lines. At most `height` lines, none wider than `width` columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "view/snapshot.h"

namespace spillway::view {

// What the terminal can show.
struct Paper {
  std::size_t width = 80;
  std::size_t height = 24;
  bool color = false;
  bool unicode = false;
};

// Draws the whole screen.
std::vector<std::string> Render(const Snapshot& snapshot, const Paper& paper);
// The number of context rows that fit.
std::size_t ContextRowsOn(const Snapshot& snapshot, const Paper& paper);

}  // namespace spillway::view
