// The daemon's file: [server] is ours, the rest is the cache's.
#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/small_file.h"
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
  return At(file, node,
            fmt::format("server.{}: no such setting{}", Printable(name), DidYouMean(name, names)));
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

}  // namespace

Config DefaultConfig() {
  Config config;
  // A socket's bytes live in RAM. As much as a host tier would take: a quarter of
  // what is available, at most 64 GiB.
  config.cache.capacity = DefaultHostCapacity();
  config.cache.ttl.reset();  // As in a host tier: nothing leaves for being idle.
  return config;
}

Result<Config> LoadConfig(const std::string& toml_text, std::string_view file, const Config& base) {
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& error) {
    return Bad(fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()));
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
  struct Door {
    std::string_view name;
    std::uint64_t port;
    const std::string& bind;
  };
  for (const Door& door : {Door{"", settings.port, settings.bind},
                           Door{"http_", settings.http_port, settings.http_bind}}) {
    const bool loopback =
        door.bind == "127.0.0.1" || door.bind == "::1" || door.bind == "localhost";
    if (door.port > 65535) {
      return Bad(
          fmt::format("server.{}port: {} is no port; it must be 0 to 65535", door.name, door.port));
    }
    if (door.port != 0 && !loopback && settings.password.empty() && !settings.open_to_all) {
      return Bad(fmt::format(
          "server.{}bind: {} can be reached from other machines, and there is no password: set "
          "server.password_file, or bind to 127.0.0.1 (server.open_to_all = true if it is meant)",
          door.name, door.bind));
    }
  }
  if (settings.bulk_max < kMiB) {
    return Bad("server.bulk_max: it must be at least 1MiB");
  }
  if (settings.clients_max == 0) return Bad("server.clients_max: it must be at least 1");
  if (settings.io_threads > 256) return Bad("server.io_threads: it must be 0 to 256");
  return {};
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
      "nobody but the daemon need be able to read it. |\n";
  return page;
}

}  // namespace spillway::server
