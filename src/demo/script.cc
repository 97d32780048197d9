#include "demo/script.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway::demo {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// In thousandths of a story.
struct Cue {
  Scene scene;
  int from;
};
struct Beat {
  int at, hold;
  double share;
};
struct Story {
  std::span<const Cue> cues;
  std::span<const Beat> beats;
};

constexpr Cue kShortCues[] = {{Scene::kFill, 0}, {Scene::kStranger, 300}, {Scene::kSummary, 850}};
constexpr Beat kShortBeats[] = {
    {350, 170, 0.50},  // More than is free: the rest as we give it back.
    {580, 170, 0.85},  // Almost all.
};
constexpr Cue kWholeCues[] = {
    {Scene::kFill, 0},     {Scene::kWork, 120},   {Scene::kStranger, 250}, {Scene::kSqueezed, 400},
    {Scene::kLeaves, 600}, {Scene::kKilled, 750}, {Scene::kSummary, 900}};
constexpr Beat kWholeBeats[] = {
    {260, 340, 0.50}, {410, 190, 0.30},  // Besides: the agents have what is left.
};
constexpr int kArrival = 120;
constexpr int kShortArrival = 150;
constexpr Duration kWholeFrom = seconds(40);
constexpr Duration kWholeLength = seconds(60);

// Idle limits a thirtieth of the usual; a level must last long enough to be
// seen, and so must a context before it leaves the card for being idle.
constexpr int kHaste = 30;
constexpr Duration kDwell = milliseconds(500);
constexpr Duration kTtl = seconds(20);
// With such idle limits nearly all counts as idle for long: a busy machine has this long
// to copy it down, and not half a second, before it is destroyed.
constexpr Duration kEmergencyTime = seconds(5);
// Three act side by side before a review: it is brought up while they do.
constexpr std::uint64_t kPrefetchSteps = 3;

Story StoryFor(Duration length, bool whole) {
  if (length < kWholeFrom && !whole) return {kShortCues, kShortBeats};
  return {kWholeCues, kWholeBeats};
}

Duration::rep TimesToldIn(Duration length) {
  return std::max<Duration::rep>(1, length / kWholeLength);
}

}  // namespace

std::string_view Name(Scene scene) {
  switch (scene) {
    case Scene::kFill:
      return "fill";
    case Scene::kWork:
      return "work";
    case Scene::kStranger:
      return "a stranger";
    case Scene::kSqueezed:
      return "squeezed";
    case Scene::kLeaves:
      return "it leaves";
    case Scene::kKilled:
      return "kill -9";
    case Scene::kSummary:
      return "summary";
  }
  return "";
}

std::string_view About(Scene scene) {
  switch (scene) {
    case Scene::kFill:
      return "twelve agents come, with all they remember";
    case Scene::kWork:
      return "a plan, three who act on it, a review, round after round";
    case Scene::kStranger:
      return "another process takes memory of the card";
    case Scene::kSqueezed:
      return "a second one comes; the agents go on with what is left, RAM and disk";
    case Scene::kLeaves:
      return "the card is free again, and contexts come back as they are wanted";
    case Scene::kKilled:
      return "the daemon is killed without a word and started again on the same disk";
    case Scene::kSummary:
      return "what it came to; the daemon still answers";
  }
  return "";
}

std::vector<SceneAt> ScenesFor(Duration length, bool whole) {
  const Story story = StoryFor(length, whole);
  const Duration::rep times = TimesToldIn(length);
  const Duration one = length / times;
  std::vector<SceneAt> scenes;
  for (Duration::rep i = 0; i < times; ++i) {
    for (const Cue& cue : story.cues) {
      // They come only once, and it ends only once.
      if (i > 0 && cue.scene == Scene::kFill) continue;
      if (i + 1 < times && cue.scene == Scene::kSummary) continue;
      const bool first_again = i > 0 && cue.scene == Scene::kWork;
      scenes.push_back({cue.scene, i * one + (first_again ? Duration() : one * cue.from / 1000)});
    }
  }
  return scenes;
}

Scene SceneAtTime(const std::vector<SceneAt>& scenes, Duration now) {
  Scene scene = Scene::kFill;
  for (const SceneAt& each : scenes) {
    if (each.from <= now) scene = each.scene;
  }
  return scene;
}

std::vector<Visit> VisitsFor(Duration length, bool whole) {
  const Story story = StoryFor(length, whole);
  const Duration::rep times = TimesToldIn(length);
  const Duration one = length / times;
  std::vector<Visit> visits;
  for (Duration::rep i = 0; i < times; ++i) {
    for (const Beat& beat : story.beats) {
      visits.push_back({i * one + one * beat.at / 1000, one * beat.hold / 1000, beat.share});
    }
  }
  return visits;
}

Duration ArrivalFor(Duration length, bool whole) {
  const int share = StoryFor(length, whole).cues.size() > 3 ? kArrival : kShortArrival;
  return length / TimesToldIn(length) * share / 1000;
}

Bytes DemoBelowBytes(Bytes card_bytes) { return card_bytes / 4; }
Bytes DemoDiskBytes(Bytes card_bytes) { return 3 * card_bytes; }

Options DemoCacheOptions(const Stage& stage, const std::string& disk) {
  Options options;
  stage.Tell(&options);
  options.disk_dir = disk;
  options.disk_capacity = DemoDiskBytes(stage.bytes());
  options.prefetch_steps = kPrefetchSteps;
  options.host_capacity = DemoBelowBytes(stage.bytes());
  options.idle_normal /= kHaste;
  options.idle_critical /= kHaste;
  options.ttl = kTtl;
  options.dwell = kDwell;
  options.emergency_time = kEmergencyTime;
  return options;
}

std::string HasteNote(const Options& options) {
  const Options usual;
  return fmt::format("shorter: idle {}|{} (usual {}|{}), dwell {} ({}), ttl {} ({})",
                     FormatDuration(options.idle_normal), FormatDuration(options.idle_critical),
                     FormatDuration(usual.idle_normal), FormatDuration(usual.idle_critical),
                     FormatDuration(options.dwell), FormatDuration(usual.dwell),
                     FormatDuration(*options.ttl), FormatDuration(*usual.ttl));
}

}  // namespace spillway::demo
