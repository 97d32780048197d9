#include "cli/top_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "view/words.h"

namespace spillway {

namespace {

using Kind = view::KeyPress::Kind;

// As /api/v1/contexts knows them, and which way round one wants it first.
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
    "p  pause, and go on\n"
    "q  quit; so does Ctrl-C\n"
    "\n"
    "The bar is the device: # ours, o theirs, . free; letters under it are where levels begin.\n"
    "B behind a context: it has a copy below, and can leave at once.";

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

// False: it is no concern of the filter's.
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

// The chosen row moves, and what is shown with it.
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

// --- what is heard ---

void TopView::Hear(TopState state) {
  for (const demo::News& news : state.news) Note(news);
  if (paused_ && state.ever && !state.gone_since) return;
  const bool level_changed =
      !state_.ever || state.report.stats.device.level != state_.report.stats.device.level;
  if (level_changed) level_since_ = state.at;
  state_ = std::move(state);
  if (chosen_ >= state_.contexts.rows.size()) {
    chosen_ = state_.contexts.rows.empty() ? 0 : state_.contexts.rows.size() - 1;
  }
}

void TopView::Note(const demo::News& news) {
  // Copies that are made below are no departures.
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
    return rate(now.left_by_action.at(i), then.left_by_action.at(i));
  };
  view::Flows flows;
  flows.down = rate(now.moves.bytes_down, then.moves.bytes_down);
  flows.up = rate(now.moves.bytes_up, then.moves.bytes_up);
  flows.dropped = of(Action::kDrop);
  flows.demoted = of(Action::kDemote);
  flows.expired = of(Action::kExpire);
  flows.destroyed = of(Action::kDestroy);
  flows.gets = rate(now.hits + now.misses, then.hits + then.misses);
  flows.sets = rate(now.sets, then.sets);
  return flows;
}

std::string TopView::KeysLine() const {
  if (filtering_) return "filter: " + wish_.search + "_   Enter keeps it, Esc ends it";
  return fmt::format("q quit  s sort  r reverse  / filter  up/down  e explain  {}  ? help",
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
  s.neighbours_known = false;
  const auto since = [&](Time then) { return view::Seconds(now - then); };
  if (!state_.ever) {
    s.daemon = false;
    s.tiers = machine_;
    s.banner = fmt::format("no spillwayd at {}: this machine's memory alone", where_);
    s.notes = {state_.why_gone.empty() ? std::string("asking") : state_.why_gone,
               "it is asked for again every moment; start one with: spillwayd"};
    return s;
  }
  if (state_.gone_since) {
    s.banner = fmt::format("spillwayd is gone since {}, asking again ({})",
                           since(*state_.gone_since), state_.why_gone);
  } else if (paused_) {
    s.banner = "paused: what is shown stands still (p goes on)";
  }
  const demo::Report& report = state_.report;
  s.mode = report.mode;
  s.level_for = now - level_since_;
  s.blocked = report.blocked;
  view::Show(report.stats, &s);
  s.flows = FlowsNow();
  s.contexts = state_.contexts;
  s.contexts->chosen = chosen_;
  s.events = events_->Latest(view::EventLog::kGroupsMax);
  if (!state_.caption.empty()) s.caption = state_.phase + ": " + state_.caption;
  return s;
}

}  // namespace spillway
