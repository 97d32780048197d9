// SPDX-License-Identifier: Apache-2.0
// An Exposition is a page of metrics in Prometheus's text format: families, each with help, type
// and samples. It knows no cache.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace spillway::http {

// Families in the order of the calls.
class Exposition {
 public:
  struct Label {
    std::string_view name;
    std::string_view value;
  };
  using Labels = std::initializer_list<Label>;

  // Begins a family; the samples that follow belong to it. Names of counters end in _total. The
  // help line of a family that was renamed ends with its old name.
  void Counter(std::string_view name, std::string_view help) { Family(name, "counter", help); }
  void Gauge(std::string_view name, std::string_view help) { Family(name, "gauge", help); }

  template <std::integral Number>
  void Sample(Number value, Labels labels = {}) {
    Line(std::to_string(value), labels);
  }
  void Sample(double value, Labels labels = {});

  // A family with a single sample.
  template <typename Number>
  void Counter(std::string_view name, std::string_view help, Number value) {
    Counter(name, help);
    Sample(value);
  }
  template <typename Number>
  void Gauge(std::string_view name, std::string_view help, Number value) {
    Gauge(name, help);
    Sample(value);
  }

  // `counts` has one element more than `bounds`; each counts its own bucket only.
  void Histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                 std::span<const std::uint64_t> counts, double sum);

  const std::string& text() const { return text_; }

 private:
  void Family(std::string_view name, std::string_view type, std::string_view help);
  void Line(std::string_view value, Labels labels);

  std::string text_;
  std::string name_;
};

}  // namespace spillway::http
