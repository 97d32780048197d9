// SPDX-License-Identifier: Apache-2.0
// The kind "card": virtual cards by name, in a run directory of this test.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cpu/card.h"
#include "device/testing/scratch_run_dir.h"
#include "monitor/machine.h"
#include "monitor/source/kind.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CardKindTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Card> Make(const std::string& name, Bytes total = 8 * kMiB) {
    return Card::Open({.name = name, .total = total}).value();
  }
  static Sighting Look() { return CardKind().Look(Machine{}); }
  static std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const Found& found : Look().found) names.push_back(found.device);
    return names;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(run_dir_.path())) {
      files.push_back(file.path().filename());
    }
    return files;
  }

  const testing::ScratchRunDir run_dir_;
};

TEST_F(CardKindTest, ListsTheCardsOfTheRunDirectoryByName) {
  const auto second = Make("second");
  const auto first = Make("first");
  EXPECT_THAT(Names(), ElementsAre("first", "second"));
  EXPECT_THAT(Look().why_not, IsEmpty());
  EXPECT_EQ(Look().found[0].label, "virtual card");
  EXPECT_EQ(Look().found[0].scope, Scope::kCard);
  EXPECT_FALSE(CardKind().for_gpus());
  EXPECT_FALSE(Look().named_by_user);
}

TEST_F(CardKindTest, OnlyAPlainFileWithANameIsACard) {
  const auto card = Make("demo");
  const std::ofstream would_be_private(run_dir_.path() + "/card-");
  const std::ofstream door(run_dir_.path() + "/ask-demo");
  std::filesystem::create_directory(run_dir_.CardPath("folder"));
  std::filesystem::create_symlink(run_dir_.CardPath("demo"), run_dir_.CardPath("link"));
  EXPECT_THAT(Names(), ElementsAre("demo"));
}

TEST_F(CardKindTest, ReadsWhatIsFreeOnACardThatOthersUse) {
  const auto card = Make("demo");
  ASSERT_TRUE(card->Take(6 * kMiB));
  const auto source = OpenSource("card:demo", Machine{}).value();
  EXPECT_EQ(source->name(), "card:demo");
  Reading reading = source->Read().value();
  EXPECT_EQ(reading.total, 8 * kMiB);
  EXPECT_EQ(reading.free, 2 * kMiB);
  EXPECT_EQ(reading.scope, Scope::kCard);
  EXPECT_DOUBLE_EQ(reading.pressure(), 0.75);
  card->Give(6 * kMiB);
  reading = source->Read().value();
  EXPECT_EQ(reading.free, 8 * kMiB);
}

TEST_F(CardKindTest, NeedsNoNameWhereThereIsOnlyOne) {
  const auto first = Make("first");
  EXPECT_EQ(OpenSource("card", Machine{}).value()->name(), "card:first");
  const auto second = Make("second");
  EXPECT_EQ(OpenSource("card", Machine{}).error().message,
            "card: there are 2 devices; name one: first, second");
}

TEST_F(CardKindTest, AMissingCardIsAnErrorAndIsNotMade) {
  const auto none = OpenSource("card:demo", Machine{});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_EQ(none.error().message,
            fmt::format("card: no virtual card is shared here: {} has none", run_dir_.path()));
  EXPECT_THAT(Files(), IsEmpty());

  const auto card = Make("demo");
  const auto other = OpenSource("card:dmeo", Machine{});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kUnavailable);
  EXPECT_EQ(other.error().message, "card: device 'dmeo' is not there; there are: demo");
  EXPECT_FALSE(OpenSource("card:../card-demo", Machine{}));
  EXPECT_THAT(Files(), UnorderedElementsAre("card-demo"));
}

TEST_F(CardKindTest, AFileThatIsNoCardIsAnErrorThatNamesIt) {
  std::ofstream(run_dir_.CardPath("demo")) << "no ledger";
  const auto source = OpenSource("card:demo", Machine{});
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr(run_dir_.CardPath("demo")));
  std::ifstream file(run_dir_.CardPath("demo"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "no ledger");
}

TEST_F(CardKindTest, ARunDirectoryThatCannotBeUsedIsNamed) {
  const std::string file = run_dir_.path() + "/file";
  std::ofstream(file) << "x";
  ::setenv("SPILLWAY_RUN_DIR", file.c_str(), 1);
  EXPECT_THAT(Look().found, IsEmpty());
  EXPECT_THAT(Look().why_not, HasSubstr("SPILLWAY_RUN_DIR=" + file));
  EXPECT_THAT(OpenSource("card:demo", Machine{}).error().message, HasSubstr(file));
}

}  // namespace
}  // namespace spillway
