// A library loaded at run time. It is never unloaded: a thread may still be
// inside it.
#pragma once

#include <string>
#include <vector>

#include "spillway/result.h"

namespace spillway {

class Library {
 public:
  // The first of `names` that loads; else Unavailable, saying why not.
  static Result<Library> Open(const std::vector<std::string>& names);

  // Null: it has no such symbol.
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
