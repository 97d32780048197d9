// SPDX-License-Identifier: Apache-2.0
// A library loaded at run time. It is never unloaded, since a thread may still
// be inside it.
#pragma once

#include <string>
#include <vector>

#include "spillway/result.h"

namespace spillway {

class Library {
 public:
  // Loads the first of `names` that can be loaded; otherwise Unavailable, with the reason.
  static Result<Library> Open(const std::vector<std::string>& names);

  // Null: the library has no such symbol.
  template <typename Function>
  Function* Symbol(const char* symbol) const {
    return reinterpret_cast<Function*>(Find(symbol));
  }
  const std::string& name() const { return name_; }

 private:
  Library(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* Find(const char* symbol) const;

  void* handle_;
  std::string name_;
};

}  // namespace spillway
