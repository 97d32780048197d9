// SPDX-License-Identifier: Apache-2.0
#include "base/toml_hint.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(QuotesHint, NamesTheLineAsItShouldBe) {
  EXPECT_EQ(QuotesHint("capacity = 24GiB", 1), "; write it in quotes: capacity = \"24GiB\"");
  EXPECT_EQ(QuotesHint("a = 1\n\n  ttl=10min  # long\nb = 2", 3),
            "; write it in quotes: ttl = \"10min\"");
}

TEST(QuotesHint, IsSilentOfOtherMistakes) {
  EXPECT_EQ(QuotesHint("capacity = \"24GiB", 1), "");
  EXPECT_EQ(QuotesHint("capacity = 24G", 1), "");
  EXPECT_EQ(QuotesHint("[server", 1), "");
  EXPECT_EQ(QuotesHint("capacity =", 1), "");
  EXPECT_EQ(QuotesHint("a = 1", 7), "");
  EXPECT_EQ(QuotesHint("", 1), "");
}

}  // namespace
}  // namespace spillway
