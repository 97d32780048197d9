// What the demo plays: the settings it runs under, its scenes, and when
// neighbours come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "demo/stage.h"
#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway::demo {

enum class Scene : std::uint8_t { kFill, kWork, kStranger, kSqueezed, kLeaves, kKilled, kSummary };
// "a stranger"
std::string_view Name(Scene scene);
// What it is about, for who watches: "another process takes memory of the card".
std::string_view About(Scene scene);

struct SceneAt {
  Scene scene = Scene::kFill;
  Duration from{};
};
// A short demo fills and has a stranger; one of 40 s and more tells the whole
// story, one of minutes tells it again and again. Each ends with its summary.
// `whole`: the whole story, however short.
std::vector<SceneAt> ScenesFor(Duration length, bool whole = false);
Scene SceneAtTime(const std::vector<SceneAt>& scenes, Duration now);

// A neighbour comes at `at`, takes that share of the card, and leaves `hold`
// later.
struct Visit {
  Duration at{};
  Duration hold{};
  double share = 0;
};
std::vector<Visit> VisitsFor(Duration length, bool whole = false);

// How long the agents take to come.
Duration ArrivalFor(Duration length, bool whole = false);

// RAM below the card: a quarter of it, so that disk matters when the card is
// taken.
Bytes DemoBelowBytes(Bytes card_bytes);
// Disk below that: all that agents remember, at any time, with room to spare.
Bytes DemoDiskBytes(Bytes card_bytes);

// The mode table's times are made for days; a demo has seconds. Idle limits, dwell
// and ttl are shorter here; for that, EMERGENCY waits longer for copies.
Options DemoCacheOptions(const Stage& stage, const std::string& disk);
// Says so: "shorter: idle 4 s|1 s (usual 2 min|30 s), ...".
std::string HasteNote(const Options& options);

}  // namespace spillway::demo
