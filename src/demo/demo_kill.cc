// The daemon is killed and comes again.
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "demo/demo.h"
#include "view/plain.h"

namespace spillway::demo {

using namespace view;  // NOLINT: it draws with all of it.

namespace {
// How long what only memory has may take to get to disk before the kill.
constexpr Duration kSettleTime = std::chrono::seconds(3);
}  // namespace

Status Demo::LookAtKill(std::vector<std::string>* lines) {
  switch (kill_) {
    case Kill::kNotYet:
      return {};
    case Kill::kSettling: {
      if (kill_by_ == Duration::zero()) {
        StopAgents();
        kill_by_ = now() + kSettleTime;
        return {};
      }
      const Stats& stats = report_.stats;
      const bool all = stats.disk.entries >= stats.entries && stats.moves.under_way == 0;
      return all || now() >= kill_by_ ? KillDaemon(lines) : Status();
    }
    case Kill::kVerifying:
      if (verifier_->done()) EndKill(lines);
      return {};
  }
  return {};
}

Status Demo::KillDaemon(std::vector<std::string>* lines) {
  const Result<std::string> text = http_->Get("/metrics");
  if (!text) return text.error();
  const Result<MetricsPage> page = MetricsPage::Read(*text);
  if (!page) return page.error();
  Killed killed;
  killed.before = daemon_->pid();
  killed.entries = static_cast<std::uint64_t>((*page)["spillway_entries"]);
  killed.on_disk = static_cast<std::uint64_t>((*page)["spillway_tier_entries{tier=\"disk\"}"]);
  past_ += TotalsOf(*page);
  report_.stats = {};  // They are counted now.
  const auto began = std::chrono::steady_clock::now();
  daemon_->Kill();
  if (Status started = StartDaemon(); !started) return started.error();
  killed.down = std::chrono::steady_clock::now() - began;
  killed.after = daemon_->pid();
  kills_.push_back(killed);
  lines->push_back(PlainLine(now(), "kill -9: " + KilledText(killed)));
  verifier_ = std::make_unique<Verifier>(daemon_->socket(), workflow_->AllBlocks(),
                                         agent_settings_.bytes_per_token);
  kill_ = Kill::kVerifying;
  return Ask();
}

void Demo::EndKill(std::vector<std::string>* lines) {
  const Verifier::Outcome& outcome = verifier_->outcome();
  Killed& killed = kills_.back();
  killed.verified = true;
  killed.good = outcome.found;
  killed.wrong_bytes = outcome.wrong_bytes;
  killed.trouble = outcome.trouble;
  verified_bytes_ += outcome.bytes;
  verified_wrong_ += outcome.wrong_bytes;
  verifier_.reset();
  kill_ = Kill::kNotYet;
  kill_by_ = Duration::zero();
  lines->push_back(PlainLine(now(), "kill -9: " + KilledText(killed)));
  StartAgents();
}

}  // namespace spillway::demo
