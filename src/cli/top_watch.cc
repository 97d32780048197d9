// SPDX-License-Identifier: Apache-2.0
#include "cli/top_watch.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kNewsMax = 1000;
constexpr std::size_t kKeyShown = 1024;  // Longer keys are drawn shortened.

int Nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size() && bytes.size() < kKeyShown; i += 2) {
    bytes += static_cast<char>(Nibble(hex[i]) * 16 + Nibble(hex[i + 1]));
  }
  return bytes;
}

std::string Encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

view::ContextRow RowOf(const Json& json) {
  view::ContextRow row;
  const std::string hex = json.value("hex", std::string());
  row.key = hex.empty() ? Unescaped(json.at("key").get<std::string>()) : FromHex(hex);
  row.agent = Unescaped(json.value("agent", std::string()));
  row.tokens = json.value("tokens", Tokens{0});
  row.bytes = json.value("bytes", Bytes{0});
  row.tier = json.value("tier", std::string());
  row.clean = json.value("backed", false);
  row.idle = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(json.value("idle_s", 0.0)));
  row.uses = json.value("uses", std::uint64_t{0});
  row.leases = json.value("leases", std::uint64_t{0});
  return row;
}

}  // namespace

std::string Unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text.substr(i).starts_with("\\x") && i + 3 < text.size() &&
                         Nibble(text[i + 2]) >= 0 && Nibble(text[i + 3]) >= 0;
    if (!escaped) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(Nibble(text[i + 2]) * 16 + Nibble(text[i + 3]));
    i += 3;
  }
  return out;
}

Result<view::ContextsView> ReadContexts(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    view::ContextsView view;
    view.total = json.at("total").get<std::size_t>();
    view.matching = json.at("matching").get<std::size_t>();
    for (const Json& row : json.at("contexts")) view.rows.push_back(RowOf(row));
    return view;
  } catch (const std::exception& error) {
    return Error{Code::kUnavailable,
                 fmt::format("the daemon's contexts are malformed: {}", error.what())};
  }
}

TopWatch::TopWatch(HttpAddress address, Duration every)
    : address_(std::move(address)),
      every_(every),
      http_(address_, std::chrono::seconds(2)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

TopWatch::~TopWatch() {
  thread_.request_stop();
  wake_.notify_all();
}

TopState TopWatch::Take() {
  const MutexLock lock(mutex_);
  TopState taken = state_;
  state_.news.clear();
  state_.passed = 0;
  return taken;
}

void TopWatch::Wish(const TopWish& wish) {
  const MutexLock lock(mutex_);
  if (wish == wish_) return;
  wish_ = wish;
  changed_ = true;
  wake_.notify_all();
}

bool TopWatch::AskNow() {
  const Result<std::string> health = HttpClient(address_).Get("/healthz");
  if (!health) return false;
  // The thread sends its first request as soon as it runs: wait for the answer, within a limit.
  const MutexLock lock(mutex_);
  wake_.wait_for(mutex_, std::chrono::seconds(5),
                 [this]() SPILLWAY_REQUIRES(mutex_) { return state_.ever || state_.gone_since; });
  return state_.ever;
}

std::string TopWatch::Explain(const std::string& key) {
  HttpClient http(address_, std::chrono::seconds(2));
  const Result<std::string> text = http.Get("/api/v1/explain?key=" + Encoded(key));
  if (!text) return text.error().message;
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return "the answer is not a spillwayd's";
  return json.value("explain", std::string());
}

void TopWatch::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (Status asked = Ask(); !asked) NoteGone(asked.error());
    if (http_.asks_for_password()) NoteLocked();
    const MutexLock lock(mutex_);
    wake_.notify_all();
    wake_.wait_for(mutex_, stop, every_, [this]() SPILLWAY_REQUIRES(mutex_) { return changed_; });
  }
}

Status TopWatch::Ask() {
  TopWish wish;
  {
    const MutexLock lock(mutex_);
    wish = wish_;
    changed_ = false;
  }
  const Result<std::string> stats = http_.Get("/api/v1/stats");
  if (!stats) return stats.error();
  Result<Report> report = ReadReport(*stats);
  if (!report) return report.error();
  const auto at = std::chrono::steady_clock::now();
  const Result<std::string> page = http_.Get(
      fmt::format("/api/v1/contexts?sort={}&desc={}&search={}&offset={}&limit={}", wish.sort,
                  wish.desc ? 1 : 0, Encoded(wish.search), wish.offset, wish.limit));
  if (!page) return page.error();
  Result<view::ContextsView> contexts = ReadContexts(*page);
  if (!contexts) return contexts.error();
  contexts->sort = wish.sort;
  contexts->desc = wish.desc;
  contexts->search = wish.search;
  contexts->offset = wish.offset;
  const Result<std::string> told =
      http_.Get(fmt::format("/api/v1/events?after={}&limit=200", news_number_));
  if (!told) return told.error();
  Result<AllNews> news = ReadNews(*told);
  if (!news) return news.error();
  const MutexLock lock(mutex_);
  // The counters of a restarted daemon begin at 0, so there is no rate.
  const bool same =
      state_.ever && !state_.gone_since && report->stats.sets >= state_.report.stats.sets;
  state_.before.reset();
  if (same) state_.before = std::move(state_.report);
  state_.before_at = state_.at;
  state_.at = at;
  state_.ever = true;
  state_.gone_since.reset();
  state_.report = std::move(*report);
  state_.contexts = std::move(*contexts);
  state_.passed += news_number_ == 0 ? 0 : news->passed;
  std::ranges::move(news->news, std::back_inserter(state_.news));
  if (state_.news.size() > kNewsMax) {
    state_.news.erase(state_.news.begin(),
                      state_.news.end() - static_cast<std::ptrdiff_t>(kNewsMax));
  }
  news_number_ = news->latest;
  return {};
}

void TopWatch::NoteLocked() {
  const MutexLock lock(mutex_);
  state_.locked = true;
}

void TopWatch::NoteGone(const Error& error) {
  const MutexLock lock(mutex_);
  if (!state_.gone_since) state_.gone_since = std::chrono::steady_clock::now();
  state_.why_gone = error.message;
}

}  // namespace spillway
