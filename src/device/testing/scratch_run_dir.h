// SPDX-License-Identifier: Apache-2.0
// A run directory for one test, so that its cards meet no other test's.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace spillway::testing {

class ScratchRunDir {
 public:
  ScratchRunDir() {
    std::string pattern = ::testing::TempDir() + "spillway-test-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
    if (const char* before = ::getenv(kVariable); before != nullptr) before_ = before;
    ::setenv(kVariable, path_.c_str(), 1);
  }
  ~ScratchRunDir() {
    if (before_) {
      ::setenv(kVariable, before_->c_str(), 1);
    } else {
      ::unsetenv(kVariable);
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchRunDir(const ScratchRunDir&) = delete;
  ScratchRunDir& operator=(const ScratchRunDir&) = delete;

  const std::string& path() const { return path_; }
  std::string CardPath(const std::string& name) const { return path_ + "/card-" + name; }

 private:
  static constexpr const char* kVariable = "SPILLWAY_RUN_DIR";
  std::string path_;
  std::optional<std::string> before_;
};

}  // namespace spillway::testing
