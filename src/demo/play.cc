#include "demo/play.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/run_dir.h"
#include "demo/demo.h"
#include "demo/recorder.h"
#include "demo/stop_signals.h"
#include "view/plain.h"
#include "view/render.h"
#include "view/screen.h"

namespace spillway::demo {

using namespace view;  // NOLINT: it draws with all of it.

namespace {

using std::chrono::milliseconds;

constexpr Duration kLookPeriod = milliseconds(20);  // Shorter than a sample of pressure.
constexpr Duration kRecordPeriod = milliseconds(50);
constexpr Duration kDrawPeriod = milliseconds(200);
constexpr Duration kStatusPeriod = std::chrono::seconds(1);

// True once in each period.
class Every {
 public:
  explicit Every(Duration period) : period_(period) {}
  bool Due(Duration now) {
    if (now < next_) return false;
    next_ = now + period_;
    return true;
  }

 private:
  const Duration period_;
  Duration next_{};
};

class Player {
 public:
  Player(const DemoOptions& options, Demo* demo, Recorder* recorder)
      : options_(options), demo_(demo), recorder_(recorder) {
    if (Screen::Possible(options.out)) screen_ = std::make_unique<Screen>(options.out);
  }

  // An error: there is nothing to watch any more.
  Status Play(const StopSignals& signals) {
    bool watched = screen_ != nullptr || WriteLines(demo_->Invitation());
    while (watched && demo_->now() < options_.length) {
      const Duration left = options_.length - demo_->now();
      if (signals.Wait(std::min(kLookPeriod, left))) break;
      const Result<std::vector<std::string>> news = demo_->Look();
      if (!news) return news.error();
      watched = Show(*news);
    }
    if (screen_ == nullptr && watched && !said_all_) {
      (void)WriteLines({PlainLine(demo_->now(), demo_->TakeSnapshot().caption)});
    }
    return {};
  }
  // Whether the summary was written while it could still be compared.
  bool said_all() const { return said_all_; }

 private:
  // False: nobody watches any more.
  bool Show(const std::vector<std::string>& news) {
    const Duration now = demo_->now();
    const bool record = recorder_ != nullptr && record_.Due(now);
    const bool draw = screen_ != nullptr && draw_.Due(now);
    const bool status = screen_ == nullptr && status_.Due(now);
    bool watched = screen_ != nullptr || WriteLines(news);
    if (screen_ == nullptr && demo_->summarized() && !said_all_) {
      said_all_ = true;
      const Result<const Outcome*> outcome = demo_->Summarize();
      if (outcome) watched = watched && WriteLines(Summary(**outcome));
    }
    if (said_all_) return watched;
    if (!record && !draw && !status) return watched;
    const Snapshot snapshot = demo_->TakeSnapshot();
    if (record) recorder_->Add(snapshot);
    if (draw) watched = screen_->Draw(Render(snapshot, screen_->paper()));
    if (status) watched = watched && WriteLines({StatusLine(snapshot)});
    return watched;
  }

  bool WriteLines(const std::vector<std::string>& lines) const {
    return std::ranges::all_of(
        lines, [&](const std::string& line) { return WriteAll(options_.out, line + "\n"); });
  }

  const DemoOptions& options_;
  Demo* const demo_;
  Recorder* const recorder_;  // May be null.
  std::unique_ptr<Screen> screen_;
  Every record_{kRecordPeriod};
  Every draw_{kDrawPeriod};
  Every status_{kStatusPeriod};
  bool said_all_ = false;
};

// The daemon of the demo is gone; these are for one of the reader's own.
std::vector<std::string> NextCommands() {
  constexpr std::string_view kUsualSocket = "spillway-7379.sock";
  const Result<std::string> dir = RunDir();
  std::vector<std::string> lines = {"  next        start one of your own: spillwayd; then"};
  if (!dir) return lines;
  for (const std::string& command :
       Commands(fmt::format("{}/{}", *dir, kUsualSocket), kUsualHttpPort)) {
    lines.push_back("              " + command);
  }
  return lines;
}

void Write(int out, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) (void)WriteAll(out, line + "\n");
}

std::string Where(const DemoOptions& options) {
  const std::string bytes = FormatBytes(*options.card_bytes);
  return options.device == "cpu" ? "a card of " + bytes
                                 : fmt::format("{} of {}", bytes, options.device);
}

}  // namespace

Result<int> Play(const DemoOptions& asked) {
  const Result<DemoOptions> options = CheckDemoOptions(asked);
  if (!options) return options.error();
  const StopSignals signals;
  std::unique_ptr<Recorder> recorder;
  if (!options->record.empty()) {
    auto opened = Recorder::Open(options->record);
    if (!opened) return opened.error();
    recorder = std::move(*opened);
  }
  auto demo = Demo::Open(*options);
  if (!demo) return demo.error();
  Write(options->out,
        {fmt::format("{}: a dozen agents and their neighbours on {}, for {}", options->title,
                     Where(*options), FormatDuration(options->length))});
  bool said_all = false;
  {
    Player player(*options, demo->get(), recorder.get());
    if (Status played = player.Play(signals); !played) return played.error();
    said_all = player.said_all();
  }
  const Result<const Outcome*> outcome = (*demo)->Summarize();
  if (!outcome) return outcome.error();
  if (!said_all) Write(options->out, Summary(**outcome));
  Write(options->out, NextCommands());
  if (recorder != nullptr) {
    if (Status written = recorder->Finish(); !written) return written.error();
  }
  return (*outcome)->wrong_bytes() == 0 ? 0 : 1;
}

}  // namespace spillway::demo
