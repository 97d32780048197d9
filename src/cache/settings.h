// SPDX-License-Identifier: Apache-2.0
// The one table of settings: the names a configuration file may use and their defaults.
// Parser, flags, --help and docs/reference/settings.md are made from it. Options that
// are not in the table can only be set in C++ (the clock, a pressure source, a
// listener).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway {

enum class SettingType : std::uint8_t { kWord, kSize, kDuration, kShare, kCount, kFlag };

std::string_view Name(SettingType type);
// How a value is written: `a duration, as in "2s" or "500ms"`.
std::string_view Describe(SettingType type);

struct Setting {
  std::string_view name;  // As in Options; "thresholds.normal" is `normal` of [thresholds].
  SettingType type = SettingType::kWord;
  bool may_be_none = false;  // "none" is also a value.
  std::string_view meaning;
  std::string_view since;  // The version that introduced it.

  // Parses `text` into the field. On failure the field is unchanged, and the message
  // begins with the setting's name.
  Status (*read)(const Setting& setting, std::string_view text, Options* options);
  // Prints the field so that `read` gives the same value again.
  std::string (*print)(const Options& options);
};

// In the order of the fields of Options.
std::span<const Setting> Settings();

// By name. The error has the new name of a setting that was renamed, else the nearest known one.
Result<const Setting*> FindSetting(std::string_view name);

Status ApplySetting(Options* options, std::string_view name, std::string_view text);

// "default" or "seed". Options that no file can express are taken from `world`: clock,
// pressure sources and listeners.
Result<Options> PresetOptions(std::string_view name, const Options& world = {});

// Whether the settings make sense together; messages use the settings' names.
Status CheckSettings(const Options& options);

// `base` as a TOML file changes it, checked. An error names file, line and setting. A
// `preset` in the file replaces `base`, unless `keep_preset`: then the command line has
// chosen a preset already. The table named `skip` is ignored; another part of the
// program reads it.
Result<Options> LoadOptions(const std::string& toml_text, std::string_view file_name,
                            const Options& base, bool keep_preset = false,
                            std::string_view skip = {});

// The whole text of docs/reference/settings.md.
std::string SettingsPage();

}  // namespace spillway
