// What somebody who plays on this daemon says of it: a sentence for those who
// watch, and figures of a fixed list that stand among the metrics. The demo says
// it by SPILL.CAPTION; without one there is nothing. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "http/exposition.h"
#include "spillway/result.h"

namespace spillway::server {

class Caption {
 public:
  struct Figure {
    std::string_view name;  // As SPILL.CAPTION has it; /metrics puts spillway_demo_ before it.
    std::string_view help;
  };
  // All there are. Those that end in _total are counters.
  static constexpr std::array kFigures = {
      Figure{"contexts", "Contexts that agents have."},
      Figure{"rounds_total", "Rounds of plan, act and review."},
      Figure{"turns_total", "Turns that agents took."},
      Figure{"resumes_total", "Turns that found all of their context."},
      Figure{"resumed_tokens_total", "Tokens of these contexts."},
      Figure{"resume_seconds_total", "Time it took to read them, measured by the agents."},
      Figure{"found_tokens_total", "Tokens of contexts that were found."},
      Figure{"asked_tokens_total", "Tokens of contexts that were asked for."},
      Figure{"saved_prefill_seconds_total", "Prefill not done again, at a declared speed."},
      Figure{"spent_prefill_seconds_total", "Prefill done again, at a declared speed."},
      Figure{"checked_bytes_total", "Bytes read back and compared."},
      Figure{"wrong_bytes_total", "Of these, wrong."},
      Figure{"destroyed_total", "Entries no tier has any more though nobody erased them."},
      Figure{"hits_total", "Blocks that gets found, over all lives of the daemon."},
      Figure{"misses_total", "Blocks that gets did not find, likewise."},
      Figure{"sets_total", "Blocks set, likewise."},
      Figure{"dropped_total", "Entries dropped from a tier, likewise."},
      Figure{"fetched_ahead_bytes_total", "Brought up ahead of a step, likewise."},
      Figure{"strangers_total", "Neighbours that came."},
      Figure{"stranger_sensed_seconds", "From the last one's first taking to our reading of it."},
      Figure{"stranger_had_seconds", "Until it had all it wanted."},
      Figure{"stranger_dropped", "Entries dropped for it."},
      Figure{"stranger_lost", "Entries destroyed for it."},
      Figure{"review_blocks", "Blocks that reviewers needed while the card was squeezed."},
      Figure{"review_blocks_in_memory", "Of these, in memory when the step began."},
      Figure{"review_blocks_lru", "Of these, in a cache by last use of the same memory."},
      Figure{"kills_total", "Times the daemon was killed."},
      Figure{"kill_on_disk", "Entries on disk when it was."},
      Figure{"kill_verified", "Of these, found again and compared byte by byte."},
      Figure{"replay_lru_saved_seconds", "What a cache by last use would have saved."},
      Figure{"replay_seed_saved_seconds", "What the seed's rule would have saved."},
      Figure{"replay_score_saved_seconds", "What the learnt score alone would have saved."},
  };

  struct Words {
    std::string phase;
    std::string text;
  };
  static constexpr std::size_t kTextMax = 1024;

  // Bounded to kTextMax each; what is no text is escaped.
  void Say(std::string_view phase, std::string_view text);
  // Nothing: nobody has said anything.
  std::optional<Words> words() const;
  // An error: there is no such figure, or that is no number.
  Status Tell(std::string_view name, std::string_view value);
  // Those that were told.
  void AddMetrics(http::Exposition* page) const;

 private:
  mutable std::mutex mutex_;
  std::optional<Words> words_;                                    // Guarded by mutex_.
  std::array<std::optional<double>, kFigures.size()> figures_{};  // Guarded by mutex_.
};

}  // namespace spillway::server
