// The neighbours: processes of their own (`spillway squeeze`) that take memory
// of the card, hold it for a while and leave. All of them are gone, one way or
// the other, when this is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "demo/child.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Neighbour {
  enum class State : std::uint8_t { kAsking, kHolding, kGone };

  pid_t pid = 0;
  Bytes bytes = 0;
  Duration hold{};
  Duration came{};                 // By the demo's time, like those below.
  std::optional<Duration> waited;  // From asking to having all of it, by its own clock.
  std::int64_t took_unix_us = 0;   // When it began to take, by the machine's clock; 0: not told.
  std::optional<Duration> left;
  State state = State::kAsking;
  int status = 0;    // As waitpid gives it, once gone.
  std::string said;  // Its last line.
};

// Owned by one thread.
class Neighbours {
 public:
  // `program` is `spillway`, run as `program squeeze ...`; `where` are words that
  // say of what. They come so much before they take anything.
  Neighbours(std::string program, std::vector<std::string> where, Duration lead = {});
  ~Neighbours() { EndAll(Duration::zero()); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // One who wants `bytes`, takes them `step` by `step` as they come free, and
  // is gone after about that long.
  Status Send(Bytes bytes, Bytes step, Duration hold, Duration now);
  // Hears what they say and sees who has gone; never waits. True: news.
  bool Look(Duration now);
  // Ends all that are still there: asked first, then made to.
  void EndAll(Duration now);

  const std::vector<Neighbour>& all() const { return all_; }
  std::size_t present() const;

 private:
  bool Hear(std::size_t i);
  bool Reap(std::size_t i, Duration now);

  const std::string program_;
  const std::vector<std::string> where_;
  const Duration lead_;
  std::vector<Neighbour> all_;
  std::vector<Child> children_;  // Beside all_.
};

// Understands a line of `squeeze`: "has 3 MiB after 1.5 ms" and the like.
void NoteLine(std::string_view line, Neighbour* neighbour);

}  // namespace spillway::demo
