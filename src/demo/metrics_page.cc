#include "demo/metrics_page.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway::demo {

Result<MetricsPage> MetricsPage::Read(std::string_view text) {
  MetricsPage page;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::size_t space = line.rfind(' ');
    const std::string value(space == line.npos ? std::string_view() : line.substr(space + 1));
    char* stop = nullptr;
    const double number = std::strtod(value.c_str(), &stop);
    if (space == 0 || value.empty() || *stop != '\0') {
      return Error{Code::kUnavailable,
                   fmt::format("/metrics: '{}' can't be understood", Printable(line, 80))};
    }
    page.numbers_[std::string(line.substr(0, space))] = number;
  }
  return page;
}

double MetricsPage::operator[](const std::string& sample) const {
  const auto found = numbers_.find(sample);
  return found == numbers_.end() ? 0 : found->second;
}

}  // namespace spillway::demo
