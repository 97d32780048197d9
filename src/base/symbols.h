// SPDX-License-Identifier: Apache-2.0
// Binds the functions of a library loaded at run time, and reports by name the
// required ones that are missing.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/library.h"
#include "spillway/result.h"

namespace spillway {

class Symbols {
 public:
  explicit Symbols(const Library& library) : library_(library) {}

  template <typename Function>
  void Need(const char* symbol, Function** into) {
    May(symbol, into);
    if (*into == nullptr) missing_.emplace_back(symbol);
  }
  // Null if the library has no such function.
  template <typename Function>
  void May(const char* symbol, Function** into) {
    *into = library_.Symbol<Function>(symbol);
  }

  Status Done() const {
    if (missing_.empty()) return {};
    return Error{Code::kUnavailable,
                 fmt::format("{} has no {}", library_.name(), fmt::join(missing_, ", "))};
  }

 private:
  const Library& library_;
  std::vector<std::string> missing_;
};

}  // namespace spillway
