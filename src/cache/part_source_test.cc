// SPDX-License-Identifier: Apache-2.0
// A part of a device as if it were all of it.
#include "cache/part_source.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Whole final : public PressureSource {
 public:
  Result<Reading> Read() override {
    if (!good) return Error{Code::kUnavailable, "it does not answer"};
    return Reading{.total = 80 * kGiB, .free = free, .scope = Scope::kCard, .held = held};
  }
  int wake_fd() const override { return 42; }
  std::string_view name() const override { return "cuda:0"; }

  Bytes free = 50 * kGiB;
  std::optional<Bytes> held;
  bool good = true;
};

class PartSourceTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<PressureSource>> Open(const std::string& spec) const {
    return PartSource::Open(spec, whole_);
  }
  const std::shared_ptr<Whole> whole_ = std::make_shared<Whole>();
};

TEST_F(PartSourceTest, CountsWhatHasBeenTakenSinceItWasOpened) {
  const auto part = Open("part:4GiB");
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ((*part)->name(), "part:4GiB of cuda:0");
  EXPECT_EQ((*part)->wake_fd(), 42);
  EXPECT_EQ((*part)->Read()->total, 4 * kGiB);
  EXPECT_EQ((*part)->Read()->free, 4 * kGiB);
  whole_->free = 49 * kGiB;
  whole_->held = kGiB;
  const Result<Reading> reading = (*part)->Read();
  EXPECT_EQ(reading->free, 3 * kGiB);
  EXPECT_EQ(reading->held, kGiB);
  EXPECT_EQ(reading->scope, Scope::kCard);
  EXPECT_DOUBLE_EQ(reading->pressure(), 0.25);
}

TEST_F(PartSourceTest, NeverHasLessThanNothingNorMoreThanAll) {
  const auto part = Open("part:4GiB");
  whole_->free = 10 * kGiB;
  EXPECT_EQ((*part)->Read()->free, 0U);
  whole_->free = 70 * kGiB;  // Others have freed memory.
  EXPECT_EQ((*part)->Read()->free, 4 * kGiB);
}

TEST_F(PartSourceTest, AnErrorOfTheWholeIsItsOwn) {
  const auto part = Open("part:4GiB");
  whole_->good = false;
  EXPECT_EQ((*part)->Read().error().message, "it does not answer");
  EXPECT_EQ(Open("part:4GiB").error().code, Code::kUnavailable);
  whole_->good = true;
  EXPECT_TRUE((*part)->Read());
}

TEST_F(PartSourceTest, WhatIsNoPartIsNamed) {
  EXPECT_EQ(Open("part:81GiB").error().message,
            "part: 81 GiB are no part of cuda:0, which has 80 GiB");
  EXPECT_EQ(Open("part:0").error().code, Code::kInvalidArgument);
  EXPECT_THAT(Open("part:much").error().message, StartsWith("part: "));
  EXPECT_THAT(Open("part:").error().message, HasSubstr("as in part:4GiB"));
  EXPECT_TRUE(PartSource::IsSpec("part:1"));
  EXPECT_FALSE(PartSource::IsSpec("partition"));
}

}  // namespace
}  // namespace spillway
