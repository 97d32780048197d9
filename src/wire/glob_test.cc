// SPDX-License-Identifier: Apache-2.0
#include "wire/glob.h"

#include <array>
#include <random>
#include <string>
#include <string_view>

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

// The definition, implemented naively: a star accepts nothing, or one character and itself again.
bool Naive(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return Naive(pattern.substr(1), text) || (!text.empty() && Naive(pattern, text.substr(1)));
  }
  if (text.empty()) return false;
  if (pattern[0] == '[') {
    const std::size_t end = pattern.find(']');
    const bool has = pattern.substr(1, end - 1).find(text[0]) != std::string_view::npos;
    return has && Naive(pattern.substr(end + 1), text.substr(1));
  }
  const bool escaped = pattern[0] == '\\';
  const char c = pattern[escaped ? 1 : 0];
  if ((escaped || c != '?') && c != text[0]) return false;
  return Naive(pattern.substr(escaped ? 2 : 1), text.substr(1));
}

TEST(Glob, AgreesWithTheDefinition) {
  const std::array<std::string_view, 9> elements = {"a",    "b",   "*",   "*",  "?",
                                                    "[ab]", "[b]", "\\*", "\\a"};
  std::minstd_rand random(7);
  int matched = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string pattern;
    std::string text;
    for (auto n = random() % 7; n > 0; --n) pattern += elements.at(random() % elements.size());
    for (auto n = random() % 8; n > 0; --n) text += "ab*"[random() % 3];
    ASSERT_EQ(GlobMatches(pattern, text), Naive(pattern, text)) << pattern << " on " << text;
    ASSERT_EQ(GlobMatchesAnyCase(pattern, text), Naive(pattern, text)) << pattern << " on " << text;
    matched += GlobMatches(pattern, text) ? 1 : 0;
  }
  EXPECT_GT(matched, 10'000);
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
