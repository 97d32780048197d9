// SPDX-License-Identifier: Apache-2.0
#include "view/render.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "view/line.h"
#include "view/words.h"

namespace spillway::view {

namespace {

// The least height of a section: its title and one line.
constexpr std::size_t kSectionMin = 2;

struct Glyphs {
  std::string_view ours, others, free, rule;
};
constexpr Glyphs kUnicode{"█", "▒", "·", "─"};
constexpr Glyphs kAscii{"#", "o", ".", "-"};

std::string Repeat(std::string_view glyph, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += glyph;
  return out;
}

// The position of a share of the card on a bar of `cells` cells.
std::size_t CellOf(double share, std::size_t cells) {
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells);
  return std::min(cells, static_cast<std::size_t>(std::llround(at)));
}

class Drawing {
 public:
  Drawing(const Snapshot& snapshot, const Paper& paper)
      : s_(snapshot), paper_(paper), glyphs_(paper.unicode ? kUnicode : kAscii) {}

  std::vector<Line> Draw() {
    AddTop();
    const std::size_t last = s_.keys.empty() ? 0 : 1;
    const std::size_t notes = paper_.height >= 24 ? std::min<std::size_t>(s_.notes.size(), 2) : 0;
    if (!s_.page.empty()) {
      AddPage(Left(last));
    } else {
      if (s_.contexts) AddContexts(ContextRows());
      if (s_.daemon) AddEvents(Left(notes + last));
    }
    if (s_.page.empty()) AddNotes(notes);
    if (last > 0) AddKeys();
    if (lines_.size() > paper_.height) lines_.resize(paper_.height);
    return std::move(lines_);
  }

  std::size_t RowsOfContexts() {
    AddTop();
    return ContextRows();
  }

 private:
  Line& NewLine() { return lines_.emplace_back(); }
  std::size_t Left(std::size_t kept) const {
    const std::size_t used = lines_.size() + kept;
    return paper_.height > used ? paper_.height - used : 0;
  }

  // Everything except the lists.
  void AddTop() {
    AddHead();
    if (!s_.banner.empty()) NewLine().AddForeign(s_.banner, paper_.width, Ink::kEmergency);
    if (s_.daemon) {
      AddLevel();
      AddBar();
      AddMemory();
      AddCounts();
    }
    for (const TierRow& tier : s_.tiers) AddTier(tier);
    if (s_.flows) AddFlows(*s_.flows);
    AddProcesses();
  }

  void AddTitle(std::string_view text) {
    Line& line = NewLine();
    line.Add(Repeat(glyphs_.rule, 2), Ink::kFaint).Add(" ").Add(text).Add(" ");
    if (line.columns() < paper_.width) {
      line.Add(Repeat(glyphs_.rule, paper_.width - line.columns()), Ink::kFaint);
    }
  }

  void AddHead() {
    Line& line = NewLine();
    line.Add(s_.title, Ink::kStrong);
    if (!s_.where.empty()) line.Add("   ").AddForeign(s_.where, 40);
    if (s_.memory.total > 0) line.Add(fmt::format(", {}", FormatBytes(s_.memory.total)));
    if (!s_.machine.empty()) line.Add(" on ").AddForeign(s_.machine, 24);
    if (s_.up > Duration::zero()) line.Add(fmt::format(", up {}", Seconds(s_.up)));
    const std::string time = MinutesAndSeconds(s_.at);
    if (paper_.width > line.columns() + time.size()) line.To(paper_.width - time.size());
    line.Add(time);
  }

  void AddLevel() {
    Line& line = NewLine();
    line.Add(Upper(Name(s_.mode)), InkOf(s_.level));
    if (s_.mode != ModeOf(s_.level)) line.Add(fmt::format(" (level {})", Name(s_.level)));
    line.Add(fmt::format(" for {}  ", Seconds(s_.level_for))).To(28);
    line.Add("pressure ").Add(PressureText(s_.pressure), InkOf(s_.level)).Add("  ");
    if (s_.blocked) line.To(48).Add("sets are refused", Ink::kEmergency);
  }

