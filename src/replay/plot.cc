// SPDX-License-Identifier: Apache-2.0
#include "replay/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr double kLeft = 60;
constexpr double kRight = 560;
constexpr double kTop = 40;
constexpr double kBottom = 360;
constexpr std::array<std::string_view, 8> kColours = {"#0b6e99", "#c1440e", "#3d8b37", "#7a4ea3",
                                                      "#b8860b", "#333333", "#d1508f", "#5f9ea0"};

// Capacities are on a logarithmic axis, ratios on a linear one.
struct Frame {
  double least = 0;
  double most = 1;
  double highest = 1;

  double X(double tokens) const {
    const double width = std::max(most - least, 1e-9);
    return kLeft + (std::log2(tokens) - least) / width * (kRight - kLeft);
  }
  double Y(double ratio) const { return kBottom - ratio / highest * (kBottom - kTop); }
};

Frame FrameOf(const std::vector<PlotLine>& lines) {
  Frame frame{1e9, -1e9, 0.05};
  for (const PlotLine& line : lines) {
    for (const PlotPoint& point : line.points) {
      frame.least = std::min(frame.least, std::log2(point.capacity_tokens));
      frame.most = std::max(frame.most, std::log2(point.capacity_tokens));
      frame.highest = std::max(frame.highest, std::ceil(point.ratio * 20) / 20);
    }
  }
  return frame;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string TokensLabel(double tokens) {
  if (tokens >= 1e6) return fmt::format("{:.3g}M", tokens / 1e6);
  if (tokens >= 1e3) return fmt::format("{:.3g}k", tokens / 1e3);
  return fmt::format("{:.0f}", tokens);
}

void DrawAxes(const Frame& frame, std::string* svg) {
  for (int i = 0; i <= 5; ++i) {
    const double ratio = frame.highest * i / 5;
    const double y = frame.Y(ratio);
    *svg += fmt::format(
        "<line x1='{0}' y1='{2:.1f}' x2='{1}' y2='{2:.1f}' stroke='#ddd'/>"
        "<text x='{3}' y='{4:.1f}' text-anchor='end'>{5:.0f} %</text>\n",
        kLeft, kRight, y, kLeft - 6, y + 4, ratio * 100);
  }
  for (int i = 0; i <= 4; ++i) {
    const double at = frame.least + (frame.most - frame.least) * i / 4;
    *svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n",
                        frame.X(std::exp2(at)), kBottom + 18, TokensLabel(std::exp2(at)));
  }
  *svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>capacity, tokens</text>\n",
                      (kLeft + kRight) / 2, kBottom + 36);
}

}  // namespace

std::string PlotHitRatios(std::string_view title, std::vector<PlotLine> lines) {
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 700 410' font-family='sans-serif' "
      "font-size='12'>\n<rect width='700' height='410' fill='white'/>\n"
      "<text x='{}' y='22' font-size='14'>{}</text>\n",
      kLeft, Escaped(title));
  const Frame frame = FrameOf(lines);
  DrawAxes(frame, &svg);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::ranges::sort(lines[i].points, {}, &PlotPoint::capacity_tokens);
    const std::string_view colour = kColours[i % kColours.size()];
    std::string path;
    for (const PlotPoint& point : lines[i].points) {
      const double x = frame.X(point.capacity_tokens);
      const double y = frame.Y(point.ratio);
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x, y);
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'/>\n", x, y, colour);
    }
    svg += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'/>\n", path,
                       colour);
    svg += fmt::format("<text x='{}' y='{}' fill='{}'>{}</text>\n", kRight + 14,
                       kTop + 8 + 18 * static_cast<double>(i), colour, Escaped(lines[i].name));
  }
  return svg + "</svg>\n";
}

}  // namespace spillway
