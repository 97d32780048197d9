#include "demo/chronicle.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::demo {
namespace {

using ::testing::HasSubstr;

class ChronicleTest : public ::testing::Test {
 protected:
  ~ChronicleTest() override { std::filesystem::remove(path_); }
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("chronicle-" + std::to_string(::getpid()));
};

TEST_F(ChronicleTest, WritesTurnsAsReplayReadsThem) {
  auto chronicle = Chronicle::Open(path_, 10);
  ASSERT_TRUE(chronicle);
  const std::vector<Block> first = {{"system", "", 256}, {"a/0", "system", 128}};
  const std::vector<Block> second = {{"system", "", 256}, {"b/0", "system", 256}};
  (*chronicle)->Ended("a", first, 256, 0);
  (*chronicle)->Ended("b\"", second, 512, 256);
  ASSERT_TRUE((*chronicle)->Finish());
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], R"({"format":"spillway-log","version":1,"block_tokens":128})");
  // A block of 256 tokens is two ids of 128; the same block has the same ids.
  EXPECT_THAT(lines[1], HasSubstr(R"("tokens":256,"chain":[1,2,3],"session":"a"})"));
  EXPECT_THAT(lines[2], HasSubstr(R"("tokens":512,"chain":[1,2,4,5],"session":"b\""})"));
  EXPECT_EQ((*chronicle)->totals().requests, 2U);
  EXPECT_EQ((*chronicle)->totals().asked, 768);
  EXPECT_EQ((*chronicle)->totals().found, 256);
}

TEST_F(ChronicleTest, KnowsWhatACacheByLastUseWouldHold) {
  auto chronicle = Chronicle::Open(path_, 1);
  ASSERT_TRUE(chronicle);
  (*chronicle)->SetMemory(256);
  const std::vector<Block> one = {{"a", "", 128}, {"b", "a", 128}};
  const std::vector<Block> other = {{"c", "", 128}};
  const std::vector<std::string> keys = {"a", "b", "c"};
  (*chronicle)->Began("one", one, 0);
  EXPECT_EQ((*chronicle)->HeldByLru(keys), 2U);
  (*chronicle)->Began("other", other, 0);
  EXPECT_EQ((*chronicle)->HeldByLru(keys), 2U);
  EXPECT_EQ((*chronicle)->HeldByLru(std::vector<std::string>{"a"}), 0U);
  (*chronicle)->SetMemory(128);
  EXPECT_EQ((*chronicle)->HeldByLru(keys), 1U);
  (*chronicle)->Forgot(std::vector<std::string>{"c"});
  EXPECT_EQ((*chronicle)->HeldByLru(keys), 0U);
  EXPECT_EQ((*chronicle)->totals().memory, 192U);
}

TEST_F(ChronicleTest, AFileThatCantBeMadeIsNamed) {
  const auto chronicle = Chronicle::Open("/nowhere/turns", 1);
  ASSERT_FALSE(chronicle);
  EXPECT_THAT(chronicle.error().message, HasSubstr("/nowhere/turns"));
}

}  // namespace
}  // namespace spillway::demo
