// What the demo sees: the daemon's answers, its events, its neighbours, and what
// it says of all that.
#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "demo/demo.h"
#include "demo/figures_told.h"
#include "view/plain.h"
#include "view/words.h"

namespace spillway::demo {

using namespace view;  // NOLINT: it draws with all of it.

namespace {

using std::chrono::milliseconds;

constexpr Duration kNewsPeriod = milliseconds(50);
constexpr Duration kTellPeriod = milliseconds(200);
// What a stranger sets off is over by then.
constexpr Duration kAfterwards = std::chrono::seconds(1);
// How long a daemon that no longer answers may take to be gone.
constexpr Duration kEndTime = milliseconds(500);
constexpr Duration kEndLook = milliseconds(5);

std::string Number(double value) { return fmt::format("{}", value); }

}  // namespace

Status Demo::Ask() {
  const Result<Reply> reply = client_->Ask({"SPILL.STATS", "JSON"});
  if (!reply) return reply.error();
  Result<Report> report = ReadReport(reply->text);
  if (!report) return report.error();
  report_ = std::move(*report);
  // What of the card others have not taken, less what is kept free for them, and
  // the RAM below it.
  const TierStats& card = report_.stats.device;
  if (card.total > 0) {
    const Bytes ours = card.total - std::min(card.total, card.others + card.reserve);
    chronicle_->SetMemory(ours + report_.stats.host.capacity);
  }
  return {};
}

Status Demo::AskForNews() {
  const Result<std::string> text =
      http_->Get(fmt::format("/api/v1/events?after={}&limit=1000", news_number_));
  if (!text) return text.error();
  Result<AllNews> all = ReadNews(*text);
  if (!all) return all.error();
  news_number_ = all->latest;
  std::ranges::move(all->news, std::back_inserter(news_));
  news_at_ = now();
  return {};
}

Result<std::vector<std::string>> Demo::Look() {
  if (outcome_) return std::vector<std::string>();  // It is over, and all has been said.
  Result<std::vector<std::string>> lines = LookAtAll();
  if (!lines) return WhyOf(lines.error());
  return lines;
}

// A daemon that ends closes its sockets a moment before anybody may be told how it
// ended: who asked it at that time knows only that there was no answer.
Error Demo::WhyOf(const Error& error) {
  for (Duration waited{}; waited < kEndTime; waited += kEndLook) {
    if (const std::string why = daemon_->WhyGone(); !why.empty()) {
      return {Code::kUnavailable, why};
    }
    std::this_thread::sleep_for(kEndLook);
  }
  return error;
}

Result<std::vector<std::string>> Demo::LookAtAll() {
  std::vector<std::string> lines;
  if (const std::string why = daemon_->WhyGone(); !why.empty()) {
    return Error{Code::kUnavailable, why};
  }
  if (Status ok = Ask(); !ok) return ok.error();
  if (now() >= news_at_ + kNewsPeriod) {
    if (Status ok = AskForNews(); !ok) return ok.error();
  }
  if (Status ok = LookAtKill(&lines); !ok) return ok.error();
  if (Status ok = LookAtScene(&lines); !ok) return ok.error();
  SendNeighbours(&lines);
  for (const News& news : std::exchange(news_, {})) Note(news, &lines);
  LookAtNeighbours(&lines);
  LookAtStrangers();
  LookAtResumes(&lines);
  for (const EventGroup& group : events_.TakeComplete(now())) lines.push_back(EventLine(group));
  if (now() >= told_at_ + kTellPeriod && scene_ && !outcome_) {
    told_at_ = now();
    const Status told =
        Tell(std::string(Name(*scene_)), CaptionText(MomentNow()), FiguresTold(FactsNow()));
    if (!told) return told.error();
  }
  return lines;
}

void Demo::Note(const News& news, std::vector<std::string>* lines) {
  const Duration at =
      std::max<Duration>(Duration::zero(), milliseconds(news.unix_ms - start_unix_ms_));
  if (!news.is_level) {
    // Told is what left for pressure: not copies made below, nor what agents erased,
    // nor that one entry made room for another and has its copy below.
    if (news.action == Action::kBack || news.reason == Reason::kErased) return;
    if (news.action == Action::kDrop && news.reason == Reason::kRoom) return;
    Event event;
    event.at = TimePoint(at);
    event.key = news.key;
    event.action = news.action;
    event.reason = news.reason;
    event.level = news.level;
    event.bytes = news.bytes;
    events_.Add(event);
    return;
  }
  if (news.tier != "device") return;
  levels_.Look(news.level, at);
  lines->push_back(LevelLine(at, news.from, news.level, news.pressure));
}

// --- what is said of it ---

Figures Demo::FiguresNow() const {
  Figures figures{report_.stats, past_, workflow_->counts()};
  figures.totals += TotalsOf(report_.stats);
  return figures;
}

std::size_t Demo::ContextsNow() const {
  const std::vector<AgentView> views = workflow_->views();
  return static_cast<std::size_t>(
      std::ranges::count_if(views, [](const AgentView& view) { return view.blocks_asked > 0; }));
}

Moment Demo::MomentNow() const {
  Moment moment;
  moment.scene = scene_.value_or(Scene::kFill);
  moment.first = scene_first_;
  moment.now = FiguresNow();
  moment.contexts = ContextsNow();
  moment.prefill_per_token = agent_settings_.prefill_per_token;
  if (!strangers_.empty()) moment.stranger = strangers_.back();
  moment.resume = resume_;
  moment.reviews = scene_ == Scene::kSqueezed ? reviews_->sum() : ReviewSum();
  if (!kills_.empty() && kill_ != Kill::kSettling) moment.killed = kills_.back();
  if (outcome_) moment.summary = SummaryText(outcome_->page);
  return moment;
}

DemoFacts Demo::FactsNow() const {
  DemoFacts facts;
  facts.contexts = ContextsNow();
  facts.rounds = workflow_->rounds();
  facts.counts = workflow_->counts();
  facts.turns = chronicle_->totals();
  facts.totals = FiguresNow().totals;
  facts.verified_bytes = verified_bytes_;
  facts.verified_wrong = verified_wrong_;
  facts.prefill_per_token = agent_settings_.prefill_per_token;
  facts.strangers = strangers_.size();
  if (!strangers_.empty()) facts.stranger = strangers_.back();
  facts.reviews = scene_ == Scene::kSqueezed ? reviews_->sum() : squeezed_;
  facts.kills = kills_;
  return facts;
}

Status Demo::Tell(const std::string& phase, const std::string& text,
                  const std::vector<FigureTold>& figures) {
  std::vector<std::string> words = {"SPILL.CAPTION", phase, text};
  for (const FigureTold& figure : figures) {
    words.push_back(figure.name);
    words.push_back(Number(figure.value));
  }
  const std::vector<std::string_view> views(words.begin(), words.end());
  const Result<Reply> reply = client_->Ask(views);
  return reply ? Status() : reply.error();
}

Status Demo::LookAtScene(std::vector<std::string>* lines) {
  const Scene scene = SceneAtTime(scenes_, now());
  if (scene_ == scene) return {};
  if (kill_ != Kill::kNotYet) return {};  // It goes on until it is over.
  if (scene_) lines->push_back(PlainLine(now(), Caption(MomentNow())));
  if (scene_ == Scene::kSqueezed) squeezed_ = reviews_->sum();
  scene_ = scene;
  scene_first_ = FiguresNow();
  if (scene == Scene::kSqueezed) reviews_->Begin();
  lines->push_back(PlainLine(now(), fmt::format("{}: {}", Name(scene), About(scene))));
  if (scene == Scene::kKilled) kill_ = Kill::kSettling;
  if (scene != Scene::kSummary) return {};
  const Result<const Outcome*> outcome = Summarize();
  return outcome ? Status() : outcome.error();
}

void Demo::LookAtResumes(std::vector<std::string>* lines) {
  const std::vector<AgentView> views = workflow_->views();
  resumes_told_.resize(views.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const AgentView& view = views[i];
    if (view.resumes == std::exchange(resumes_told_[i], view.resumes)) continue;
    if (view.resumed == 0) continue;
    resume_ = Resume{view.name, view.resumed, view.resume};
    if (scene_ != Scene::kWork) continue;
    lines->push_back(
        PlainLine(now(), "resumed " + ResumeText(*resume_, agent_settings_.prefill_per_token)));
  }
}

// --- neighbours ---

void Demo::SendNeighbours(std::vector<std::string>* lines) {
  while (next_visit_ < visits_.size() && visits_[next_visit_].at <= now()) {
    const Visit& visit = visits_[next_visit_++];
    constexpr Bytes kPage = 4 * kKiB;
    const Bytes bytes = stage_->BytesFor(visit.share);
    // In steps that the reserve has room for: a stranger lives off it.
    const Bytes step = std::max(kPage, report_.stats.device.reserve / 2 / kPage * kPage);
    if (Status sent = neighbours_.Send(bytes, step, visit.hold, now()); !sent) {
      lines->push_back(PlainLine(now(), sent.error().message));
      continue;
    }
    strangers_.push_back({.pid = neighbours_.all().back().pid, .bytes = bytes});
    before_strangers_.push_back(FiguresNow().totals);
  }
}

// What the last one's coming set off, as long as it may be its doing.
void Demo::LookAtStrangers() {
  if (strangers_.empty()) return;
  const Neighbour& neighbour = neighbours_.all()[strangers_.size() - 1];
  Stranger& stranger = strangers_.back();
  const Duration came = neighbour.came + stage_->lead();
  const bool over = stranger.had && now() > came + *stranger.had + kAfterwards;
  stranger.had = neighbour.waited;
  if (over) return;
  const Totals totals = FiguresNow().totals;
  const Totals& before = before_strangers_.back();
  stranger.dropped = totals.dropped - std::min(totals.dropped, before.dropped);
  stranger.lost = totals.destroyed - std::min(totals.destroyed, before.destroyed);
  const std::int64_t sensed_us = report_.others_rose_unix_us;
  if (neighbour.took_unix_us > 0 && sensed_us + 1000 >= neighbour.took_unix_us) {
    stranger.sensed =
        std::chrono::microseconds(std::max<std::int64_t>(0, sensed_us - neighbour.took_unix_us));
  }
}

void Demo::LookAtNeighbours(std::vector<std::string>* lines) {
  neighbours_.Look(now());
  const std::vector<Neighbour>& all = neighbours_.all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Neighbour& n = all[i];
    if (i == told_.size()) {
      told_.push_back(Neighbour::State::kAsking);
      lines->push_back(
          PlainLine(n.came, fmt::format("neighbour pid {} wants {} of the card for {}", n.pid,
                                        FormatBytes(n.bytes), FormatDuration(n.hold))));
    }
    if (told_[i] == n.state) continue;
    if (told_[i] == Neighbour::State::kAsking && n.waited) {
      lines->push_back(
          PlainLine(now(), fmt::format("neighbour pid {} has its {} after {}", n.pid,
                                       FormatBytes(n.bytes), FormatDuration(*n.waited))));
    }
    told_[i] = n.state;
    if (n.state != Neighbour::State::kGone) continue;
    lines->push_back(PlainLine(now(), n.waited ? fmt::format("neighbour pid {} gives back its {}",
                                                             n.pid, FormatBytes(n.bytes))
                                               : fmt::format("neighbour pid {} did not get all: {}",
                                                             n.pid, Printable(n.said, 120))));
  }
}

}  // namespace spillway::demo
