// A page of /metrics, read: numbers by the name of their sample, labels and all.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "spillway/result.h"

namespace spillway::demo {

class MetricsPage {
 public:
  // An error names the line that can't be read.
  static Result<MetricsPage> Read(std::string_view text);

  // "spillway_entries", or `spillway_actions_total{action="drop"}`; 0: there is none.
  double operator[](const std::string& sample) const;
  bool has(const std::string& sample) const { return numbers_.contains(sample); }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::string, double> numbers_;
};

}  // namespace spillway::demo
