#include "cli/top.h"

#include <unistd.h>

#include <charconv>
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
#include "base/small_file.h"
#include "base/times.h"
#include "cli/complain.h"
#include "cli/top_machine.h"
#include "cli/top_view.h"
#include "cli/top_watch.h"
#include "demo/stop_signals.h"
#include "view/keys.h"
#include "view/plain.h"
#include "view/render.h"
#include "view/screen.h"

namespace spillway {

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kMachineEvery = std::chrono::milliseconds(500);

struct Flags {
  std::string url;
  std::string password_file;
  std::string every = "500ms";
  std::string how_long;
  bool once = false;
  bool json = false;
};

// "http://127.0.0.1:7380", with or without what stands before and behind it.
Result<demo::HttpAddress> AddressOf(std::string_view url) {
  demo::HttpAddress address;
  if (url.empty()) return address;
  std::string_view rest = url;
  constexpr std::string_view kScheme = "http://";
  if (rest.starts_with(kScheme)) rest.remove_prefix(kScheme.size());
  rest = rest.substr(0, rest.find('/'));
  const std::size_t colon = rest.rfind(':');
  if (rest.starts_with("https:") || rest.empty() || colon == 0) {
    return Bad(fmt::format("--url: '{}' is no address; http://127.0.0.1:7380 would be right",
                           Printable(url)));
  }
  address.host = rest.substr(0, colon);
  if (colon == rest.npos) return address;
  const std::string_view digits = rest.substr(colon + 1);
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (error != std::errc() || stop != digits.data() + digits.size() || address.port == 0) {
    return Bad(fmt::format("--url: '{}' is no port", Printable(digits)));
  }
  return address;
}

// Of the file, else of the environment.
Result<std::string> PasswordOf(const std::string& path) {
  if (path.empty()) {
    const char* const told = std::getenv("SPILLWAY_PASSWORD");
    return std::string(told == nullptr ? "" : told);
  }
  const Result<std::optional<std::string>> text = ReadSmallFile(path);
  if (!text) return text.error();
  if (!*text) return Bad(path + ": there is no such file");
  return (*text)->substr(0, (*text)->find_first_of("\r\n"));
}

class Top {
 public:
  Top(const demo::HttpAddress& address, Duration every)
      : start_(SteadyClock::now()),
        view_(fmt::format("{}:{}", address.host, address.port), start_, UnixMs()),
        watch_(address, every) {}

  void Look() {
    view_.Hear(watch_.Take());
    if (!view_.alone() || SteadyClock::now() < machine_at_ + kMachineEvery) return;
    machine_at_ = SteadyClock::now();
    if (machine_ == nullptr) machine_ = std::make_unique<TopMachine>();
    view_.Hear(machine_->Read());
  }

  // Until somebody has had enough of it.
  int Draw(const demo::StopSignals& signals, std::optional<Duration> how_long) {
    view::Screen screen(STDOUT_FILENO);
    const view::RawInput input(STDIN_FILENO);
    view::Paper before{};
    auto drawn = SteadyClock::time_point();
    while (!Over(how_long)) {
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

  // Where no table can be drawn.
  int Lines(const demo::StopSignals& signals, Duration every, std::optional<Duration> how_long) {
    while (!Over(how_long)) {
      if (signals.Wait(every)) return 0;
      Look();
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
    view::Paper paper;
    paper.height = 40;
    if (const char* const columns = std::getenv("COLUMNS"); columns != nullptr) {
      paper.width = std::clamp<std::size_t>(std::strtoul(columns, nullptr, 10), 40, 400);
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
  TopView view_;
  TopWatch watch_;
  std::unique_ptr<TopMachine> machine_;
  SteadyClock::time_point machine_at_{};
};

// Everything a screen shows, as the daemon says it.
int PrintJson(const demo::HttpAddress& address) {
  demo::HttpClient http(address);
  nlohmann::ordered_json all;
  for (const auto& [name, target] :
       {std::pair("stats", "/api/v1/stats"), std::pair("caption", "/api/v1/caption"),
        std::pair("contexts", "/api/v1/contexts?limit=100"),
        std::pair("events", "/api/v1/events?limit=100")}) {
    const Result<std::string> text = http.Get(target);
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
  Flags flags;
  app.add_option("--url", flags.url, "Where its HTTP is [http://127.0.0.1:7380]");
  app.add_option("--password-file", flags.password_file,
                 "File whose first line is the password [$SPILLWAY_PASSWORD]");
  app.add_option("--every", flags.every, "Time between two looks")->capture_default_str();
  app.add_option("--for", flags.how_long, "End after this time");
  CLI::Option* const once = app.add_flag("--once", flags.once, "Print one screen and end");
  app.add_flag("--json", flags.json, "Print all of it as JSON and end")->excludes(once);
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  Result<demo::HttpAddress> address = AddressOf(flags.url);
  if (!address) return Complain("top", address.error());
  const Result<std::string> password = PasswordOf(flags.password_file);
  if (!password) return Complain("top", password.error());
  address->password = *password;
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
  if (flags.json) return PrintJson(*address);
  const demo::StopSignals signals;
  if (flags.once) {
    // Where somebody is asked for by name, nobody is an error.
    if (const auto health = demo::HttpClient(*address).Get("/healthz");
        !health && !flags.url.empty()) {
      return Complain("top", health.error());
    }
    return Top(*address, *every).Once();
  }
  if (view::Screen::Possible(STDOUT_FILENO) && ::isatty(STDIN_FILENO) == 1) {
    return Top(*address, *every).Draw(signals, how_long);
  }
  fmt::print(stderr,
             "spillway top: no table can be drawn here (no terminal, or TERM=dumb): a line each "
             "time instead; --once prints one screen\n");
  return Top(*address, *every)
      .Lines(signals, std::max<Duration>(*every, std::chrono::seconds(1)), how_long);
}

}  // namespace spillway
