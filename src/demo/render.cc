#include "demo/render.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "demo/line.h"
#include "demo/words.h"

namespace spillway::demo {

namespace {

// The least worth drawing a section for: its title and two lines.
constexpr std::size_t kSectionMin = 3;

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

// Where a share of the card stands on a bar of `cells`.
std::size_t CellOf(double share, std::size_t cells) {
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells);
  return std::min(cells, static_cast<std::size_t>(std::llround(at)));
}

class Drawing {
 public:
  Drawing(const Snapshot& snapshot, const Paper& paper)
      : s_(snapshot), paper_(paper), glyphs_(paper.unicode ? kUnicode : kAscii) {}

  std::vector<Line> Draw() {
    AddHead();
    AddLevel();
    AddBar();
    AddMemory();
    AddCounts();
    AddBelow();
    AddDepartures();
    AddNeighbours();
    if (!s_.caption.empty()) NewLine().AddForeign(s_.caption, paper_.width, Ink::kStrong);
    const std::size_t notes = paper_.height >= 24 ? std::min<std::size_t>(s_.notes.size(), 2) : 0;
    AddAgents(Left(notes));
    AddEvents(Left(notes));
    AddNotes(notes);
    if (lines_.size() > paper_.height) lines_.resize(paper_.height);
    return std::move(lines_);
  }

 private:
  Line& NewLine() { return lines_.emplace_back(); }
  std::size_t Left(std::size_t kept) const {
    const std::size_t used = lines_.size() + kept;
    return paper_.height > used ? paper_.height - used : 0;
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
    line.Add(s_.title, Ink::kStrong).Add("   card ").AddForeign(s_.card, 32);
    line.Add(fmt::format(", {}", FormatBytes(s_.memory.total)));
    const std::string time =
        MinutesAndSeconds(s_.at) + (s_.length ? " of " + MinutesAndSeconds(*s_.length) : "");
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

  // Filled as far as memory is used, so that its end is the pressure and the
  // marks under it are where levels begin.
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
      if (line.columns() > column) continue;  // Two marks on one cell, or a very short bar.
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
  }

  // The tier below the card, if there is one.
  void AddBelow() {
    const TierStats& host = s_.stats.host;
    if (host.name.empty()) return;
    Line& line = NewLine();
    line.Add(fmt::format("below   {} entries", Grouped(host.entries))).To(27);
    line.Add(fmt::format("{} of RAM", FormatBytes(host.held))).To(46);
    line.Add(fmt::format("backed {}", ShareText(s_.memory.ours_backed, s_.memory.ours()))).To(63);
    line.Add(fmt::format("{} up", FormatBytes(s_.stats.moves.bytes_up)));
  }

  void AddDepartures() {
    Line& line = NewLine();
    line.Add("left   ");
    bool any = false;
    for (int i = 0; i < kReasons; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (s_.stats.left_by_reason.at(at) == 0) continue;
      any = true;
      line.Add(fmt::format(" {} {} ({}) ", Name(static_cast<Reason>(i)),
                           Grouped(s_.stats.left_by_reason.at(at)),
                           FormatBytes(s_.stats.left_bytes_by_reason.at(at))));
    }
    if (!any) line.Add(" nothing", Ink::kFaint);
  }

  void AddNeighbours() {
    Line& line = NewLine();
    line.Add("others ");
    if (s_.neighbours.empty()) line.Add(" no other process on the card", Ink::kFaint);
    std::string_view before = " pid";
    for (const NeighbourRow& row : s_.neighbours) {
      line.Add(before).Add(fmt::format(" {} ", row.pid), Ink::kOthers).Add(row.what);
      before = ",";
    }
  }

  // Two columns, so that a dozen fit a small terminal.
  void AddAgents(std::size_t room) {
    if (s_.agents.empty() || room < 2 * kSectionMin) return;
    const std::size_t rows = std::min((s_.agents.size() + 1) / 2, room - kSectionMin - 1);
    AddTitle(s_.agents_title);
    for (std::size_t i = 0; i < rows; ++i) {
      Line& line = NewLine();
      AddAgent(&line, s_.agents[i]);
      if (i + rows < s_.agents.size()) AddAgent(&line.To(paper_.width / 2), s_.agents[i + rows]);
    }
  }

  static void AddAgent(Line* line, const AgentRow& row) {
    const std::size_t from = line->columns();
    const Ink ink = row.state == "idle" ? Ink::kFaint : Ink::kStrong;
    line->AddForeign(row.name, 12, ink).To(from + 13).Add(row.state, ink).To(from + 24);
    line->Add(fmt::format("{:>6}t {:>3.0f} %", Grouped(static_cast<std::uint64_t>(row.tokens)),
                          100 * row.cached),
              ink);
  }

  void AddEvents(std::size_t room) {
    if (room < kSectionMin) return;
    AddTitle("what left, and why");
    const std::size_t shown = std::min(s_.events.size(), room - 1);
    for (std::size_t i = s_.events.size() - shown; i < s_.events.size(); ++i)
      AddEvent(s_.events[i]);
    while (Left(0) > 0 && room > shown + 1) {  // Notes keep their place at the bottom.
      NewLine();
      --room;
    }
  }

  void AddEvent(const EventGroup& group) {
    Line& line = NewLine();
    line.Add(fmt::format("{:>7}  {:<9} {:>4} x ", Seconds(group.from), Done(group.action),
                         Grouped(group.count)));
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

std::vector<std::string> Render(const Snapshot& snapshot, const Paper& paper) {
  std::vector<std::string> out;
  for (const Line& line : Drawing(snapshot, paper).Draw()) {
    out.push_back(line.Finish(paper.width, paper.color));
  }
  return out;
}

}  // namespace spillway::demo
