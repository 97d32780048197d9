// SPDX-License-Identifier: Apache-2.0
#include "replay/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

// An open, unlinked file with this text.
int FileWith(const std::string& text) {
  std::FILE* file = std::tmpfile();
  std::fwrite(text.data(), 1, text.size(), file);
  std::fseek(file, 0, SEEK_SET);
  const int fd = dup(fileno(file));
  std::fclose(file);
  lseek(fd, 0, SEEK_SET);
  return fd;
}

std::vector<std::string> AllLines(const std::string& text) {
  const int fd = FileWith(text);
  LineReader reader(fd);
  std::vector<std::string> lines;
  for (;;) {
    const auto line = reader.Next();
    EXPECT_TRUE(line);
    if (!line || !*line) break;
    lines.emplace_back(**line);
    EXPECT_EQ(reader.number(), lines.size());
  }
  close(fd);
  return lines;
}

TEST(LineReader, GivesLinesWithoutTheirEnds) {
  EXPECT_EQ(AllLines(""), (std::vector<std::string>{}));
  EXPECT_EQ(AllLines("a\nb\n"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(AllLines("a\n\nb"), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(AllLines("\n"), (std::vector<std::string>{""}));
}

TEST(LineReader, JoinsWhatReadsCutApart) {
  const std::string most(LineReader::kLineBytesMax, 'x');
  EXPECT_EQ(AllLines("a\n" + most + "\nb\n"), (std::vector<std::string>{"a", most, "b"}));
}

TEST(LineReader, RefusesALineBeyondItsBound) {
  for (const char* end : {"", "\n", "yyyyyyyyyyyyyyyyyyyy\n"}) {
    const int fd = FileWith("a\n" + std::string(LineReader::kLineBytesMax + 1, 'x') + end);
    LineReader reader(fd);
    EXPECT_TRUE(reader.Next());
    const auto line = reader.Next();
    ASSERT_FALSE(line);
    EXPECT_NE(line.error().message.find("longer than 1048576 bytes"), std::string::npos);
    EXPECT_EQ(reader.number(), 2U);
    close(fd);
  }
}

TEST(LineReader, DoesNotWaitForTheNextLine) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(write(ends[1], "one\ntwo\nthr", 11), 11);
  LineReader reader(ends[0]);
  EXPECT_FALSE(reader.ready());
  EXPECT_EQ(**reader.Next(), "one");
  EXPECT_TRUE(reader.ready());
  EXPECT_EQ(**reader.Next(), "two");
  EXPECT_FALSE(reader.ready());
  close(ends[1]);
  EXPECT_EQ(**reader.Next(), "thr");
  EXPECT_FALSE(*reader.Next());
  close(ends[0]);
}

TEST(LineReader, SaysWhenReadingFails) {
  const int directory = open("/", O_RDONLY);
  LineReader reader(directory);
  const auto line = reader.Next();
  ASSERT_FALSE(line);
  EXPECT_NE(line.error().message.find("Is a directory"), std::string::npos);
  close(directory);
}

}  // namespace
}  // namespace spillway
