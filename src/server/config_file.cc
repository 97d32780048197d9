// SPDX-License-Identifier: Apache-2.0
// The daemon's configuration file: the table [server], and the cache's settings around it.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/renamed.h"
#include "base/small_file.h"
#include "base/toml_hint.h"
#include "cache/parts.h"
#include "cache/settings.h"
#include "server/settings.h"

namespace spillway::server {

namespace {

Error At(std::string_view file, const toml::node& node, std::string_view what) {
  return Bad(fmt::format("{}:{}: {}", file, node.source().begin.line, what));
}

Error Unknown(std::string_view file, const toml::node& node, std::string_view name) {
  std::vector<std::string_view> names{"password_file"};
  for (const SettingRow& row : SettingRows()) names.push_back(row.name);
  std::string hint = ItIsNow(name);
  if (!hint.empty()) hint += ", and is no setting of the server: write it above [server]";
  if (hint.empty()) hint = DidYouMean(name, names);
  return At(file, node, fmt::format("server.{}: no such setting{}", Printable(name), hint));
}

std::optional<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  return std::nullopt;
}

Status ReadPasswordFile(const std::string& path, Settings* settings) {
  Result<std::optional<std::string>> text = ReadSmallFile(path, 4096);
  if (!text) return text.error();
  if (!*text) return Bad(fmt::format("{}: there is no such file", path));
  std::string password = **text;
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  if (password.empty()) return Bad(fmt::format("{}: it is empty", path));
  settings->password = std::move(password);
  return {};
}

Status ReadServer(const toml::table& table, std::string_view file, Settings* settings) {
  for (const auto& [key, node] : table) {
    const std::optional<std::string> text = TextOf(node);
    Status ok;
    if (key.str() == "password_file") {
      if (!node.is_string()) return At(file, node, "server.password_file: it must be a path");
      ok = ReadPasswordFile(*text, settings);
    } else {
      const auto row = std::ranges::find(SettingRows(), key.str(), &SettingRow::name);
      if (row == SettingRows().end()) return Unknown(file, node, key.str());
      if (!text) {
        return At(file, node, fmt::format("server.{}: it must be {}", row->name, row->kind));
      }
      ok = row->read(*text, settings);
    }
    if (!ok) return At(file, node, fmt::format("server.{}: {}", key.str(), ok.error().message));
  }
  return {};
}

// An address on which the daemon listens.
struct Listener {
  std::string_view name;  // Prefix of its settings: "" or "http_".
  std::uint64_t port;
  const std::string& bind;
};
std::array<Listener, 2> ListenersOf(const Settings& settings) {
  return {Listener{"", settings.port, settings.bind},
          Listener{"http_", settings.http_port, settings.http_bind}};
}
// Whether other machines can connect to it.
bool IsWide(const Listener& listener) {
  const bool loopback =
      listener.bind == "127.0.0.1" || listener.bind == "::1" || listener.bind == "localhost";
  return listener.port != 0 && !loopback;
}

}  // namespace

Config DefaultConfig() {
  Config config;
  // Values that arrive by socket live in RAM: as much as a host tier takes by default, a quarter of
  // the available memory, at most 64 GiB.
  config.cache.capacity = DefaultHostCapacity();
  config.cache.ttl.reset();  // As in a host tier: entries do not expire by being idle.
  return config;
}

Result<Config> LoadConfig(const std::string& toml_text, std::string_view file, const Config& base) {
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& error) {
    const std::uint32_t line = error.source().begin.line;
    return Bad(
        fmt::format("{}:{}: {}{}", file, line, error.description(), QuotesHint(toml_text, line)));
  }
  Config config = base;
  if (const toml::node* const server = table.get("server"); server != nullptr) {
    const toml::table* const rows = server->as_table();
    if (rows == nullptr) return At(file, *server, "server: it must be a table, [server]");
    if (Status ok = ReadServer(*rows, file, &config.server); !ok) return ok.error();
  }
  Result<Options> cache = LoadOptions(toml_text, file, base.cache, false, "server");
  if (!cache) return cache.error();
  config.cache = std::move(*cache);
  if (Status ok = CheckSettings(config.server); !ok) {
    return Bad(fmt::format("{}: {}", file, ok.error().message));
  }
  return config;
}

