// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "view/words.h"

namespace spillway {

namespace {

using Kind = view::KeyPress::Kind;

// The columns to sort by, as in /api/v1/contexts, and whether to begin with the largest.
struct Sort {
  std::string_view name;
  bool desc;
};
constexpr std::array kSorts = {Sort{"idle", false},  Sort{"bytes", true},  Sort{"tokens", true},
                               Sort{"uses", true},   Sort{"leases", true}, Sort{"tier", false},
                               Sort{"agent", false}, Sort{"key", false}};

constexpr std::string_view kHelp =
    "s  sort by the next column: idle, bytes, tokens, uses, leases, tier, agent, key\n"
    "r  the other way round\n"
    "/  show only contexts with this text in key or agent; Enter keeps it, Esc ends it\n"
    "up, down, PgUp, PgDn, Home  choose a context\n"
    "e, Enter  where it is, and why\n"
    "l  losses alone among the evictions, and all again\n"
    "p  pause, and go on\n"
    "q  quit; so does Ctrl-C\n"
    "\n"
    "The bar is the device: # ours, o theirs, . free; letters under it are where levels begin.\n"
    "C after a context: it is clean (a lower tier has a copy), so it can be evicted at once.";

}  // namespace

// --- keys ---

TopView::Asks TopView::Press(const view::KeyPress& key) {
  if (filtering_ && PressInFilter(key)) return Asks::kNothing;
  const bool page = !page_.empty();
  page_.clear();
  const char text = key.kind == Kind::kText ? key.text : '\0';
  if (text == 'q') return Asks::kQuit;
  if (page && (text != '?' || page_title_ == "keys")) return Asks::kNothing;
  const auto rows = static_cast<std::ptrdiff_t>(wish_.limit);
  if (text == '?') ShowPage("keys", std::string(kHelp));
  if (text == 'p') paused_ = !paused_;
  if (text == 'l') losses_only_ = !losses_only_;
  if (text == 's') NextSort();
  if (text == 'r') wish_.desc = !wish_.desc;
  if (text == '/') {
    filtering_ = true;
    before_filter_ = wish_.search;
  }
  if (key.kind == Kind::kEscape) wish_.search.clear();
  if (key.kind == Kind::kUp) MoveBy(-1);
  if (key.kind == Kind::kDown) MoveBy(1);
  if (key.kind == Kind::kPageUp) MoveBy(-rows);
  if (key.kind == Kind::kPageDown) MoveBy(rows);
  if (key.kind == Kind::kHome) wish_.offset = chosen_ = 0;
  return text == 'e' || key.kind == Kind::kEnter ? Asks::kExplain : Asks::kNothing;
}

// False: the key does not belong to the filter.
bool TopView::PressInFilter(const view::KeyPress& key) {
  constexpr std::size_t kMost = 64;
  switch (key.kind) {
    case Kind::kText:
      if (wish_.search.size() < kMost) wish_.search += key.text;
      break;
    case Kind::kBackspace:
      if (!wish_.search.empty()) wish_.search.pop_back();
      break;
    case Kind::kEnter:
      filtering_ = false;
      break;
    case Kind::kEscape:
      filtering_ = false;
      wish_.search = before_filter_;
      break;
    default:
      return false;
  }
  wish_.offset = chosen_ = 0;
  return true;
}

void TopView::NextSort() {
  const auto* at = std::ranges::find(kSorts, wish_.sort, &Sort::name);
  at = at == kSorts.end() || at + 1 == kSorts.end() ? kSorts.begin() : at + 1;
  wish_.sort = at->name;
  wish_.desc = at->desc;
  wish_.offset = chosen_ = 0;
}

// Moves the selected row, and scrolls if needed.
void TopView::MoveBy(std::ptrdiff_t rows) {
  const auto last = static_cast<std::ptrdiff_t>(state_.contexts.matching) - 1;
  const auto at = static_cast<std::ptrdiff_t>(wish_.offset + chosen_) + rows;
  const auto to = static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(at, 0, std::max<std::ptrdiff_t>(last, 0)));
  const std::size_t shown = std::max<std::size_t>(1, wish_.limit);
  if (to < wish_.offset) wish_.offset = to;
  if (to >= wish_.offset + shown) wish_.offset = to - shown + 1;
  chosen_ = to - wish_.offset;
}

std::string TopView::chosen() const {
  return chosen_ < state_.contexts.rows.size() ? state_.contexts.rows[chosen_].key : std::string();
}

