// Hit ratio over capacity as an SVG picture, a line for each policy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct PlotPoint {
  double capacity_tokens;
  double ratio;  // 0 to 1.
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
};

std::string PlotHitRatios(std::string_view title, std::vector<PlotLine> lines);

}  // namespace spillway
