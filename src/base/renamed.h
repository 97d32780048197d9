// SPDX-License-Identifier: Apache-2.0
// Names that users see and that have changed: settings, metrics and names of the C ABI. One table.
// It is read by the parsers of settings, whose errors name the new name, by /metrics for its help
// lines, and by docs/reference/renamed.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

enum class NameKind : std::uint8_t { kSetting, kMetric, kC };

struct RenamedName {
  NameKind kind = NameKind::kSetting;
  std::string_view old_name;
  std::string_view name;
};
std::span<const RenamedName> RenamedNames();

// What an old name of this kind is called now, and the other way round; empty: it never changed.
std::string_view NewNameOf(NameKind kind, std::string_view old_name);
std::string_view OldNameOf(NameKind kind, std::string_view name);

// For messages about an unknown setting: ": it is now write_back_after", or empty. `typed` is the
// setting's name, or a flag's without its dashes: `write-behind-after`.
std::string ItIsNow(std::string_view typed);

// docs/reference/renamed.md, whole.
std::string RenamedPage();

}  // namespace spillway
