#include "wire/glob.h"

#include <string>

#include <gtest/gtest.h>

namespace spillway::wire {
namespace {

TEST(Glob, MatchesAsRedisDoes) {
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("h?llo", "hello"));
  EXPECT_FALSE(GlobMatches("h?llo", "hllo"));
  EXPECT_TRUE(GlobMatches("h[ae]llo", "hallo"));
  EXPECT_FALSE(GlobMatches("h[^e]llo", "hello"));
  EXPECT_TRUE(GlobMatches("h[a-c]llo", "hbllo"));
  EXPECT_TRUE(GlobMatches("h[c-a]llo", "hbllo"));
  EXPECT_TRUE(GlobMatches("a\\*b", "a*b"));
  EXPECT_FALSE(GlobMatches("a\\*b", "axb"));
  EXPECT_TRUE(GlobMatches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(GlobMatches("", "a"));
  EXPECT_TRUE(GlobMatches("", ""));
  EXPECT_FALSE(GlobMatches("HELLO", "hello"));
  EXPECT_TRUE(GlobMatchesAnyCase("HELLO", "hello"));
}

TEST(Glob, ABombIsOverSoon) {
  std::string pattern;
  for (int i = 0; i < 20'000; ++i) pattern += "*a";
  pattern += "b";
  EXPECT_FALSE(GlobMatches(pattern, std::string(60'000, 'a')));
  EXPECT_FALSE(GlobMatches(std::string(60'000, '['), std::string(60'000, '[')));
}

}  // namespace
}  // namespace spillway::wire
