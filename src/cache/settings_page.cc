// SPDX-License-Identifier: Apache-2.0
// The reference page of the settings, made from their table.
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "cache/settings.h"

namespace spillway {
namespace {

constexpr std::string_view kHead = R"(# Settings

<!-- Written by tools/write_settings_page.sh from src/cache/settings.cc; a test holds it to that. -->

One TOML file holds them all; `spillway simulate --config FILE` reads it, and in C++ the same names are
the fields of `spillway::Options`. Nothing is needed: every setting has a default.

```toml
capacity = "24GiB"
policy = "hybrid"
ttl = "none"

[thresholds]
pressure = 0.80
```

An unknown name, a value of the wrong type or values that do not go together are an error that names
file, line and setting, and nothing starts.

`preset = "seed"` at the top begins with the settings of the small program Spillway grew from: one tier
without a capacity, `ttl`, `token_budget`, `exit_band` or `dwell`, and policy `seed`. The other settings
of the file change that. Without it, or with `preset = "default"`, the defaults below hold.

| name | type | default | meaning | since |
|---|---|---|---|---|
)";

constexpr std::string_view kTail = R"(
| type | written as |
|---|---|
)";

constexpr std::string_view kEnd = R"(
Sizes count in 1024s with KiB, MiB, GiB, TiB and in 1000s with kB, MB, GB, TB; a bare "4G" is refused,
since half of its readers would be wrong. Durations take ns, us, ms, s, min, h and d. Where the type says
*or none*, `"none"` switches the limit off.

`capacity` and `host_capacity` above what the machine or a control group of the process has in all, each or
together, and `disk_capacity` above the size of the file system are refused, and so is less than one chunk
(4 KiB of a private card, 1 MiB of the host, 1 MiB on disk, of a GPU or a shared card more); the error has
both figures. `spillway simulate` takes any size: it has no memory.
)";

std::string Value(const std::string& text) {
  return text.empty() ? std::string("empty") : fmt::format("`{}`", text);
}

}  // namespace

std::string SettingsPage() {
  std::string page(kHead);
  const Options defaults;
  for (const Setting& setting : Settings()) {
    fmt::format_to(std::back_inserter(page), "| `{}` | {}{} | {} | {} | {} |\n", setting.name,
                   Name(setting.type), setting.may_be_none ? " or none" : "",
                   Value(setting.print(defaults)), setting.meaning, setting.since);
  }
  page += kTail;
  for (const SettingType type : {SettingType::kWord, SettingType::kSize, SettingType::kDuration,
                                 SettingType::kShare, SettingType::kCount, SettingType::kFlag}) {
    fmt::format_to(std::back_inserter(page), "| {} | {} |\n", Name(type), Describe(type));
  }
  page += kEnd;
  return page;
}

}  // namespace spillway
