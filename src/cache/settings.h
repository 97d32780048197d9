// The one table of settings: what a configuration file may hold, by which name,
// with which default. Parser, flags, --help and docs/reference/settings.md read
// it; what is not in it can only be set in C++ (the clock, a pressure source, a
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
// What one writes: `a duration, as in "2s" or "500ms"`.
std::string_view Describe(SettingType type);

struct Setting {
  std::string_view name;  // As in Options; "thresholds.normal" is `normal` of [thresholds].
  SettingType type = SettingType::kWord;
  bool may_be_none = false;  // "none" is a value, too.
  std::string_view meaning;
  std::string_view since;  // The version that brought it.

  // Reads `text` into the field; a failure leaves it as it was, and its
  // message begins with the setting's name.
  Status (*read)(const Setting& setting, std::string_view text, Options* options);
  // The field as `read` takes it, nothing lost.
  std::string (*print)(const Options& options);
};

// In the order of Options.
std::span<const Setting> Settings();

// By name; the error names the nearest known one.
Result<const Setting*> FindSetting(std::string_view name);

Status ApplySetting(Options* options, std::string_view name, std::string_view text);

// "default" or "seed". Takes over from `world` what no file can say: clock,
// pressure source and listener.
Result<Options> PresetOptions(std::string_view name, const Options& world = {});

// Whether the settings make sense together, in the words of whoever uses them.
Status CheckSettings(const Options& options);

// `base` as a TOML file changes it, checked. An error names file, line and
// setting. A `preset` in the file replaces `base`, unless `keep_preset`: then
// somebody (the command line) has chosen one already. The table `skip` is
// somebody else's.
Result<Options> LoadOptions(const std::string& toml_text, std::string_view file_name,
                            const Options& base, bool keep_preset = false,
                            std::string_view skip = {});

// docs/reference/settings.md, whole.
std::string SettingsPage();

}  // namespace spillway
