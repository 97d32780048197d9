// A fake driver library, as a test holds it. tests/fakes/script.h says what a
// script can tell it.
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
  // The library outlives the test; nobody may be left hanging in it.
  ~FakeDriver() { Script(""); }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const std::string& path() const { return library_.name(); }

  void Script(const std::string& text) const {
    library_.Symbol<void(const char*)>("spillway_fake_script")(text.c_str());
  }
  // How often the library is held initialised; for CUDA, contexts held.
  int users() const { return library_.Symbol<int()>("spillway_fake_users")(); }
  int calls(const std::string& function) const {
    return library_.Symbol<int(const char*)>("spillway_fake_calls")(function.c_str());
  }
  // Returns once `function` was called this often.
  void WaitFor(const std::string& function, int calls) const {
    library_.Symbol<void(const char*, int)>("spillway_fake_wait")(function.c_str(), calls);
  }
  // CUDA's contexts current on this thread.
  int current() const { return library_.Symbol<int()>("spillway_fake_current")(); }

 private:
  const Library library_;
};

}  // namespace spillway::testing
