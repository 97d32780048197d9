// SPDX-License-Identifier: Apache-2.0
#include "base/renamed.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Renamed, EachNameStandsOnceAndIsNew) {
  std::set<std::string_view> old_names;
  std::set<std::string_view> names;
  for (const RenamedName& each : RenamedNames()) {
    EXPECT_TRUE(old_names.insert(each.old_name).second) << each.old_name;
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_NE(each.old_name, each.name);
    EXPECT_EQ(NewNameOf(each.kind, each.old_name), each.name);
    EXPECT_EQ(OldNameOf(each.kind, each.name), each.old_name);
  }
  EXPECT_EQ(NewNameOf(NameKind::kMetric, "write_behind_after"), "");  // It was never a metric.
}

TEST(Renamed, ASettingIsKnownByItsFlagToo) {
  EXPECT_EQ(ItIsNow("write_behind_after"), ": it is now write_back_after");
  EXPECT_EQ(ItIsNow("write-behind-rate"), ": it is now write_back_rate");
  EXPECT_EQ(ItIsNow("write_back_after"), "");
  EXPECT_EQ(ItIsNow(""), "");
}

TEST(RenamedPage, IsCurrent) {
  const char* const path = "docs/reference/renamed.md";
  if (std::getenv("SPILLWAY_WRITE_PAGES") != nullptr) std::ofstream(path) << RenamedPage();
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << ": run from the root of the tree";
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), RenamedPage()) << "run tools/write_settings_page.sh";
}

}  // namespace
}  // namespace spillway
