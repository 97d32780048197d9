// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

namespace spillway {
namespace {

// A longer name is no typing error, and the table below is quadratic.
constexpr std::size_t kTypedMax = 64;

// Levenshtein distance: letters inserted, removed or changed. Keeps one row of
// the table at a time.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

std::string_view Nearest(std::string_view typed, std::span<const std::string_view> known) {
  if (typed.empty() || typed.size() > kTypedMax) return {};
  std::string_view nearest;
  std::size_t least = kTypedMax;
  for (const std::string_view name : known) {
    const std::size_t distance = Distance(typed, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  const bool near = least <= std::max<std::size_t>(2, typed.size() / 3) && least < nearest.size();
  return near ? nearest : std::string_view();
}

std::string DidYouMean(std::string_view typed, std::span<const std::string_view> known) {
  const std::string_view nearest = Nearest(typed, known);
  return nearest.empty() ? std::string() : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace spillway