Status CheckSettings(const Settings& settings) {
  for (const Listener& listener : ListenersOf(settings)) {
    if (listener.port > kPortMax) {
      return Bad(fmt::format("server.{}port: {} is not a port; it must be 0 to {}", listener.name,
                             listener.port, kPortMax));
    }
    if (IsWide(listener) && settings.password.empty() && !settings.open_to_all) {
      return Bad(fmt::format(
          "server.{}bind: {} can be reached from other machines, and there is no password: set "
          "server.password_file, or bind to 127.0.0.1 (server.open_to_all = true if it is meant)",
          listener.name, listener.bind));
    }
  }
  if (settings.bulk_max < kMiB) {
    return Bad("server.bulk_max: it must be at least 1MiB");
  }
  if (settings.clients_max == 0) return Bad("server.clients_max: it must be at least 1");
  if (settings.io_threads > 256) return Bad("server.io_threads: it must be 0 to 256");
  return {};
}

Status CheckChange(const Settings& before, const Settings& after) {
  if (!before.password.empty() && after.password.empty()) {
    for (const Listener& listener : ListenersOf(after)) {
      if (!IsWide(listener)) continue;
      return Bad(fmt::format(
          "server.{}bind: {} can be reached from other machines, and the password would be "
          "removed: "
          "change server.password to another, or restart the daemon without one (with bind = "
          "\"127.0.0.1\", or open_to_all = true if it is meant)",
          listener.name, listener.bind));
    }
  }
  return CheckSettings(after);
}

std::string_view PasswordChange(const Settings& before, const Settings& after) {
  if (before.password == after.password) return "";
  if (after.password.empty()) return "removed";
  return before.password.empty() ? "set" : "changed";
}

Result<Reloaded> Reload(const Config& running, const Config& read, Settings* live) {
  Reloaded reloaded;
  Settings after = *live;
  for (const SettingRow& row : SettingRows()) {
    std::string name = fmt::format("server.{}", row.name);
    const std::string text = row.print(read.server);
    if (!row.live) {
      if (text != row.print(running.server)) reloaded.kept.push_back(std::move(name));
    } else if (text != row.print(after)) {
      if (Status ok = row.read(text, &after); !ok) return ok.error();
      reloaded.changed.push_back(std::move(name));
    }
  }
  for (const Setting& setting : spillway::Settings()) {
    if (setting.print(running.cache) != setting.print(read.cache)) {
      reloaded.kept.emplace_back(setting.name);
    }
  }
  // The daemon still listens on the addresses it was started with, whatever the file says by now,
  // so the check uses those.
  if (Status ok = CheckSettings(after); !ok) return ok.error();
  *live = std::move(after);
  return reloaded;
}

std::string DaemonSettingsPage() {
  std::string page =
      "# Settings of the daemon\n\n"
      "The table `[server]` of the file that `spillwayd --config` names. Everything else in it is "
      "the cache's own: [settings.md](settings.md). *Live*: `CONFIG SET` changes it, and SIGHUP "
      "reads it again. `CONFIG GET` knows each by its Redis name, too.\n\n"
      "| name | Redis calls it | is | default | live | meaning |\n|---|---|---|---|---|---|\n";
  const Settings defaults;
  for (const SettingRow& row : SettingRows()) {
    page += fmt::format(
        "| `{}` | {} | {} | {} | {} | {} |\n", row.name,
        row.redis.empty() ? "-" : fmt::format("`{}`", row.redis), row.kind,
        row.print(defaults).empty() ? "empty" : fmt::format("`{}`", row.print(defaults)),
        row.live ? "yes" : "no", row.meaning);
  }
  page +=
      "| `password_file` | - | a path | empty | yes | File whose first line is the password; "
      "only the daemon needs to be able to read it. |\n";
  return page;
}

}  // namespace spillway::server
