// SPDX-License-Identifier: Apache-2.0
// Damaged configuration files. For any text: no crash, and either an error message or a valid
// configuration, the same each time.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/settings.h"

using spillway::Result;
using spillway::server::CheckSettings;
using spillway::server::Config;
using spillway::server::LoadConfig;

namespace {

// An error names its place: "d.toml:3: ...", or for the whole file "d.toml: ...".
bool SaysWhere(std::string_view message) {
  return message.starts_with("d.toml:") && message.size() > std::string_view("d.toml:").size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<Config> config = LoadConfig(text, "d.toml", Config());
  if (!config) {
    if (!SaysWhere(config.error().message)) {
      __builtin_printf("not told where: %s\n", config.error().message.c_str());
      std::abort();
    }
  } else if (!CheckSettings(config->server)) {
    std::abort();
  }
  const Result<Config> again = LoadConfig(text, "d.toml", Config());
  if (static_cast<bool>(again) != static_cast<bool>(config)) std::abort();
  if (!config && again.error().message != config.error().message) std::abort();
  return 0;
}