  // The bar is filled as far as memory is used. So its end is the pressure, and the marks below it
  // are the thresholds of the levels.
  void AddBar() {
    const std::size_t cells = paper_.width > 2 ? paper_.width - 2 : 0;
    const auto total = static_cast<double>(std::max<Bytes>(s_.memory.total, 1));
    const auto ours = CellOf(static_cast<double>(s_.memory.ours()) / total, cells);
    const auto used =
        CellOf(static_cast<double>(s_.memory.ours() + s_.memory.others) / total, cells);
    NewLine()
        .Add("[")
        .Add(Repeat(glyphs_.ours, ours), Ink::kOurs)
        .Add(Repeat(glyphs_.others, used - ours), Ink::kOthers)
        .Add(Repeat(glyphs_.free, cells - used), Ink::kFaint)
        .Add("]");
    AddMarks(cells);
  }

  void AddMarks(std::size_t cells) {
    const Thresholds& t = s_.thresholds;
    using enum Level;
    const std::array<std::pair<Level, double>, 4> marks = {{{kNormal, t.normal},
                                                            {kPressure, t.pressure},
                                                            {kCritical, t.critical},
                                                            {kEmergency, t.emergency}}};
    Line& line = NewLine();
    line.Add(" ");
    for (const auto& [level, from] : marks) {
      line.Add(fmt::format("{} {:.2f}  ", Upper(Name(level)).front(), from), Ink::kFaint);
    }
    for (const auto& [level, from] : marks) {
      const std::size_t column = 1 + CellOf(from, cells);
      if (line.columns() > column) continue;  // Two marks in one cell, or a very short bar.
      line.To(column).Add(Upper(Name(level)).substr(0, 1), InkOf(level));
    }
  }

  void AddMemory() {
    Line& line = NewLine();
    line.Add("memory  ").Add(glyphs_.ours, Ink::kOurs);
    line.Add(fmt::format(" ours {}", FormatBytes(s_.memory.ours()))).To(27);
    line.Add(glyphs_.others, Ink::kOthers);
    line.Add(fmt::format(" others {}", FormatBytes(s_.memory.others))).To(46);
    line.Add(glyphs_.free, Ink::kFaint);
    line.Add(fmt::format(" free {}", FormatBytes(s_.memory.free))).To(63);
    line.Add(fmt::format("reserve {}", FormatBytes(s_.stats.device.reserve)));
  }

  void AddCounts() {
    const Stats& n = s_.stats;
    Line& held = NewLine();
    held.Add(fmt::format("cached  {} entries", Grouped(n.entries))).To(27);
    held.Add(fmt::format("{} tokens", Grouped(static_cast<std::uint64_t>(n.tokens)))).To(46);
    held.Add(fmt::format("{} leased", Grouped(n.leases))).To(63);
    held.Add(fmt::format("{} set", Grouped(n.sets)));
    Line& asked = NewLine();
    asked.Add(fmt::format("asked   {} hits", Grouped(n.hits))).To(27);
    asked.Add(fmt::format("{} misses", Grouped(n.misses))).To(46);
    asked.Add(fmt::format("hits {}", ShareText(n.hits, n.hits + n.misses))).To(63);
    const std::uint64_t refused = n.refused_blocked + n.refused_budget + n.refused_other;
    asked.Add(fmt::format("{} refused", Grouped(refused)),
              refused > 0 ? Ink::kCritical : Ink::kPlain);
    AddLosses();
  }

  // Losses and what clients erased are told apart, as on the dashboard.
  void AddLosses() {
    std::uint64_t erased = 0;
    for (const Reason reason : {Reason::kErased, Reason::kReplaced, Reason::kCleared}) {
      erased += s_.stats.removed_by_reason.at(static_cast<std::size_t>(reason));
    }
    const std::uint64_t lost = std::accumulate(s_.stats.destroyed_by_reason.begin(),
                                               s_.stats.destroyed_by_reason.end(), 0ULL);
    Line& line = NewLine();
    line.Add("lost    ")
        .Add(fmt::format("{} destroyed", Grouped(lost)), lost > 0 ? Ink::kEmergency : Ink::kPlain);
    line.To(27).Add(fmt::format("{} erased by clients", Grouped(erased)));
    if (!s_.reads) return;
    line.Add("  ").To(48).Add(fmt::format("reads p50 {}, p99 {}", FormatDuration(s_.reads->p50),
                                          FormatDuration(s_.reads->p99)));
  }

