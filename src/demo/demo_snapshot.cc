// The stage at one moment, for who draws it.
#include <algorithm>

#include <fmt/format.h>

#include "base/parse.h"
#include "demo/demo.h"
#include "view/words.h"

namespace spillway::demo {

using namespace view;  // NOLINT: it draws with all of it.

Snapshot Demo::TakeSnapshot() {
  Snapshot s;
  s.title = options_.title;
  s.caption = scene_ ? Caption(MomentNow()) : std::string();
  s.card = stage_->name();
  s.at = now();
  s.length = options_.length;
  s.mode = report_.mode;
  s.level_for = s.at - levels_.since();
  s.blocked = report_.blocked;
  s.thresholds = cache_options_.thresholds;
  view::Show(report_.stats, &s);
  s.events = events_.Latest(EventLog::kGroupsMax);
  s.agents_title = fmt::format("agents, round {}; tokens, ms to copy back | of prefill (declared)",
                               workflow_->rounds() + 1);
  for (const AgentView& view : workflow_->views()) s.agents.push_back(RowOf(view));
  for (const Neighbour& n : neighbours_.all()) {
    if (n.state == Neighbour::State::kGone) continue;
    s.neighbours.push_back(
        {n.pid, n.waited ? fmt::format("{} in {}", FormatBytes(n.bytes), FormatDuration(*n.waited))
                         : fmt::format("wants {}", FormatBytes(n.bytes))});
  }
  s.notes = {fmt::format("open http://127.0.0.1:{0}/, or type: spillway top --url "
                         "http://127.0.0.1:{0}",
                         daemon_->http_port()),
             "Ctrl-C ends. Join in: " + SqueezeCommand()};
  return s;
}

// What was found, and what that saved: milliseconds for milliseconds.
AgentRow Demo::RowOf(const AgentView& view) const {
  AgentRow row{view.name, std::string(Name(view.state)), view.tokens, {}};
  const auto ms = [](Duration time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  };
  if (view.resumed > 0) {
    row.found =
        fmt::format("{}|{}", ms(view.resume), ms(view.resumed * agent_settings_.prefill_per_token));
  } else if (view.blocks_asked > 0) {
    row.found = fmt::format("{} %", 100 * view.blocks_found / view.blocks_asked);
  }
  return row;
}

}  // namespace spillway::demo
