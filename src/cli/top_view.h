// SPDX-License-Identifier: Apache-2.0
// The screen of `spillway top`: how keys change it and what it shows. Knows no terminal and no
// socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/top_watch.h"
#include "view/event_log.h"
#include "view/keys.h"
#include "view/snapshot.h"

namespace spillway {

class TopView {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `start_unix_ms` is the same moment in Unix time.
  TopView(std::string where, Time start, std::int64_t start_unix_ms)
      : where_(std::move(where)), start_(start), start_unix_ms_(start_unix_ms) {}

  // What the caller has to do after a key.
  enum class Asks : std::uint8_t { kNothing, kQuit, kExplain };
  // Handles a key.
  Asks Press(const view::KeyPress& key);
  // For kExplain: the key of the selected context. Empty: none is selected.
  std::string chosen() const;
  // Shows a page in place of contexts and events, until the next key.
  void ShowPage(std::string title, const std::string& text);

  // New data from the daemon. While the screen is paused, only events are recorded.
  void OnEvent(TopState state);
  // The machine's memory, if there is no daemon.
  void OnEvent(std::vector<view::TierRow> machine) { machine_ = std::move(machine); }
  // How many rows of contexts fit on the screen.
  void SetRows(std::size_t rows);
  TopWish wish() const { return wish_; }
  bool alone() const { return !state_.ever; }

  // The screen at this moment.
  view::Snapshot Show(Time now) const;

 private:
  bool PressInFilter(const view::KeyPress& key);
  void NextSort();
  void MoveBy(std::ptrdiff_t rows);
  void Note(const News& news);
  std::optional<view::Flows> FlowsNow() const;
  std::string KeysLine() const;

  const std::string where_;
  const Time start_;
  const std::int64_t start_unix_ms_;
  TopWish wish_;
  bool paused_ = false;
  bool losses_only_ = false;
  bool filtering_ = false;  // Typed text goes into the filter.
  std::string before_filter_;
  std::size_t chosen_ = 0;  // Index among the rows shown.
  std::string page_title_;
  std::vector<std::string> page_;
  TopState state_;
  Time level_since_{};
  std::vector<view::TierRow> machine_;
  std::unique_ptr<view::EventLog> events_ = std::make_unique<view::EventLog>(TimePoint{});
};

}  // namespace spillway
