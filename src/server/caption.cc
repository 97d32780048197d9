#include "server/caption.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway::server {

void Caption::Say(std::string_view phase, std::string_view text) {
  Words words{Printable(phase, kTextMax), Printable(text, kTextMax)};
  const std::lock_guard lock(mutex_);
  words_ = std::move(words);
}

std::optional<Caption::Words> Caption::words() const {
  const std::lock_guard lock(mutex_);
  return words_;
}

Status Caption::Tell(std::string_view name, std::string_view value) {
  double number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || stop != value.data() + value.size() || !std::isfinite(number)) {
    return Error{Code::kInvalidArgument, fmt::format("'{}' is no number", Printable(value, 40))};
  }
  for (std::size_t i = 0; i < kFigures.size(); ++i) {
    if (kFigures[i].name != name) continue;
    const std::lock_guard lock(mutex_);
    figures_[i] = number;
    return {};
  }
  return Error{Code::kInvalidArgument,
               fmt::format("'{}' is no figure of a caption", Printable(name, 40))};
}

void Caption::AddMetrics(http::Exposition* page) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kFigures.size(); ++i) {
    if (!figures_[i]) continue;
    const std::string name = fmt::format("spillway_demo_{}", kFigures[i].name);
    const bool counter = kFigures[i].name.ends_with("_total");
    counter ? page->Counter(name, kFigures[i].help, *figures_[i])
            : page->Gauge(name, kFigures[i].help, *figures_[i]);
  }
}

}  // namespace spillway::server
