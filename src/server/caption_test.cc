#include "server/caption.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Caption, ThereIsNoneUntilSomebodySaysOne) {
  Caption caption;
  EXPECT_FALSE(caption.words());
  http::Exposition page;
  caption.AddMetrics(&page);
  EXPECT_EQ(page.text(), "");
  caption.Say("fill", "12 contexts");
  ASSERT_TRUE(caption.words());
  EXPECT_EQ(caption.words()->phase, "fill");
  EXPECT_EQ(caption.words()->text, "12 contexts");
}

TEST(Caption, IsBoundedAndHarmless) {
  Caption caption;
  caption.Say("\x1b[2J", std::string(100'000, 'x'));
  EXPECT_EQ(caption.words()->phase, "\\x1b[2J");
  EXPECT_LE(caption.words()->text.size(), Caption::kTextMax + 3);
}

TEST(Caption, FiguresOfTheListStandAmongTheMetrics) {
  Caption caption;
  ASSERT_TRUE(caption.Tell("wrong_bytes_total", "0"));
  ASSERT_TRUE(caption.Tell("stranger_had_seconds", "0.011"));
  http::Exposition page;
  caption.AddMetrics(&page);
  EXPECT_THAT(page.text(), HasSubstr("# TYPE spillway_demo_wrong_bytes_total counter\n"));
  EXPECT_THAT(page.text(), HasSubstr("\nspillway_demo_wrong_bytes_total 0\n"));
  EXPECT_THAT(page.text(), HasSubstr("# TYPE spillway_demo_stranger_had_seconds gauge\n"));
  EXPECT_THAT(page.text(), HasSubstr("\nspillway_demo_stranger_had_seconds 0.011\n"));
  EXPECT_THAT(page.text(), Not(HasSubstr("kills_total")));
}

TEST(Caption, OthersAreRefused) {
  Caption caption;
  for (const char* value : {"", "many", "1x", "nan", "inf", "1e999"}) {
    EXPECT_FALSE(caption.Tell("contexts", value)) << value;
  }
  EXPECT_THAT(caption.Tell("my_figure", "1").error().message, HasSubstr("my_figure"));
}

}  // namespace
}  // namespace spillway::server
