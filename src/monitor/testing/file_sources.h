// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of kinds that read files: a machine whose files belong to the test.
#pragma once

#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "monitor/source/kind.h"
#include "monitor/testing/file_tree.h"

namespace spillway::testing {

class FileSources : public ::testing::Test {
 protected:
  std::shared_ptr<PressureSource> Open(const SourceKind& kind, std::string_view device = {}) const {
    return kind.Open(tree_.Machine(), device).value();
  }
  Error WhyNot(const SourceKind& kind, std::string_view device = {}) const {
    const auto source = kind.Open(tree_.Machine(), device);
    EXPECT_FALSE(source) << device;
    return source ? Error{Code::kInternal, "it opened"} : source.error();
  }

  testing::FileTree tree_;
};

}  // namespace spillway::testing
