// SPDX-License-Identifier: Apache-2.0
#include "cache/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/renamed.h"
#include "cache/parts.h"
#include "monitor/governor.h"
#include "policy/policy.h"

namespace spillway {
namespace {

constexpr std::string_view kNone = "none";

Error NotA(const Setting& setting, std::string_view text) {
  return Bad(fmt::format("{}: '{}' is not {}{}", setting.name, Printable(text),
                         Describe(setting.type), setting.may_be_none ? ", or \"none\"" : ""));
}

// --- reading one value ---

template <typename Number>
bool ReadWhole(std::string_view text, Number* number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

Status Read(const Setting&, std::string_view text, std::string* field) {
  *field = text;
  return {};
}

Status Read(const Setting& setting, std::string_view text, std::uint64_t* field) {
  if (setting.type == SettingType::kSize) {
    const Result<Bytes> bytes = ParseBytes(text);
    if (!bytes) return Bad(fmt::format("{}: {}", setting.name, bytes.error().message));
    *field = *bytes;
    return {};
  }
  std::uint64_t count = 0;
  if (!ReadWhole(text, &count)) return NotA(setting, text);
  *field = count;
  return {};
}

Status Read(const Setting& setting, std::string_view text, Tokens* field) {
  Tokens count = 0;
  if (!ReadWhole(text, &count)) return NotA(setting, text);
  *field = count;
  return {};
}

Status Read(const Setting& setting, std::string_view text, Duration* field) {
  const Result<Duration> duration = ParseDuration(text);
  if (!duration) return Bad(fmt::format("{}: {}", setting.name, duration.error().message));
  *field = *duration;
  return {};
}

Status Read(const Setting& setting, std::string_view text, double* field) {
  double share = 0;
  if (!ReadWhole(text, &share) || !std::isfinite(share)) return NotA(setting, text);
  *field = share;
  return {};
}

Status Read(const Setting& setting, std::string_view text, bool* field) {
  if (text != "true" && text != "false") return NotA(setting, text);
  *field = text == "true";
  return {};
}

template <typename T>
Status Read(const Setting& setting, std::string_view text, std::optional<T>* field) {
  if (text == kNone) {
    field->reset();
    return {};
  }
  T value{};
  if (Status ok = Read(setting, text, &value); !ok) return ok;
  *field = value;
  return {};
}

// --- and back ---

// In the largest unit that divides the value, so that nothing is lost.
struct Unit {
  std::uint64_t scale;
  std::string_view name;
};
constexpr std::array kByteUnits = {Unit{kGiB << 10, "TiB"}, Unit{kGiB, "GiB"}, Unit{kMiB, "MiB"},
                                   Unit{kKiB, "KiB"}};
constexpr std::array kTimeUnits = {
    Unit{3'600'000'000'000, "h"}, Unit{60'000'000'000, "min"}, Unit{1'000'000'000, "s"},
    Unit{1'000'000, "ms"},        Unit{1'000, "us"},           Unit{1, "ns"}};

std::string InUnits(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value >= unit.scale && value % unit.scale == 0) {
      return fmt::format("{}{}", value / unit.scale, unit.name);
    }
  }
  return fmt::to_string(value);
}

template <SettingType Type, typename T>
std::string Print(const T& value) {
  if constexpr (std::is_same_v<T, Duration>) {
    return value == Duration::zero()
               ? "0s"
               : InUnits(static_cast<std::uint64_t>(value.count()), kTimeUnits);
  } else if constexpr (Type == SettingType::kSize) {
    return InUnits(value, kByteUnits);
  } else {
    return fmt::format("{}", value);
  }
}

template <SettingType Type, typename T>
std::string Print(const std::optional<T>& value) {
  return value ? Print<Type>(*value) : std::string(kNone);
}

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;

// A row of the table. `Pick` returns the field of an Options.
template <SettingType Type, auto Pick>
constexpr Setting Row(std::string_view name, std::string_view meaning, std::string_view since) {
  using T = std::remove_cvref_t<decltype(Pick(std::declval<Options&>()))>;
  return {name,
          Type,
          kIsOptional<T>,
          meaning,
          since,
          [](const Setting& setting, std::string_view text, Options* options) {
            return Read(setting, text, &Pick(*options));
          },
          [](const Options& options) { return Print<Type>(Pick(options)); }};
}

using enum SettingType;

// The table, in the order of Options. Parser, --help, CONFIG GET and the reference page
// read it.
constexpr std::array kSettings = {
    Row<kWord, [](auto& o) -> auto& { return o.device; }>(
        "device",
        "Backend of the device tier. `cpu` is the virtual card: RAM of a set size. `cuda`, "
        "`cuda:N`, `hip` and `hip:N` are a GPU, N being its number, UUID or PCI address.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.card; }>(
        "card", "Name of a virtual card shared by several processes; empty: a private one.", "0.1"),
    Row<kSize, [](auto& o) -> auto& { return o.capacity; }>(
        "capacity",
        "Bytes of the device tier. None: the whole card, by default an eighth of the memory "
        "available on the machine (`spillway simulate`: 128GiB).",
        "0.1"),
    Row<kFlag, [](auto& o) -> auto& { return o.unlimited; }>(
        "unlimited", "No capacity at all: the tier takes what the machine gives.", "0.1"),
    Row<kCount, [](auto& o) -> auto& { return o.entries_max; }>(
        "entries_max",
        "Most entries at once. Address space for their index is reserved at open; memory is used "
        "only as entries are added.",
        "0.1"),
    Row<kSize, [](auto& o) -> auto& { return o.names_bytes_max; }>(
        "names_bytes_max", "Most bytes of keys, agents and meta blobs kept in host memory.", "0.1"),
    Row<kShare, [](auto& o) -> auto& { return o.reserve; }>(
        "reserve",
        "Free memory of a shared card left for neighbours' bursts, as a share of the card.", "0.1"),
    Row<kSize, [](auto& o) -> auto& { return o.reserve_bytes_min; }>(
        "reserve_bytes_min",
        "The least reserve; even so it is never more than a tenth of the card.", "0.1"),
    Row<kFlag, [](auto& o) -> auto& { return o.ask; }>(
        "ask",
        "On a shared card: listens on a socket on which neighbours ask for memory, as `spillway "
        "room` does.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.ask_group; }>(
        "ask_group", "The group whose members may ask, besides our own user and root. Empty: none.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.zero_before_release; }>(
        "zero_before_release",
        "On a GPU: whether memory is zeroed before it is returned to the driver. `always`, "
        "`never`, or `auto`: if `spillway selftest` has found that this driver hands out memory "
        "without clearing it.",
        "0.1"),
    Row<kSize, [](auto& o) -> auto& { return o.host_capacity; }>(
        "host_capacity",
        "Bytes of the host tier: RAM for entries evicted from the device. None: no such tier; on a "
        "GPU a quarter of the memory available, at most 64GiB.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.host_pressure_source; }>(
        "host_pressure_source", "Where the host tier's pressure comes from, as `pressure_source`.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.disk_dir; }>(
        "disk_dir",
        "Folder of the disk tier, which holds entries evicted from the host and has them again "
        "after a restart. Empty: no such tier.",
        "0.1"),
    Row<kSize, [](auto& o) -> auto& { return o.disk_capacity; }>(
        "disk_capacity",
        "Most bytes of its files. None: a quarter of the file system's free space, at most 256 "
        "GiB.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.disk_pressure_source; }>(
        "disk_pressure_source",
        "Where the disk tier's pressure comes from; `auto`: its files as a share of what they and "
        "the free space of their file system are together.",
        "0.1"),
    Row<kFlag, [](auto& o) -> auto& { return o.disk_read_back; }>(
        "disk_read_back",
        "Whether a value written to disk is read back and verified before it counts as a copy.",
        "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.write_back_after; }>(
        "write_back_after",
        "Write-back: dirty entries idle for this long are copied to the next tier; they are then "
        "clean, and their memory can be given back at once. None: only under pressure.",
        "0.1"),
    Row<kSize, [](auto& o) -> auto& { return o.write_back_rate; }>(
        "write_back_rate", "Most bytes a second that write-back may copy. None: no bound.", "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.scrub_every; }>(
        "scrub_every", "How often every blob on disk is read and verified. None: never.", "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.room_wait; }>(
        "room_wait", "How long a `set` may wait for room that is being made in a tier below.",
        "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.emergency_time; }>(
        "emergency_time",
        "How long EMERGENCY copies dirty entries down. After that it destroys those that have been "
        "idle for longer than `idle_critical`.",
        "0.1"),
    Row<kShare, [](auto& o) -> auto& { return o.thresholds.normal; }>(
        "thresholds.normal", "Pressure from which NORMAL is entered.", "0.1"),
    Row<kShare, [](auto& o) -> auto& { return o.thresholds.pressure; }>(
        "thresholds.pressure", "Pressure from which PRESSURE is entered.", "0.1"),
    Row<kShare, [](auto& o) -> auto& { return o.thresholds.critical; }>(
        "thresholds.critical", "Pressure from which CRITICAL is entered.", "0.1"),
    Row<kShare, [](auto& o) -> auto& { return o.thresholds.emergency; }>(
        "thresholds.emergency",
        "Pressure from which EMERGENCY is entered and nothing new is taken.", "0.1"),
    Row<kShare, [](auto& o) -> auto& { return o.exit_band; }>(
        "exit_band", "How far under its threshold pressure must be before a level can be left.",
        "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.dwell; }>(
        "dwell", "How long pressure must have been there.", "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.sample_period; }>(
        "sample_period",
        "After `Start` pressure is sampled at least this often; every 8 ms when a neighbour's jump "
        "could reach a threshold, every 1 ms while it moves. A reading older than three periods is "
        "UNKNOWN.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.pressure_source; }>(
        "pressure_source",
        "Where pressure comes from: `auto` (the device's own source), or one by name, as in "
        "`nvml`, `nvml:0000:1b:00.0`, `card:NAME`, `host`, `disk:/path`, `file:/path` or "
        "`fixed:0.5`; `spillway probe` lists what a machine offers. `part:4GiB` is that much of "
        "the device as if it were all of it: only memory taken since the cache was opened counts "
        "as used; set `capacity` to the same.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.policy; }>(
        "policy",
        "The eviction order: `score` (first the entry least likely to be used soon, as predicted "
        "by graphs and hints and learned from similar entries, weighed by what a miss would cost; "
        "LRU until enough is learned), `documented` (the mode table's own order), `lru`, "
        "`hybrid`, `workflow` (by step graphs and hints, then last use) or `seed`.",
        "0.1"),
    Row<kCount, [](auto& o) -> auto& { return o.history_entries; }>(
        "history_entries",
        "Most keys the policy `score` remembers after their entries are gone, at about 250 bytes "
        "each. 0: none.",
        "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.ttl; }>(
        "ttl", "An entry idle longer than this is evicted from the tier.", "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.host_ttl; }>(
        "host_ttl", "The same for the host tier.", "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.disk_ttl; }>(
        "disk_ttl", "The same for the disk tier.", "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.idle_normal; }>(
        "idle_normal", "In NORMAL only entries idle longer than this are evicted.", "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.idle_critical; }>(
        "idle_critical", "In EMERGENCY every entry idle longer than this is evicted.", "0.1"),
    Row<kCount, [](auto& o) -> auto& { return o.token_budget; }>(
        "token_budget", "Most tokens over all live entries.", "0.1"),
    Row<kCount, [](auto& o) -> auto& { return o.prefetch_steps; }>(
        "prefetch_steps",
        "Entries that a step graph wants within this many steps are brought up from lower tiers "
        "before they are asked for. 0: none are.",
        "0.1"),
    Row<kDuration, [](auto& o) -> auto& { return o.reclaim_slice; }>(
        "reclaim_slice", "Longest stretch of reclaim work between two other events.", "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.log; }>(
        "log",
        "The least severe messages that the library writes to standard error, or to the sink given "
        "to `SetLog`: `info`, `warning`, `error` or `off`; empty: unchanged, at first `info`. For "
        "the whole process.",
        "0.1"),
    Row<kWord, [](auto& o) -> auto& { return o.trace; }>(
        "trace",
        "A file to which every use is appended, as a log that `spillway replay` reads to tell "
        "how another size or policy would have done. Empty: none.",
        "0.1"),
};

}  // namespace

std::string_view Name(SettingType type) {
  switch (type) {
    case kWord:
      return "word";
    case kSize:
      return "size";
    case kDuration:
      return "duration";
    case kShare:
      return "share";
    case kCount:
      return "count";
    case kFlag:
      return "flag";
  }
  return "";
}

std::string_view Describe(SettingType type) {
  switch (type) {
    case kWord:
      return R"(a word in quotes, as in "cpu")";
    case kSize:
      return R"(a size, as in "4GiB", "512MB" or 1048576)";
    case kDuration:
      return R"(a duration, as in "2s", "500ms" or "10min")";
    case kShare:
      return "a share, a number such as 0.85";
    case kCount:
      return "a whole number of at least 0, such as 1000000";
    case kFlag:
      return "true or false";
  }
  return "";
}

std::span<const Setting> Settings() { return kSettings; }

Result<const Setting*> FindSetting(std::string_view name) {
  std::vector<std::string_view> names;
  std::vector<std::string_view> inside;  // If `name` is a table.
  const std::string table = fmt::format("{}.", name);
  for (const Setting& setting : kSettings) {
    if (setting.name == name) return &setting;
    names.push_back(setting.name);
    if (setting.name.starts_with(table)) inside.push_back(setting.name);
  }
  names.emplace_back("preset");
  if (!inside.empty()) {
    return Bad(fmt::format("unknown setting '{}': it is a table, of {}", Printable(name),
                           fmt::join(inside, ", ")));
  }
  std::string hint = ItIsNow(name);
  if (hint.empty()) hint = DidYouMean(name, names);
  return Bad(fmt::format("unknown setting '{}'{}", Printable(name), hint));
}

Status ApplySetting(Options* options, std::string_view name, std::string_view text) {
  const Result<const Setting*> setting = FindSetting(name);
  if (!setting) return setting.error();
  if (Status ok = (*setting)->read(**setting, text, options); !ok) return ok;
  // The two exclude each other; the later one is in force.
  if (name == "capacity" && options->capacity) options->unlimited = false;
  if (name == "unlimited" && options->unlimited) options->capacity.reset();
  return {};
}

Result<Options> PresetOptions(std::string_view name, const Options& world) {
  if (name != "default" && name != "seed") {
    constexpr std::array<std::string_view, 2> kPresets = {"default", "seed"};
    return Bad(fmt::format("preset: '{}' is not known; known: default, seed{}", Printable(name),
                           DidYouMean(name, kPresets)));
  }
  Options options = name == "seed" ? Options::Seed() : Options();
  options.clock = world.clock;
  options.pressure = world.pressure;
  options.host_pressure = world.host_pressure;
  options.disk_pressure = world.disk_pressure;
  options.on_level = world.on_level;
  options.on_event = world.on_event;
  return options;
}

Status CheckSettings(const Options& options) {
  if (Status ok = CheckOptions(options); !ok) return ok;
  if (Status ok = Governor::Check({options.thresholds, options.exit_band, options.dwell}); !ok) {
    return ok;
  }
  if (Result<Policy> policy = MakePolicy(options.policy, {}); !policy) {
    return policy.error();
  }
  if (options.entries_max == 0 || options.entries_max >= kNoSlot) {
    return Bad(fmt::format("entries_max is {}: it must be from 1 to {}", options.entries_max,
                           kNoSlot - 1));
  }
  return {};
}

}  // namespace spillway
