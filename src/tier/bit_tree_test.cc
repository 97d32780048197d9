// SPDX-License-Identifier: Apache-2.0
#include "tier/bit_tree.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(BitTree, KnowsItsLeastMemberAtEverySize) {
  for (const std::uint64_t size : {1U, 2U, 63U, 64U, 65U, 4096U, 4097U, 300'000U}) {
    BitTree tree;
    EXPECT_FALSE(tree.sized());
    ASSERT_TRUE(tree.Resize(size));
    EXPECT_EQ(tree.First(), BitTree::kNone);
    std::set<std::uint64_t> model;
    std::mt19937_64 random(size);
    for (int step = 0; step < 2'000; ++step) {
      const std::uint64_t member = random() % size;
      if (random() % 2 == 0) {
        tree.Insert(member);
        model.insert(member);
      } else {
        const std::uint64_t gone = model.empty() ? member : *model.begin();
        tree.Erase(gone);
        model.erase(gone);
      }
      ASSERT_EQ(tree.First(), model.empty() ? BitTree::kNone : *model.begin());
      ASSERT_EQ(tree.Contains(member), model.contains(member));
    }
  }
}

}  // namespace
}  // namespace spillway
