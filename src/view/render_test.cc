// SPDX-License-Identifier: Apache-2.0
#include "view/render.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "view/line.h"
#include "view/plain.h"

namespace spillway::view {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

// A snapshot in which every part is set.
Snapshot Busy() {
  Snapshot s;
  s.title = "spillway top";
  s.where = "127.0.0.1:7380";
  s.at = milliseconds(7300);
  s.mode = Mode::kEmergency;
  s.level = Level::kEmergency;
  s.level_for = milliseconds(1200);
  s.blocked = true;
  s.pressure = 0.975;
  s.memory = {.total = 512 * kMiB,
              .free = 12 * kMiB,
              .ours_clean = 0,
              .ours_dirty = 200 * kMiB,
              .others = 300 * kMiB};
  s.stats.entries = 1234;
  s.stats.tokens = 1'234'567;
  s.stats.hits = 900;
  s.stats.misses = 100;
  s.stats.refused_blocked = 17;
  for (int i = 0; i < 30; ++i) {
    EventGroup group;
    group.from = group.to = milliseconds(100 * i);
    group.reason = Reason::kIdle;
    group.level = Level::kEmergency;
    group.count = 96;
    group.bytes = 96 * kMiB;
    group.first_key = "first-" + std::to_string(i);
    group.last_key = "last-" + std::to_string(i);
    s.events.push_back(group);
  }
  TierRow host;
  host.name = "host";
  host.entries = 1'111;
  host.held = 222 * kMiB;
  host.capacity = 444 * kMiB;
  s.tiers = {host};
  s.notes = {"first note", "second note"};
  return s;
}

std::size_t Columns(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

TEST(Render, FitsAnyPaper) {
  for (const Snapshot& s : {Snapshot(), Busy()}) {
    for (const std::size_t width : {1U, 2U, 10U, 40U, 79U, 80U, 200U}) {
      for (const std::size_t height : {1U, 5U, 10U, 16U, 23U, 24U, 60U}) {
        for (const bool unicode : {false, true}) {
          const auto lines = Render(s, {width, height, false, unicode});
          EXPECT_LE(lines.size(), height) << width << " x " << height;
          for (const std::string& line : lines) EXPECT_LE(Columns(line), width) << line;
        }
      }
    }
  }
}

TEST(Render, ShowsEverythingOn80x24) {
  const auto lines = Render(Busy(), {});
  EXPECT_EQ(lines.size(), 24U);
  const std::string all = Joined(lines);
  for (const char* text :
       {"127.0.0.1:7380", "0:07", "EMERGENCY for 1.2 s", "pressure 0.97", "sets are refused",
        "ours 200 MiB", "others 300 MiB", "free 12 MiB", "1,234 entries", "1,234,567 tokens",
        "hits 90.0 %", "17 refused", "1,111 entr.", "222 MiB of 444", "first-29", "first note",
        "second note"}) {
    EXPECT_THAT(all, HasSubstr(text));
  }
  EXPECT_THAT(all, Not(HasSubstr("first-1 ")));  // Old events are replaced by new ones.
}

TEST(Render, TheBarIsAsFullAsTheCard) {
  Snapshot s = Busy();
  s.memory = {.total = 100, .free = 30, .ours_clean = 0, .ours_dirty = 50, .others = 20};
  const std::string bar =
      Render(s, {.width = 102, .height = 24, .color = false, .unicode = false})[2];
  EXPECT_EQ(bar, "[" + std::string(50, '#') + std::string(20, 'o') + std::string(30, '.') + "]");
}

TEST(Render, LevelsAreMarkedWhereTheyBegin) {
  const std::string marks =
      Render(Busy(), {.width = 102, .height = 24, .color = false, .unicode = false})[3];
  EXPECT_EQ(marks.substr(71, 1), "N");
  EXPECT_EQ(marks.substr(86, 1), "P");
  EXPECT_EQ(marks.substr(93, 1), "C");
  EXPECT_EQ(marks.substr(97, 1), "E");
}

TEST(Render, WithoutColourThereIsNoEscape) {
  EXPECT_THAT(Joined(Render(Busy(), {.color = false})), Not(HasSubstr("\x1b")));
}

TEST(Render, ColourChangesNothingButColour) {
  std::string all = Joined(Render(Busy(), {.color = true}));
  EXPECT_THAT(all, HasSubstr("\x1b[1;31mEMERGENCY\x1b[0m"));
  for (std::size_t at = 0; (at = all.find('\x1b')) != all.npos;) {
    all.erase(at, all.find('m', at) - at + 1);
  }
  EXPECT_EQ(all, Joined(Render(Busy(), {.color = false})));
}

TEST(Render, WithoutUnicodeAllIsAscii) {
  for (const char c : Joined(Render(Busy(), {.unicode = false}))) {
    EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  }
}

TEST(Render, HostileNamesAreHarmless) {
  Snapshot s = Busy();
  const std::string hostile = std::string("\x1b[2J\r\n\x07\x9b", 8) + std::string(70'000, 'x');
  s.where = hostile;
  s.notes = {hostile};
  for (EventGroup& group : s.events) group.first_key = group.last_key = hostile;
  for (const std::string& line : Render(s, {.width = 120, .height = 40})) {
    EXPECT_LE(line.size(), 120U);
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  }
}

TEST(Render, UnknownPressureIsNotANumber) {
  Snapshot s = Busy();
  s.pressure.reset();
  EXPECT_THAT(Joined(Render(s, {})), HasSubstr("pressure unknown"));
}

TEST(Render, AModeThatIsNotTheLevelShowsBoth) {
  Snapshot s = Busy();
  s.mode = Mode::kWorkflowAware;
  s.level = Level::kPressure;
  EXPECT_THAT(Joined(Render(s, {})),
              HasSubstr("WORKFLOW_AWARE (level pressure) for 1.2 s  pressure 0.97"));
}

TEST(Plain, AStatusIsOneLine) {
  EXPECT_EQ(StatusLine(Busy()),
            "  7.3 s  EMERGENCY pressure 0.97  ours  200 MiB  others  300 MiB  free   12 MiB  "
            "1,234 entries  hits 90.0 %");
}

TEST(Line, IsCutByColumnsNotBytes) {
  Line line;
  line.Add("██").Add("ab", Ink::kOurs);
  EXPECT_EQ(line.columns(), 4U);
  EXPECT_EQ(line.Finish(3, false), "██a");
  EXPECT_EQ(line.Finish(1, false), "█");
  EXPECT_EQ(line.Finish(3, true), "██\x1b[34ma\x1b[0m");
}

TEST(Line, ForeignTextEndsInPointsWhereItIsCut) {
  EXPECT_EQ(Line().AddForeign("abcdefgh", 8).Finish(80, false), "abcdefgh");
  EXPECT_EQ(Line().AddForeign("abcdefghi", 8).Finish(80, false), "abcdef..");
  EXPECT_EQ(Line().AddForeign("abc", 1).Finish(80, false), ".");
  EXPECT_EQ(Line().AddForeign("abc", 0).Finish(80, false), "");
}

}  // namespace
}  // namespace spillway::view