  // "host    [####....]  96 MiB of 128 MiB  0.75 NORMAL     210 entries"
  void AddTier(const TierRow& tier) {
    constexpr std::size_t kCells = 20;
    Line& line = NewLine();
    line.AddForeign(tier.name, 24).To(8);
    if (!tier.note.empty()) {
      line.Add(" ").AddForeign(tier.note, paper_.width, Ink::kFaint);
      return;
    }
    if (tier.capacity > 0) {
      const std::size_t used =
          CellOf(static_cast<double>(tier.held) / static_cast<double>(tier.capacity), kCells);
      line.Add("[").Add(Repeat(glyphs_.ours, used), Ink::kOurs);
      line.Add(Repeat(glyphs_.free, kCells - used), Ink::kFaint).Add("] ");
    }
    line.Add(fmt::format("{} of {}", FormatBytes(tier.held),
                         tier.capacity == 0 ? "any" : FormatBytes(tier.capacity)));
    line.To(52).Add(PressureText(tier.pressure), InkOf(tier.level)).Add(" ");
    line.Add(Upper(Name(tier.level)), InkOf(tier.level));
    if (tier.entries) line.To(68).Add(fmt::format(" {} entr.", Grouped(*tier.entries)));
  }

  void AddFlows(const Flows& flows) {
    const auto bytes = [](double rate) { return FormatBytes(static_cast<Bytes>(rate)); };
    Line& line = NewLine();
    line.Add(fmt::format("per s   {} down, {} up, {:.0f} gets, {:.0f} sets; ", bytes(flows.down),
                         bytes(flows.up), flows.gets, flows.sets));
    line.Add(fmt::format("{:.0f} dropped, ", flows.dropped));
    if (paper_.width >= 100) {
      line.Add(fmt::format("{:.0f} demoted, {:.0f} expired, ", flows.demoted, flows.expired));
    }
    if (paper_.width >= 100) line.Add(fmt::format("{:.0f} erased, ", flows.erased));
    line.Add(fmt::format("{:.0f} destroyed", flows.lost),
             flows.lost > 0 ? Ink::kEmergency : Ink::kPlain);
  }

  // "card    python3 (pid 4711) 256 MiB, ..."
  void AddProcesses() {
    if (s_.processes.empty()) return;
    Line& line = NewLine();
    line.Add("card  ");
    for (const ProcessRow& process : s_.processes) {
      if (&process != &s_.processes.front()) line.Add(",");
      line.Add("  ").AddForeign(process.name.empty() ? "?" : process.name, 16);
      line.Add(fmt::format(" (pid {}) {}", process.pid, FormatBytes(process.bytes)));
    }
  }

  // Contexts get the remaining lines, except a few for events.
  std::size_t ContextRows() const {
    const std::size_t room = Left(s_.keys.empty() ? 0 : 1);
    const std::size_t events = room >= 16 ? room / 3 : room >= 9 ? 4 : 0;
    return room > events + 2 ? room - events - 2 : 0;
  }

  void AddContexts(std::size_t rows) {
    if (rows == 0) return;
    const ContextsView& view = *s_.contexts;
    std::string text = fmt::format(
        "contexts {} to {} of {}", Grouped(view.offset + (view.matching > 0 ? 1 : 0)),
        Grouped(std::min(view.offset + std::min(rows, view.rows.size()), view.matching)),
        Grouped(view.matching));
    if (!view.search.empty()) {
      text +=
          fmt::format(" with '{}' ({} in all)", Printable(view.search, 24), Grouped(view.total));
    }
    AddTitle(fmt::format("{}, by {} {}", text, view.sort, view.desc ? "falling" : "rising"));
    const std::size_t key = KeyWidth();
    Line& head = NewLine();
    head.Add("  key", Ink::kFaint).To(key);
    if (WithAgent()) head.Add(" agent", Ink::kFaint).To(key + kAgentWidth);
    head.Add(fmt::format(" {:>8} {:>9} {:<6} {} {:>8} {:>6} {:>3}", "tokens", "bytes", "tier", "C",
                         "idle", "uses", "lea"),
             Ink::kFaint);
    for (std::size_t i = 0; i < rows; ++i) {
      Line& line = NewLine();
      if (i < view.rows.size()) AddContext(&line, view.rows[i], i == view.chosen);
    }
  }

