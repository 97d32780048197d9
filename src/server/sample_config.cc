// SPDX-License-Identifier: Apache-2.0
// The sample configuration file, made from the tables of settings.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cache/settings.h"
#include "server/settings.h"

namespace spillway::server {
namespace {

constexpr std::size_t kWidth = 96;

constexpr std::string_view kSampleHead =
    R"(# Settings of spillwayd. Written by `spillwayd --sample-config`.
#
# Every setting is here with its default, commented out: remove the `# ` in front of the ones to
# change. `spillwayd --check-config --config FILE` says whether a file is right, with file, line and
# setting of the first mistake. `systemctl reload spillwayd` reads it again; the log says what was
# changed and what needs a restart.
#
# Sizes and durations are written in quotes: "24GiB", "512MB", "500ms", "10min", "2h".
)";

// Appends `text` as comment lines of at most kWidth characters. Backquotes stay: they mark names.
void AddComment(std::string_view text, std::string* to) {
  std::string line = "#";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (line.size() + 1 + end > kWidth) {
      *to += line + "\n";
      line = "#";
    }
    line += " ";
    line += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  *to += line + "\n";
}

// A value as TOML takes it: numbers and flags bare, all else quoted.
std::string SampleValue(std::string_view text, bool bare) {
  return bare ? std::string(text) : fmt::format("\"{}\"", text);
}

bool IsBare(std::string_view text) {
  return text == "true" || text == "false" ||
         (!text.empty() && std::ranges::count(text, '.') <= 1 &&
          std::ranges::all_of(
              text, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.' || c == '-'; }));
}

void AddSetting(std::string_view name, const Setting& setting, const Options& defaults,
                std::string* to) {
  const std::string value = setting.print(defaults);
  AddComment(setting.meaning, to);
  AddComment(fmt::format("It is {}{}.", Describe(setting.type),
                         setting.may_be_none ? ", or \"none\"" : ""),
             to);
  *to += fmt::format("# {} = {}\n\n", name, SampleValue(value, IsBare(value)));
}

}  // namespace

std::string SampleConfig() {
  std::string text(kSampleHead);
  text += "\n# The cache\n\n";
  const Config defaults = DefaultConfig();
  Options options = defaults.cache;
  options.capacity.reset();  // The default depends on the machine; the meaning says how.
  std::string table;
  std::string tables;
  for (const Setting& setting : spillway::Settings()) {
    const std::size_t point = setting.name.find('.');
    if (point == std::string_view::npos) {
      AddSetting(setting.name, setting, options, &text);
      continue;
    }
    if (table != setting.name.substr(0, point)) {
      table = setting.name.substr(0, point);
      tables += fmt::format("[{}]\n\n", table);
    }
    AddSetting(setting.name.substr(point + 1), setting, options, &tables);
  }
  text += tables;
  text += "# The daemon\n\n[server]\n\n";
  for (const SettingRow& row : SettingRows()) {
    const std::string value = row.print(defaults.server);
    AddComment(row.meaning, &text);
    AddComment(fmt::format("It is {}.", row.kind), &text);
    text += fmt::format("# {} = {}\n\n", row.name, SampleValue(value, IsBare(value)));
  }
  AddComment("File whose first line is the password; only the daemon needs to be able to read it.",
             &text);
  text += "# password_file = \"/etc/spillway/password\"\n";
  return text;
}

}  // namespace spillway::server
