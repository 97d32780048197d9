#include "demo/play.h"

#include <fmt/format.h>

#include "base/parse.h"
#include "demo/plain.h"
#include "demo/render.h"
#include "demo/screen.h"
#include "demo/stop_signals.h"

namespace spillway::demo {

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

  void Play(const StopSignals& signals) {
    bool watched = screen_ != nullptr || WriteLines(demo_->TakeSnapshot().notes);
    while (watched && demo_->now() < options_.length) {
      const Duration left = options_.length - demo_->now();
      if (signals.Wait(std::min(kLookPeriod, left))) return;
      watched = ShowOnce();
    }
  }

 private:
  bool ShowOnce() {
    const std::vector<std::string> news = demo_->Look();
    const Duration now = demo_->now();
    const bool record = recorder_ != nullptr && record_.Due(now);
    const bool draw = screen_ != nullptr && draw_.Due(now);
    const bool status = screen_ == nullptr && status_.Due(now);
    bool watched = screen_ != nullptr || WriteLines(news);
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
};

}  // namespace

Result<int> Play(const DemoOptions& asked) {
  DemoOptions options = asked;
  if (!options.card_bytes) {
    const Result<Bytes> bytes = DefaultDemoCardBytes();
    if (!bytes) return bytes.error();
    options.card_bytes = *bytes;
  }
  if (Status ok = CheckDemoOptions(options); !ok) return ok.error();
  const StopSignals signals;
  (void)WriteAll(options.out,
                 fmt::format("spillway demo: a dozen agents and their neighbours on a "
                             "card of {}, for {}\n",
                             FormatBytes(*options.card_bytes), FormatDuration(options.length)));
  std::unique_ptr<Recorder> recorder;
  if (!options.record.empty()) {
    auto opened = Recorder::Open(options.record);
    if (!opened) return opened.error();
    recorder = std::move(*opened);
  }
  auto demo = Demo::Open(options);
  if (!demo) return demo.error();
  Player(options, demo->get(), recorder.get()).Play(signals);

  const Outcome outcome = (*demo)->Finish();
  for (const std::string& line : Summary(outcome)) (void)WriteAll(options.out, line + "\n");
  if (recorder != nullptr) {
    if (Status written = recorder->Finish(); !written) return written.error();
  }
  return outcome.counts.wrong_bytes == 0 ? 0 : 1;
}

}  // namespace spillway::demo
