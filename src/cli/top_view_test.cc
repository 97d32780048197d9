// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "view/render.h"

namespace spillway {
namespace {

using Kind = view::KeyPress::Kind;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr TopView::Time kStart{};

view::KeyPress Text(char c) { return {Kind::kText, c}; }

TopState SomeState(std::size_t contexts) {
  TopState state;
  state.ever = true;
  state.at = kStart + std::chrono::seconds(2);
  state.before_at = kStart + std::chrono::seconds(1);
  state.before.emplace();
  state.report.stats.device.name = "device";
  state.report.stats.device.total = 100 * kMiB;
  state.report.stats.device.free = 60 * kMiB;
  state.report.stats.moves.bytes_down = 5 * kMiB;
  state.report.stats.removed_by_action.at(static_cast<std::size_t>(Action::kDrop)) = 7;
  state.contexts.total = state.contexts.matching = contexts;
  for (std::size_t i = 0; i < std::min<std::size_t>(contexts, 40); ++i) {
    view::ContextRow row;
    row.key = "key-" + std::to_string(i);
    state.contexts.rows.push_back(row);
  }
  return state;
}

std::string Drawn(const TopView& top, view::Paper paper = {}) {
  std::string all;
  for (const std::string& line : view::Render(top.Show(kStart + std::chrono::seconds(3)), paper)) {
    all += line + "\n";
  }
  return all;
}

class TopViewTest : public ::testing::Test {
 protected:
  TopView top_{"127.0.0.1:7380", kStart, 0};
};

TEST_F(TopViewTest, SortsGoRoundAndCanBeReversed) {
  EXPECT_EQ(top_.wish().sort, "idle");
  top_.Press(Text('s'));
  EXPECT_EQ(top_.wish().sort, "bytes");
  EXPECT_TRUE(top_.wish().desc);
  top_.Press(Text('r'));
  EXPECT_FALSE(top_.wish().desc);
  for (int i = 0; i < 7; ++i) top_.Press(Text('s'));
  EXPECT_EQ(top_.wish().sort, "idle");
}

TEST_F(TopViewTest, WhatIsTypedBehindASlashIsTheFilter) {
  for (const char c : {'/', 'q', 's'}) EXPECT_EQ(top_.Press(Text(c)), TopView::Asks::kNothing);
  EXPECT_EQ(top_.wish().search, "qs");
  EXPECT_THAT(Drawn(top_), HasSubstr("filter: qs_"));
  top_.Press({Kind::kBackspace, 0});
  top_.Press({Kind::kEnter, 0});
  EXPECT_EQ(top_.wish().search, "q");
  EXPECT_EQ(top_.wish().sort, "idle");
  top_.Press(Text('/'));
  top_.Press(Text('x'));
  top_.Press({Kind::kEscape, 0});
  EXPECT_EQ(top_.wish().search, "q");  // Unchanged.
  top_.Press({Kind::kEscape, 0});
  EXPECT_EQ(top_.wish().search, "");
  EXPECT_EQ(top_.Press(Text('q')), TopView::Asks::kQuit);
}

TEST_F(TopViewTest, TheChosenRowScrollsTheList) {
  top_.SetRows(10);
  top_.OnEvent(SomeState(100));
  for (int i = 0; i < 12; ++i) top_.Press({Kind::kDown, 0});
  EXPECT_EQ(top_.wish().offset, 3U);
  top_.Press({Kind::kPageDown, 0});
  EXPECT_EQ(top_.wish().offset, 13U);
  for (int i = 0; i < 20; ++i) top_.Press({Kind::kPageDown, 0});
  EXPECT_EQ(top_.wish().offset, 90U);
  top_.Press({Kind::kHome, 0});
  EXPECT_EQ(top_.wish().offset, 0U);
  EXPECT_EQ(top_.chosen(), "key-0");
  top_.Press({Kind::kUp, 0});
  EXPECT_EQ(top_.wish().offset, 0U);
  EXPECT_EQ(top_.Press({Kind::kEnter, 0}), TopView::Asks::kExplain);
}

TEST_F(TopViewTest, HelpCoversTheListsUntilTheNextKey) {
  top_.OnEvent(SomeState(3));
  top_.Press(Text('?'));
  EXPECT_THAT(Drawn(top_), HasSubstr("sort by the next column"));
  EXPECT_THAT(Drawn(top_), Not(HasSubstr("key-0")));
  top_.Press(Text('s'));  // Only closes the page.
  EXPECT_EQ(top_.wish().sort, "idle");
  EXPECT_THAT(Drawn(top_), HasSubstr("key-0"));
}

TEST_F(TopViewTest, RatesAreWhatHappenedBetweenTwoLooks) {
  top_.OnEvent(SomeState(1));
  EXPECT_THAT(Drawn(top_), HasSubstr("5 MiB down"));
  EXPECT_THAT(Drawn(top_), HasSubstr("7 dropped"));
}

// Tells of one removal.
News Removal(std::string key, Action action, Reason reason) {
  News news;
  news.key = std::move(key);
  news.action = action;
  news.reason = reason;
  return news;
}

TEST_F(TopViewTest, LossesAndWhatClientsErasedAreToldApart) {
  TopState state = SomeState(1);
  state.report.stats.destroyed_by_reason.at(static_cast<std::size_t>(Reason::kRoom)) = 3;
  state.report.stats.removed_by_reason.at(static_cast<std::size_t>(Reason::kRoom)) = 3;
  state.report.stats.removed_by_reason.at(static_cast<std::size_t>(Reason::kErased)) = 4;
  state.report.stats.removed_by_reason.at(static_cast<std::size_t>(Reason::kReplaced)) = 5;
  state.report.reads_within = {9, 1, 0};
  state.report.read_bounds_s = {0.001, 0.01};
  state.before->reads_within = {0, 0, 0};
  state.news = {Removal("lost-key", Action::kDestroy, Reason::kRoom),
                Removal("erased-key", Action::kDestroy, Reason::kErased),
                Removal("dropped-key", Action::kDrop, Reason::kIdle)};
  top_.OnEvent(state);
  const std::string all = Drawn(top_);
  EXPECT_THAT(all, HasSubstr("lost    3 destroyed        9 erased by clients  reads p50 1 ms, "
                             "p99 10 ms\n"));
  EXPECT_THAT(all, HasSubstr("destroyed    1 x room"));
  EXPECT_THAT(all, HasSubstr("erased       1 x erased"));
  EXPECT_THAT(all, HasSubstr("l losses"));
  top_.Press(Text('l'));
  const std::string losses = Drawn(top_);
  EXPECT_THAT(losses, HasSubstr("losses alone, and why"));
  EXPECT_THAT(losses, HasSubstr("lost-key"));
  EXPECT_THAT(losses, Not(HasSubstr("erased-key")));
  EXPECT_THAT(losses, Not(HasSubstr("dropped-key")));
  top_.Press(Text('l'));
  EXPECT_THAT(Drawn(top_), HasSubstr("erased-key"));
}

TEST_F(TopViewTest, ALossIsRed) {
  TopState state = SomeState(1);
  top_.OnEvent(state);
  EXPECT_THAT(Drawn(top_, {.color = true}), HasSubstr("lost    0 destroyed"));
  state.report.stats.destroyed_by_reason.at(static_cast<std::size_t>(Reason::kRoom)) = 1;
  top_.OnEvent(state);
  EXPECT_THAT(Drawn(top_, {.color = true}), HasSubstr("lost    \x1b[1;31m1 destroyed\x1b[0m"));
}

TEST_F(TopViewTest, APauseStandsStillAndSaysSo) {
  top_.OnEvent(SomeState(1));
  top_.Press(Text('p'));
  top_.OnEvent(SomeState(2));
  EXPECT_THAT(Drawn(top_), HasSubstr("paused"));
  EXPECT_THAT(Drawn(top_), Not(HasSubstr("key-1")));
  top_.Press(Text('p'));
  top_.OnEvent(SomeState(2));
  EXPECT_THAT(Drawn(top_), HasSubstr("key-1"));
}

TEST_F(TopViewTest, ADaemonThatIsGoneIsToldAndWhatItSaidStays) {
  TopState state = SomeState(1);
  state.gone_since = kStart + std::chrono::seconds(1);
  state.why_gone = "127.0.0.1:7380: Connection refused";
  top_.OnEvent(state);
  EXPECT_THAT(Drawn(top_), HasSubstr("gone since 2.0 s, asking again (127.0.0.1:7380: Conn"));
  EXPECT_THAT(Drawn(top_), HasSubstr("key-0"));
}

TEST_F(TopViewTest, WithoutADaemonThereIsTheMachine) {
  view::TierRow host;
  host.name = "host";
  host.held = 3 * kGiB;
  host.capacity = 4 * kGiB;
  host.pressure = 0.75;
  host.level = Level::kNormal;
  top_.OnEvent(TopState());
  top_.OnEvent(std::vector<view::TierRow>{host});
  EXPECT_TRUE(top_.alone());
  const std::string all = Drawn(top_);
  EXPECT_THAT(all, HasSubstr("no spillwayd at 127.0.0.1:7380: this machine's memory alone"));
  EXPECT_THAT(all, HasSubstr("3 GiB of 4 GiB"));
  EXPECT_THAT(all, HasSubstr("0.75 NORMAL"));
  EXPECT_THAT(all, Not(HasSubstr("evictions, and why")));
}

TEST_F(TopViewTest, HostileKeysAreEscapedAndEveryScreenIsFilledAndNoMore) {
  TopState state = SomeState(3);
  state.contexts.rows[0].key = "\x1b[2J\x1b]0;owned\x07<script>";
  state.contexts.rows[1].key = std::string(65'000, '\xff');
  state.contexts.rows[2].agent = std::string("\r\n\t\0", 4);
  top_.OnEvent(state);
  for (const auto& [width, height] :
       {std::pair<std::size_t, std::size_t>{80, 24}, {40, 10}, {20, 3}, {120, 40}, {250, 80}}) {
    view::Paper paper;
    paper.width = width;
    paper.height = height;
    const auto lines = view::Render(top_.Show(kStart), paper);
    EXPECT_LE(lines.size(), height);
    for (const std::string& line : lines) {
      EXPECT_LE(line.size(), width);
      for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
    }
    EXPECT_THAT(lines.back(), HasSubstr("q quit"));
  }
}

TEST(TopWatch, ReadsContextsWithTheirKeysAsTheyAre) {
  const auto view = ReadContexts(
      R"({"total":5,"matching":2,"contexts":[{"key":"plain","agent":"a\\x1b","tokens":7,"bytes":8,
          "tier":"disk","backed":true,"idle_s":1.5,"uses":3,"leases":1},
          {"key":"shown...","hex":"1b5b00","tokens":0,"bytes":0,"tier":"","backed":false,
          "idle_s":0,"uses":0,"leases":0}]})");
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->total, 5U);
  EXPECT_EQ(view->matching, 2U);
  ASSERT_EQ(view->rows.size(), 2U);
  EXPECT_EQ(view->rows[0].agent, "a\x1b");
  EXPECT_EQ(view->rows[0].idle, std::chrono::milliseconds(1500));
  EXPECT_TRUE(view->rows[0].clean);
  EXPECT_EQ(view->rows[1].key, std::string("\x1b[\0", 3));
  EXPECT_FALSE(ReadContexts("{}"));
  EXPECT_FALSE(ReadContexts("no"));
}

}  // namespace
}  // namespace spillway
