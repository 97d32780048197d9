// SPDX-License-Identifier: Apache-2.0
// A library that must be initialised before use and shut down after it. The
// first Session of a library in this process initialises it and the last one
// shuts it down. The count is kept here, since AMD SMI keeps none: otherwise
// one source's shutdown would break all others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/library.h"
#include "spillway/result.h"

namespace spillway {

// Keeps its library initialised while it lives.
class Session {
 public:
  // `start` runs only if no other Session of `library` exists, `stop` only
  // after the last one ends. Both run under a lock of the library, which is
  // never held while a device is read.
  static Result<std::unique_ptr<Session>> Begin(const std::string& library,
                                                const std::function<Status()>& start,
                                                std::function<void()> stop);
  // May be slow, like drivers.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  struct Use;
  Session(Use* use, std::function<void()> stop) : use_(use), stop_(std::move(stop)) {}
  static Use* UseOf(const std::string& library);

  Use* const use_;
  const std::function<void()> stop_;
};

// Loads the first of `names` that can be loaded, binds and initialises it. `Api`
// is a struct of a library's functions with Status Bind(const Library&), Status
// Start() const, std::function<void()> Stop() const, and a member `session`.
template <typename Api>
Result<Api> LoadAndBegin(const std::vector<std::string>& names) {
  const Result<Library> library = Library::Open(names);
  if (!library) return library.error();
  Api api;
  if (const Status bound = api.Bind(*library); !bound) return bound.error();
  Result<std::unique_ptr<Session>> session =
      Session::Begin(library->name(), [&] { return api.Start(); }, api.Stop());
  if (!session) return session.error();
  api.session = *std::move(session);
  return api;
}

}  // namespace spillway
