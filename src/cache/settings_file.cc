// SPDX-License-Identifier: Apache-2.0
// Settings from a TOML file. All of it is read into a copy and checked before that copy
// is used: nothing starts half-configured.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/printable.h"
#include "base/toml_hint.h"
#include "cache/settings.h"

namespace spillway {
namespace {

// One value of the file, and where it is.
struct Found {
  std::string name;  // With its tables: "thresholds.normal".
  const toml::node* node = nullptr;
  std::uint32_t line = 0;
};

// An empty table stays in the list, so that an unknown one is reported.
void Flatten(const toml::table& table, const std::string& prefix, std::vector<Found>* found) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      Flatten(*inner, name + ".", found);
    } else {
      found->push_back({name, &node, key.source().begin.line});
    }
  }
}

bool NamesATable(std::string_view name) {
  return std::ranges::any_of(Settings(), [&](const Setting& setting) {
    return setting.name.starts_with(fmt::format("{}.", name));
  });
}

std::string_view KindOf(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

// The value as the table's readers take it; empty: it has the wrong type.
std::optional<std::string> TextOf(const toml::node& node, const Setting& setting) {
  const SettingType type = setting.type;
  if (const auto* text = node.as_string()) {
    const bool fits = type == SettingType::kWord || type == SettingType::kSize ||
                      type == SettingType::kDuration ||
                      (setting.may_be_none && text->get() == "none");
    if (fits) return text->get();
  } else if (const auto* integer = node.as_integer()) {
    if (type == SettingType::kSize || type == SettingType::kCount || type == SettingType::kShare ||
        type == SettingType::kDuration) {
      return fmt::to_string(integer->get());
    }
  } else if (const auto* number = node.as_floating_point()) {
    if (type == SettingType::kShare) return fmt::to_string(number->get());
  } else if (const auto* flag = node.as_boolean()) {
    if (type == SettingType::kFlag) return flag->get() ? "true" : "false";
  }
  return std::nullopt;
}

class File {
 public:
  File(std::string_view name, const toml::table& table) : name_(name) {
    Flatten(table, "", &found_);
    std::ranges::stable_sort(found_, {}, &Found::line);
  }

  // An error at a line, or about the whole file if the line is not known.
  Error At(const Found* found, std::string_view what) const {
    return Error{Code::kInvalidArgument, found == nullptr
                                             ? fmt::format("{}: {}", name_, what)
                                             : fmt::format("{}:{}: {}", name_, found->line, what)};
  }

  const Found* Find(std::string_view name) const {
    const auto it = std::ranges::find(found_, name, &Found::name);
    return it == found_.end() ? nullptr : &*it;
  }

  Result<Options> Preset(const Options& base, bool keep) const {
    const Found* preset = Find("preset");
    if (preset == nullptr) return base;
    const auto* text = preset->node->as_string();
    if (text == nullptr) {
      return At(preset, fmt::format("preset is {}; it must be \"default\" or \"seed\"",
                                    KindOf(*preset->node)));
    }
    Result<Options> options = PresetOptions(text->get(), base);
    if (!options) return At(preset, options.error().message);
    return keep ? base : std::move(*options);
  }

  Status Apply(Options* options) const {
    for (const Found& found : found_) {
      if (found.name == "preset") continue;
      if (found.node->is_table() && NamesATable(found.name)) continue;
      const Result<const Setting*> setting = FindSetting(found.name);
      if (!setting) return At(&found, setting.error().message);
      const std::optional<std::string> text = TextOf(*found.node, **setting);
      if (!text) {
        return At(&found, fmt::format("{} is {}; it must be {}{}", found.name, KindOf(*found.node),
                                      Describe((*setting)->type),
                                      (*setting)->may_be_none ? ", or \"none\"" : ""));
      }
      if (Status ok = ApplySetting(options, found.name, *text); !ok) {
        return At(&found, ok.error().message);
      }
    }
    return {};
  }

  // The later one would be in force; in a file that is never intended.
  Status CheckLimits() const {
    const Found* unlimited = Find("unlimited");
    const Found* capacity = Find("capacity");
    if (unlimited == nullptr || capacity == nullptr) return {};
    if (!unlimited->node->value_or(false)) return {};
    if (capacity->node->value_or(std::string_view()) == "none") return {};
    return At(unlimited, "unlimited and capacity exclude each other; leave one of them out");
  }

  // Messages of checks begin with the setting they are about.
  Error Located(const Error& error) const {
    const std::string_view message = error.message;
    const std::size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.");
    return At(Find(message.substr(0, end)), message);
  }

 private:
  const std::string_view name_;
  std::vector<Found> found_;
};

}  // namespace

Result<Options> LoadOptions(const std::string& toml_text, std::string_view file_name,
                            const Options& base, bool keep_preset, std::string_view skip) {
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& error) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("{}:{}: {}{}", file_name, error.source().begin.line, error.description(),
                    QuotesHint(toml_text, error.source().begin.line))};
  }
  if (!skip.empty()) table.erase(skip);
  const File file(file_name, table);
  Result<Options> options = file.Preset(base, keep_preset);
  if (!options) return options;
  if (Status ok = file.Apply(&*options); !ok) return ok.error();
  if (Status ok = file.CheckLimits(); !ok) return ok.error();
  if (Status ok = CheckSettings(*options); !ok) return file.Located(ok.error());
  return options;
}

}  // namespace spillway
