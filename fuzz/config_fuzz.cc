// Config files as nobody would write them. Whatever they hold: no crash, a
// message for whoever reads it or a config that is good, and the same twice.
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

// Who is told that something is wrong is told where: "d.toml:3: ...", or of the
// whole file "d.toml: ...".
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
