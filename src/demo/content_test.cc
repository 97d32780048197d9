#include "demo/content.h"

#include <vector>

#include <gtest/gtest.h>

namespace spillway::demo {
namespace {

TEST(Content, WhatWasFilledIsRight) {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 9U, 4096U, 4099U}) {
    std::vector<std::byte> bytes(size);
    FillContent(SeedOf("planner/1/t01"), bytes);
    EXPECT_EQ(CountWrongBytes(SeedOf("planner/1/t01"), bytes), 0U) << size;
  }
}

TEST(Content, EveryWrongByteIsCounted) {
  std::vector<std::byte> bytes(4099);
  FillContent(1, bytes);
  for (const std::size_t at : {0U, 5U, 8U, 2048U, 4095U, 4096U, 4098U}) {
    bytes[at] ^= std::byte{0x10};
  }
  EXPECT_EQ(CountWrongBytes(1, bytes), 7U);
}

TEST(Content, AnotherBlocksBytesAreWrong) {
  std::vector<std::byte> bytes(4096);
  FillContent(SeedOf("coder/1/t01"), bytes);
  EXPECT_GT(CountWrongBytes(SeedOf("coder/1/t02"), bytes), 4000U);
  EXPECT_GT(CountWrongBytes(SeedOf("tester/1/t01"), bytes), 4000U);
}

TEST(Content, ForgottenMemoryIsWrong) {
  const std::vector<std::byte> zeros(4096);
  EXPECT_GT(CountWrongBytes(SeedOf("coder/1/t01"), zeros), 4000U);
}

}  // namespace
}  // namespace spillway::demo
