// SPDX-License-Identifier: Apache-2.0
// What `spillway top` knows about a daemon. It is requested by HTTP on a thread of its own, so that
// drawing never waits. An unreachable daemon is retried; since when and why it is unreachable is
// recorded.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cli/http_client.h"
#include "cli/report.h"
#include "view/snapshot.h"

namespace spillway {

// Which part of the contexts to request.
struct TopWish {
  std::string sort = "idle";
  bool desc = false;
  std::string search;
  std::size_t offset = 0;
  std::size_t limit = 40;
  bool operator==(const TopWish&) const = default;
};

// What is known of the daemon.
struct TopState {
  using Time = std::chrono::steady_clock::time_point;
  bool ever = false;               // A daemon has answered at least once.
  std::optional<Time> gone_since;  // No daemon answers since then.
  std::string why_gone;
  bool locked = false;  // The daemon requires a password, or another one than ours.
  Time at{};            // When the following fields were received.
  Report report;
  std::optional<Report> before;  // The previous report, for rates,
  Time before_at{};
  view::ContextsView contexts;
  std::vector<News> news;    // Not taken yet, oldest first.
  std::uint64_t passed = 0;  // How many events were dropped because there were too many.
};

// Parses a page of /api/v1/contexts. Keys are the original bytes, not escaped.
Result<view::ContextsView> ReadContexts(std::string_view json);
// Turns \xNN back into the byte.
std::string Unescaped(std::string_view text);

// Thread-safe. AskNow and Explain use a connection of their own, on the calling thread.
class TopWatch {
 public:
  TopWatch(HttpAddress address, Duration every);
  ~TopWatch();
  TopWatch(const TopWatch&) = delete;
  TopWatch& operator=(const TopWatch&) = delete;

  // A copy of the state; its news are removed here.
  TopState Take();
  // A changed wish is requested at once.
  void Wish(const TopWish& wish);
  // Requests once, now, on the calling thread. False: no daemon answers.
  bool AskNow();
  // Where a context is and why. On the calling thread, within a second or two.
  std::string Explain(const std::string& key);

 private:
  void Run(const std::stop_token& stop);
  Status Ask();
  void NoteLocked();
  void NoteGone(const Error& error);

  const HttpAddress address_;
  const Duration every_;
  HttpClient http_;  // Used by the requesting thread only.
  std::uint64_t news_number_ = 0;

  Mutex mutex_;
  std::condition_variable_any wake_;
  TopWish wish_ SPILLWAY_GUARDED_BY(mutex_);
  bool changed_ SPILLWAY_GUARDED_BY(mutex_) = true;
  TopState state_ SPILLWAY_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace spillway
