// What `spillway top` knows of a daemon: asked for by HTTP on a thread of its own,
// so that whoever draws never waits. A daemon that is gone is asked for again and
// again; since when it is, and why, is known.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "demo/http_client.h"
#include "demo/report.h"
#include "view/snapshot.h"

namespace spillway {

// What of the contexts is wanted.
struct TopWish {
  std::string sort = "idle";
  bool desc = false;
  std::string search;
  std::size_t offset = 0;
  std::size_t limit = 40;
  bool operator==(const TopWish&) const = default;
};

struct TopState {
  using Time = std::chrono::steady_clock::time_point;
  bool ever = false;               // A daemon has answered.
  std::optional<Time> gone_since;  // None does now.
  std::string why_gone;
  Time at{};  // When the following was told.
  demo::Report report;
  std::optional<demo::Report> before;  // The one before that, for rates,
  Time before_at{};
  view::ContextsView contexts;
  std::vector<demo::News> news;  // Not taken yet, oldest first.
  std::uint64_t passed = 0;      // So many were too many to be told.
  std::string phase;             // Of a demo that is played on it.
  std::string caption;
};

// The rows of a page of /api/v1/contexts; keys as they are, not as they are shown.
Result<view::ContextsView> ReadContexts(std::string_view json);
// Turns \xNN back into what it was.
std::string Unescaped(std::string_view text);

class TopWatch {
 public:
  TopWatch(demo::HttpAddress address, Duration every);
  ~TopWatch();
  TopWatch(const TopWatch&) = delete;
  TopWatch& operator=(const TopWatch&) = delete;

  // A copy; news are taken with it.
  TopState Take();
  // Another wish is answered at once.
  void Wish(const TopWish& wish);
  // Asks once, now, on this thread. False: nobody answers.
  bool AskNow();
  // Where a context is and why. On this thread, within a second or two.
  std::string Explain(const std::string& key);

 private:
  void Run(const std::stop_token& stop);
  Status Ask();
  void NoteGone(const Error& error);

  const demo::HttpAddress address_;
  const Duration every_;
  demo::HttpClient http_;  // The asking thread's.
  std::uint64_t news_number_ = 0;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  TopWish wish_;         // Guarded by mutex_.
  bool changed_ = true;  // Likewise.
  TopState state_;       // Likewise.
  std::jthread thread_;
};

}  // namespace spillway