void TopView::ShowPage(std::string title, const std::string& text) {
  page_title_ = std::move(title);
  page_.clear();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    page_.push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

void TopView::SetRows(std::size_t rows) {
  wish_.limit = std::clamp<std::size_t>(rows, 1, 200);
  if (chosen_ >= wish_.limit) chosen_ = wish_.limit - 1;
}

// --- new data ---

void TopView::OnEvent(TopState state) {
  for (const News& news : state.news) Note(news);
  if (paused_ && state.ever && !state.gone_since) return;
  const bool level_changed =
      !state_.ever || state.report.stats.device.level != state_.report.stats.device.level;
  if (level_changed) level_since_ = state.at;
  state_ = std::move(state);
  if (chosen_ >= state_.contexts.rows.size()) {
    chosen_ = state_.contexts.rows.empty() ? 0 : state_.contexts.rows.size() - 1;
  }
}

void TopView::Note(const News& news) {
  // A copy to a lower tier removes nothing.
  if (news.is_level || news.action == Action::kBack) return;
  const std::string key = Unescaped(news.key);
  Event event;
  event.at = TimePoint(
      std::chrono::milliseconds(std::max<std::int64_t>(0, news.unix_ms - start_unix_ms_)));
  event.key = key;
  event.action = news.action;
  event.reason = news.reason;
  event.level = news.level;
  event.bytes = news.bytes;
  events_->Add(event);
}

std::optional<view::Flows> TopView::FlowsNow() const {
  if (!state_.before) return std::nullopt;
  const double seconds = std::chrono::duration<double>(state_.at - state_.before_at).count();
  if (seconds <= 0) return std::nullopt;
  const Stats& now = state_.report.stats;
  const Stats& then = state_.before->stats;
  const auto rate = [&](std::uint64_t after, std::uint64_t before) {
    return static_cast<double>(after - std::min(after, before)) / seconds;
  };
  const auto of = [&](Action action) {
    const auto i = static_cast<std::size_t>(action);
    return rate(now.removed_by_action.at(i), then.removed_by_action.at(i));
  };
  view::Flows flows;
  flows.down = rate(now.moves.bytes_down, then.moves.bytes_down);
  flows.up = rate(now.moves.bytes_up, then.moves.bytes_up);
  flows.dropped = of(Action::kDrop);
  flows.demoted = of(Action::kDemote);
  flows.expired = of(Action::kExpire);
  const auto of_reasons = [&](const auto& counts, std::initializer_list<Reason> reasons) {
    std::uint64_t sum = 0;
    for (const Reason reason : reasons) sum += counts.at(static_cast<std::size_t>(reason));
    return sum;
  };
  const std::initializer_list<Reason> by_clients = {Reason::kErased, Reason::kReplaced,
                                                    Reason::kCleared};
  flows.erased = rate(of_reasons(now.removed_by_reason, by_clients),
                      of_reasons(then.removed_by_reason, by_clients));
  const auto sum = [](const auto& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  };
  flows.lost = rate(sum(now.destroyed_by_reason), sum(then.destroyed_by_reason));
  flows.gets = rate(now.hits + now.misses, then.hits + then.misses);
  flows.sets = rate(now.sets, then.sets);
  return flows;
}

namespace {

// The bound below which that share of the reads between two reports stayed.
Duration ReadWithin(const Report& before, const Report& now, std::uint64_t all, double share) {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < now.read_bounds_s.size(); ++i) {
    seen += now.reads_within[i] - std::min(now.reads_within[i], before.reads_within[i]);
    if (static_cast<double>(seen) < share * static_cast<double>(all)) continue;
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(now.read_bounds_s[i]));
  }
  return std::chrono::seconds(60);
}

std::optional<view::ReadView> ReadsOf(const Report& before, const Report& now) {
  const std::size_t size = now.reads_within.size();
  if (size != now.read_bounds_s.size() + 1 || before.reads_within.size() != size) return {};
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < size; ++i) {
    all += now.reads_within[i] - std::min(now.reads_within[i], before.reads_within[i]);
  }
  if (all == 0) return {};
  return view::ReadView{.p50 = ReadWithin(before, now, all, .5),
                        .p99 = ReadWithin(before, now, all, .99)};
}

}  // namespace

std::string TopView::KeysLine() const {
  if (filtering_) return "filter: " + wish_.search + "_   Enter keeps it, Esc ends it";
  return fmt::format("q quit  s sort  r reverse  / filter  e explain  l losses  {}  ? help",
                     paused_ ? "p GO ON" : "p pause");
}

view::Snapshot TopView::Show(Time now) const {
  view::Snapshot s;
  s.title = "spillway top";
  s.where = where_;
  s.at = now - start_;
  s.keys = KeysLine();
  s.page_title = page_title_;
  s.page = page_;
  const auto since = [&](Time then) { return view::Seconds(now - then); };
  if (!state_.ever) {
    s.daemon = false;
    s.tiers = machine_;
    s.banner = fmt::format("no spillwayd at {}: this machine's memory alone", where_);
    s.notes = {state_.why_gone.empty() ? std::string("asking") : state_.why_gone,
               "it is tried again and again; start one with: spillwayd"};
    return s;
  }
  if (state_.gone_since) {
    s.banner = fmt::format("spillwayd is gone since {}, asking again ({})",
                           since(*state_.gone_since), state_.why_gone);
  } else if (paused_) {
    s.banner = "paused (p continues)";
  }
  const Report& report = state_.report;
  s.mode = report.mode;
  s.level_for = now - level_since_;
  s.blocked = report.blocked;
  view::Show(report.stats, &s);
  s.flows = FlowsNow();
  if (state_.before) s.reads = ReadsOf(*state_.before, report);
  s.machine = report.machine;
  if (report.started_unix_ms > 0) {
    s.up = std::chrono::milliseconds(report.unix_ms - report.started_unix_ms);
  }
  for (const Report::Process& process : report.processes) {
    if (!process.own) s.processes.push_back({process.pid, process.name, process.bytes});
  }
  s.contexts = state_.contexts;
  s.contexts->chosen = chosen_;
  s.events = events_->Latest(view::EventLog::kGroupsMax);
  s.losses_only = losses_only_;
  if (losses_only_) {
    std::erase_if(s.events, [](const view::EventGroup& group) {
      return group.action != Action::kDestroy || view::ByClients(group.reason);
    });
  }
  return s;
}

}  // namespace spillway
