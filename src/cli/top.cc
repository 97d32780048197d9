// SPDX-License-Identifier: Apache-2.0
#include "cli/top.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/arguments.h"
#include "base/errors.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/times.h"
#include "cli/complain.h"
#include "cli/daemon_link.h"
#include "cli/stop_signals.h"
#include "cli/top_machine.h"
#include "cli/top_view.h"
#include "cli/top_watch.h"
#include "view/keys.h"
#include "view/plain.h"
#include "view/render.h"
#include "view/screen.h"

namespace spillway {

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kMachineEvery = std::chrono::milliseconds(500);

struct TopFlags {
  DaemonOptions daemon;
  std::string every = "500ms";
  std::string how_long;
  bool once = false;
  bool json = false;
};

class Top {
 public:
  Top(const DaemonAddress& address, Duration every)
      : start_(SteadyClock::now()),
        address_(address),
        view_(address.Text(), start_, UnixMs()),
        watch_(ForHttpClient(address), every) {}

  void Look() {
    TopState state = watch_.Take();
    locked_ = state.locked;
    view_.OnEvent(std::move(state));
    if (!view_.alone() || SteadyClock::now() < machine_at_ + kMachineEvery) return;
    machine_at_ = SteadyClock::now();
    if (machine_ == nullptr) machine_ = std::make_unique<TopMachine>();
    view_.OnEvent(machine_->Read());
  }

  // The exit status when the command has ended: 1 if it ended because a password is required.
  int Ended(int status) const {
    return locked_ ? Complain("top", PasswordNeeded(address_)) : status;
  }

  // Draws until the user quits.
  int Draw(const StopSignals& signals, std::optional<Duration> how_long) {
    view::Screen screen(STDOUT_FILENO);
    const view::RawInput input(STDIN_FILENO);
    view::Paper before{};
    auto drawn = SteadyClock::time_point();
    while (!Over(how_long) && !locked_) {
      bool gone = false;
      bool news = false;
      for (const view::KeyPress& key : input.Read(&gone)) {
        const TopView::Asks asks = view_.Press(key);
        if (asks == TopView::Asks::kQuit) return 0;
        if (asks == TopView::Asks::kExplain) Explain();
        news = true;
      }
      if (gone) return 0;
      const view::Paper paper = screen.paper();
      const bool resized = paper.width != before.width || paper.height != before.height;
      if (news || resized || SteadyClock::now() >= drawn + 4 * kLook) {
        Look();
        before = paper;
        drawn = SteadyClock::now();
        view_.SetRows(view::ContextRowsOn(view_.Show(drawn), paper));
        watch_.Wish(view_.wish());
        if (!screen.Draw(view::Render(view_.Show(drawn), paper))) return 0;
      }
      if (signals.Wait(kLook)) return 0;
    }
    return 0;
  }

  // Prints lines, if no table can be drawn.
  int Lines(const StopSignals& signals, Duration every, std::optional<Duration> how_long) {
    while (!Over(how_long)) {
      if (signals.Wait(every)) return 0;
      Look();
      if (locked_) return 0;
      const view::Snapshot snapshot = view_.Show(SteadyClock::now());
      if (!snapshot.banner.empty() && !Say(snapshot.banner)) return 0;
      if (snapshot.daemon) {
        if (!Say(view::StatusLine(snapshot))) return 0;
        continue;
      }
      for (const view::TierRow& row : snapshot.tiers) {
        if (!Say(view::TierLine(snapshot.at, row))) return 0;
      }
    }
    return 0;
  }

  int Once() {
    (void)watch_.AskNow();
    Look();
    if (locked_) return 0;
    view::Paper paper;
    paper.height = 40;
    if (const char* const columns = std::getenv("COLUMNS"); columns != nullptr) {
      paper.width = std::clamp<std::size_t>(std::strtoul(columns, nullptr, 10), 20, 400);
    }
    for (const std::string& line : view::Render(view_.Show(SteadyClock::now()), paper)) {
      if (!Say(line)) break;
    }
    return 0;
  }

 private:
  bool Over(std::optional<Duration> how_long) const {
    return how_long && SteadyClock::now() - start_ >= *how_long;
  }
  static bool Say(const std::string& line) { return view::WriteAll(STDOUT_FILENO, line + "\n"); }
  void Explain() {
    const std::string key = view_.chosen();
    if (key.empty()) return;
    view_.ShowPage(Printable(key, 60), watch_.Explain(key));
  }

  const SteadyClock::time_point start_;
  const DaemonAddress address_;
  bool locked_ = false;  // The daemon requires a password, or another one than ours.
  TopView view_;
  TopWatch watch_;
  std::unique_ptr<TopMachine> machine_;
  SteadyClock::time_point machine_at_{};
};

// Everything a screen shows, as the daemon's JSON.
int PrintJson(const DaemonAddress& address) {
  nlohmann::ordered_json all;
  for (const auto& [name, target] :
       {std::pair("stats", "/api/v1/stats"), std::pair("contexts", "/api/v1/contexts?limit=100"),
        std::pair("events", "/api/v1/events?limit=100")}) {
    const Result<std::string> text = GetByHttp(address, target);
    if (!text) return Complain("top", text.error());
    all[name] = nlohmann::ordered_json::parse(*text, nullptr, false);
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  fmt::print("{}\n", all.dump(2, ' ', false, Handler::replace));
  return 0;
}

}  // namespace

int RunTop(int argc, char** argv) {
  CLI::App app("What a running spillwayd holds and does, live. Without one: this machine's memory.",
               "spillway top");
  TopFlags flags;
  flags.daemon.AddTo(&app, DaemonAddress::Way::kHttp);
  app.add_option("--every", flags.every, "Time between two looks")->capture_default_str();
  app.add_option("--for", flags.how_long, "End after this time");
  CLI::Option* const once = app.add_flag("--once", flags.once, "Print one screen and end");
  app.add_flag("--json", flags.json, "Print all of it as JSON and end")->excludes(once);
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  const Result<DaemonAddress> named = flags.daemon.Read();
  if (!named) return Complain("top", named.error());
  const Result<Duration> every = ParseDuration(flags.every);
  if (!every) return Complain("top", Bad("--every: " + every.error().message));
  if (*every < std::chrono::milliseconds(100))
    return Complain("top", Bad("--every: at least 100ms"));
  std::optional<Duration> how_long;
  if (!flags.how_long.empty()) {
    const Result<Duration> time = ParseDuration(flags.how_long);
    if (!time) return Complain("top", Bad("--for: " + time.error().message));
    how_long = *time;
  }
  const Result<DaemonAddress> address = HttpAddressOf(*named);
  if (!address) return Complain("top", address.error());
  if (flags.json) return PrintJson(*address);
  const StopSignals signals;
  if (flags.once) {
    // If a daemon was named, it is an error if none answers.
    if (const auto health = GetByHttp(*address, "/healthz"); !health && address->named) {
      return Complain("top", health.error());
    }
    Top top(*address, *every);
    return top.Ended(top.Once());
  }
  Top top(*address, *every);
  if (view::Screen::Possible(STDOUT_FILENO) && ::isatty(STDIN_FILENO) == 1) {
    return top.Ended(top.Draw(signals, how_long));
  }
  fmt::print(stderr,
             "spillway top: no table can be drawn here (no terminal, or TERM=dumb): one line each "
             "time instead; --once prints one screen\n");
  return top.Ended(
      top.Lines(signals, std::max<Duration>(*every, std::chrono::seconds(1)), how_long));
}

}  // namespace spillway
