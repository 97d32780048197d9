// SPDX-License-Identifier: Apache-2.0
// Draws hit ratio over capacity as an SVG picture, with one line for each policy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct PlotPoint {
  double capacity_tokens;
  double ratio;  // 0 to 1.
};

// The points of one policy.
struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
};

std::string PlotHitRatios(std::string_view title, std::vector<PlotLine> lines);

}  // namespace spillway
