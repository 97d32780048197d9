// SPDX-License-Identifier: Apache-2.0
// A fake driver library in a test. tests/fakes/script.h describes the scripts.
#pragma once

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/library.h"

namespace spillway::testing {

class FakeDriver {
 public:
  // "nvml", "nvml_without_v2": one of tests/fakes.
  explicit FakeDriver(const std::string& name)
      : FakeDriver(Library::Open({SPILLWAY_FAKES_DIR "/fake_" + name + ".so"}).value()) {}
  explicit FakeDriver(Library library) : library_(std::move(library)) { Script(""); }
  // The library outlives the test; no thread may stay stuck in it.
  ~FakeDriver() { Script(""); }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const std::string& path() const { return library_.name(); }

  void Script(const std::string& text) const {
    library_.Symbol<void(const char*)>("spillway_fake_script")(text.c_str());
  }
  // How many users keep the library initialised; for CUDA, contexts held.
  int users() const { return library_.Symbol<int()>("spillway_fake_users")(); }
  int calls(const std::string& function) const {
    return library_.Symbol<int(const char*)>("spillway_fake_calls")(function.c_str());
  }
  // Returns once `function` has been called this often.
  void WaitFor(const std::string& function, int calls) const {
    library_.Symbol<void(const char*, int)>("spillway_fake_wait")(function.c_str(), calls);
  }
  // CUDA contexts that are current on this thread.
  int current() const { return library_.Symbol<int()>("spillway_fake_current")(); }

 private:
  const Library library_;
};

}  // namespace spillway::testing
