#include "demo/context.h"

#include <set>

#include <gtest/gtest.h>

namespace spillway::demo {
namespace {

TEST(Context, EveryBlockContinuesTheOneBefore) {
  Context context("coder", {.turns_at_first = 3, .turns_most = 5, .turns_kept = 1});
  context.AppendTurn();
  const std::vector<Block>& blocks = context.blocks();
  EXPECT_EQ(blocks.front().parent, "");
  for (std::size_t i = 1; i < blocks.size(); ++i) EXPECT_EQ(blocks[i].parent, blocks[i - 1].key);
  EXPECT_EQ(blocks.back().key, "coder/1/t04/answer");
}

TEST(Context, AgentsShareTheSystemPromptAndNothingElse) {
  const Context one("coder", {});
  const Context two("tester", {});
  std::set<std::string> keys;
  for (const Block& block : one.blocks()) keys.insert(block.key);
  std::size_t shared = 0;
  for (const Block& block : two.blocks()) {
    if (!keys.contains(block.key)) continue;
    ++shared;
    EXPECT_TRUE(block.key.starts_with("system/"));
  }
  EXPECT_EQ(shared, 4U);
}

TEST(Context, ATurnIsAppendedWhereTheLastOneEnded) {
  Context context("coder", {.turns_at_first = 1, .turns_most = 4, .turns_kept = 1});
  const std::size_t before = context.blocks().size();
  const Tokens tokens = context.tokens();
  context.AppendTurn();
  EXPECT_EQ(context.blocks().size(), before + 2);
  EXPECT_EQ(context.tokens(), tokens + 384);
}

TEST(Context, AFullConversationMakesWayForANewOneOnTheSamePrefix) {
  Context context("coder", {.turns_at_first = 1, .turns_most = 2, .turns_kept = 1});
  context.AppendTurn();
  const std::vector<Block> old = context.blocks();
  context.AppendTurn();
  EXPECT_EQ(context.conversation(), 2);
  EXPECT_EQ(context.turn(), 2);
  EXPECT_EQ(context.blocks()[5].key, old[5].key);  // The prefix stays.
  EXPECT_EQ(context.blocks()[6].key, "coder/2/t01/tool");
}

}  // namespace
}  // namespace spillway::demo