  static constexpr std::size_t kAgentWidth = 14;
  static constexpr std::size_t kFiguresWidth = 49;
  bool WithAgent() const { return paper_.width >= 100; }
  std::size_t KeyWidth() const {
    const std::size_t others = kFiguresWidth + (WithAgent() ? kAgentWidth : 0);
    return paper_.width > others + 8 ? paper_.width - others : 8;
  }

  void AddContext(Line* line, const ContextRow& row, bool chosen) const {
    const Ink ink = chosen ? Ink::kStrong : Ink::kPlain;
    const std::size_t key = KeyWidth();
    line->Add(chosen ? "> " : "  ", ink).AddForeign(row.key, key - 3, ink).To(key);
    if (WithAgent())
      line->Add(" ").AddForeign(row.agent, kAgentWidth - 2, ink).To(key + kAgentWidth);
    line->Add(fmt::format(" {:>8} {:>9} ", Grouped(static_cast<std::uint64_t>(row.tokens)),
                          FormatBytes(row.bytes)),
              ink);
    line->AddForeign(row.tier, 6, ink).To(key + (WithAgent() ? kAgentWidth : 0) + 26);
    line->Add(fmt::format(" {} {:>8} {:>6} {:>3}", row.clean ? "C" : "-", Seconds(row.idle),
                          Grouped(row.uses), Grouped(row.leases)),
              ink);
  }

  void AddPage(std::size_t room) {
    if (room < 2) return;
    AddTitle(s_.page_title);
    std::size_t left = room - 1;
    for (const std::string& text : s_.page) {
      // Long lines continue on the next line.
      for (std::size_t at = 0; left > 0 && (at < text.size() || at == 0); at += paper_.width) {
        NewLine().AddForeign(std::string_view(text).substr(at, paper_.width), paper_.width);
        --left;
      }
    }
    for (; left > 0; --left) NewLine();
  }

  // Always on the last line of the screen.
  void AddKeys() {
    while (Left(1) > 0) NewLine();
    if (lines_.size() >= paper_.height && paper_.height > 0) lines_.resize(paper_.height - 1);
    NewLine().AddForeign(s_.keys, paper_.width, Ink::kFaint);
  }

  void AddEvents(std::size_t room) {
    if (room < kSectionMin) return;
    AddTitle(s_.losses_only ? "losses alone, and why" : "evictions, and why");
    const std::size_t shown = std::min(s_.events.size(), room - 1);
    for (std::size_t i = s_.events.size() - shown; i < s_.events.size(); ++i)
      AddEvent(s_.events[i]);
    while (Left(0) > 0 && room > shown + 1) {  // Notes stay at the bottom.
      NewLine();
      --room;
    }
  }

  void AddEvent(const EventGroup& group) {
    Line& line = NewLine();
    line.Add(fmt::format("{:>7}  {:<9} {:>4} x ", Seconds(group.from),
                         Done(group.action, group.reason), Grouped(group.count)));
    line.Add(fmt::format("{:<9}", Name(group.reason)), Ink::kStrong);
    line.Add(fmt::format("{:>9}  ", FormatBytes(group.bytes)));
    line.Add(fmt::format("{:<10} ", Upper(Name(group.level))), InkOf(group.level));
    const std::size_t left = paper_.width > line.columns() ? paper_.width - line.columns() : 0;
    const std::size_t two = group.count > 1 && left >= 44 ? (left - 4) / 2 : left;
    line.AddForeign(group.first_key, two);
    if (two != left) line.Add(" .. ").AddForeign(group.last_key, two);
  }

  void AddNotes(std::size_t notes) {
    for (std::size_t i = 0; i < notes; ++i)
      NewLine().AddForeign(s_.notes[i], paper_.width, Ink::kFaint);
  }

  const Snapshot& s_;
  const Paper& paper_;
  const Glyphs& glyphs_;
  std::vector<Line> lines_;
};

}  // namespace

std::size_t ContextRowsOn(const Snapshot& snapshot, const Paper& paper) {
  return Drawing(snapshot, paper).RowsOfContexts();
}

std::vector<std::string> Render(const Snapshot& snapshot, const Paper& paper) {
  std::vector<std::string> out;
  for (const Line& line : Drawing(snapshot, paper).Draw()) {
    out.push_back(line.Finish(paper.width, paper.color));
  }
  return out;
}

}  // namespace spillway::view
