// SPDX-License-Identifier: Apache-2.0
#include "http/exposition.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/renamed.h"

namespace spillway::http {

namespace {

void Escape(std::string_view value, std::string* to) {
  for (const char c : value) {
    if (c == '\n') {
      *to += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') *to += '\\';
    *to += c;
  }
}

}  // namespace

void Exposition::Family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}", name, help);
  if (const std::string_view old = OldNameOf(NameKind::kMetric, name); !old.empty()) {
    fmt::format_to(std::back_inserter(text_), " (Was {}.)", old);
  }
  fmt::format_to(std::back_inserter(text_), "\n# TYPE {} {}\n", name, type);
}

void Exposition::Sample(double value, Labels labels) {
  if (std::isnan(value)) return Line("NaN", labels);
  if (std::isinf(value)) return Line(value > 0 ? "+Inf" : "-Inf", labels);
  Line(fmt::format("{}", value), labels);
}

void Exposition::Histogram(std::string_view name, std::string_view help,
                           std::span<const double> bounds, std::span<const std::uint64_t> counts,
                           double sum) {
  Family(name, "histogram", help);
  const std::string base(name);
  name_ = base + "_bucket";
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    Sample(total, {{"le", i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf"}});
  }
  name_ = base + "_sum";
  Sample(sum);
  name_ = base + "_count";
  Sample(total);
}

void Exposition::Line(std::string_view value, Labels labels) {
  text_ += name_;
  char before = '{';
  for (const Label& label : labels) {
    text_ += before;
    text_ += label.name;
    text_ += "=\"";
    Escape(label.value, &text_);
    text_ += '"';
    before = ',';
  }
  if (before == ',') text_ += '}';
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

}  // namespace spillway::http
