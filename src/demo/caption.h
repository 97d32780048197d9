// One sentence on what a scene has come to, from figures: those of the daemon and
// those the agents measured, now and when the scene began.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "demo/agent.h"
#include "demo/neighbours.h"
#include "demo/review.h"
#include "demo/script.h"
#include "demo/totals.h"
#include "spillway/stats.h"

namespace spillway::demo {

// At one moment.
struct Figures {
  Stats stats;
  Totals totals;  // Over all lives of the daemon.
  AgentCounts counts;
};

// The last stranger, and what its coming set off.
struct Stranger {
  pid_t pid = 0;
  Bytes bytes = 0;
  std::optional<Duration> sensed = {};  // From its first taking to the daemon's reading of it.
  std::optional<Duration> had = {};     // Until it had all it wanted, by its own clock.
  std::uint64_t dropped = 0;
  std::uint64_t lost = 0;
};
// "pid 4711 took 256 MiB: sensed 2 ms, had it 11 ms, 14 dropped, 0 lost"
std::string StrangerText(const Stranger& stranger);

// One resume: copied back, instead of computed again.
struct Resume {
  std::string agent;
  Tokens tokens = 0;
  Duration copy{};  // Measured.
};
// "coder 6,784 tokens in 12 ms, prefill 292 ms (declared)"
std::string ResumeText(const Resume& resume, Duration prefill_per_token);

// The daemon was killed and started again.
struct Killed {
  pid_t before = 0;
  pid_t after = 0;
  std::uint64_t entries = 0;  // When it was.
  std::uint64_t on_disk = 0;  // Of these.
  Duration down{};            // Until the new one answered.
  bool verified = false;      // What follows is known:
  std::uint64_t good = 0;     // found again, every byte compared.
  std::uint64_t wrong_bytes = 0;
  std::string trouble;
};
std::string KilledText(const std::optional<Killed>& killed);

struct Moment {
  Scene scene = Scene::kFill;
  Figures first;  // When the scene began.
  Figures now;
  std::size_t contexts = 0;
  Duration prefill_per_token{};
  std::optional<Stranger> stranger;
  std::optional<Resume> resume;
  ReviewSum reviews;  // Of this scene.
  std::optional<Killed> killed;
  std::string summary;
};
// The sentence alone, without the scene's name.
std::string CaptionText(const Moment& moment);
// "a stranger: pid 4711 took ..."
std::string Caption(const Moment& moment);

}  // namespace spillway::demo
