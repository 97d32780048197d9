// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_address.h"

#include <charconv>
#include <cstdlib>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/errors.h"
#include "base/printable.h"
#include "base/small_file.h"
#include "server/db_key.h"

namespace spillway {

namespace {

using Way = DaemonAddress::Way;

constexpr std::string_view kRight =
    "redis://HOST:PORT, unix:///PATH or http://HOST:PORT would be right, with a password as in "
    "redis://:PASSWORD@HOST, percent-encoded";

std::uint16_t DefaultPort(Way way) { return way == Way::kHttp ? 7380 : 7379; }

// The URL for a message. If it contains an @, part of it may be a password, so it is not shown.
std::string Shown(std::string_view url) {
  return url.find('@') == url.npos ? fmt::format("'{}'", Printable(url))
                                   : std::string("what was given");
}

Error NoUrl(std::string_view url) {
  return Bad(fmt::format("{} is no address of a spillwayd: {}", Shown(url), kRight));
}

int Nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Decodes percent-encoding. Empty: a % without two digits.
std::optional<std::string> Decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = Nibble(text[i + 1]);
    const int low = Nibble(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

template <typename Number>
bool ReadWhole(std::string_view text, Number* number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return !text.empty() && error == std::errc() && stop == text.data() + text.size();
}

Status ReadPort(std::string_view text, std::uint16_t* port) {
  if (ReadWhole(text, port) && *port != 0) return {};
  return Bad(fmt::format("'{}' is not a port; it must be 1 to 65535", Printable(text)));
}

// "host", "host:7379", "[::1]:7379"
Status ReadHost(std::string_view text, std::string_view url, DaemonAddress* address) {
  std::size_t end = text.find(':');
  if (text.starts_with('[')) {
    const std::size_t closed = text.find(']');
    if (closed == text.npos) return NoUrl(url);
    address->host = text.substr(1, closed - 1);
    end = closed + 1 < text.size() ? closed + 1 : text.npos;
    if (end != text.npos && text[end] != ':') return NoUrl(url);
  } else {
    address->host = text.substr(0, end);
  }
  if (address->host.empty()) return NoUrl(url);
  if (end == text.npos) return {};
  // A password with unencoded characters may have been parsed as a port.
  if (Status ok = ReadPort(text.substr(end + 1), &address->port); !ok) {
    return url.find('@') == url.npos ? ok : Status(NoUrl(url));
  }
  return {};
}

Status ReadDatabase(std::string_view path, std::string_view url, DaemonAddress* address) {
  while (path.starts_with('/')) path.remove_prefix(1);
  if (path.empty() || address->way == Way::kHttp) return {};
  int database = 0;
  if (!ReadWhole(path, &database)) return NoUrl(url);
  if (database < 0 || database >= server::kDatabases) {
    return Bad(
        fmt::format("{} is no database; they are 0 to {}", database, server::kDatabases - 1));
  }
  address->database = database;
  return {};
}

// The first line of a file, without its line end.
Result<std::string> PasswordIn(const std::string& path) {
  const Result<std::optional<std::string>> text = ReadSmallFile(path);
  if (!text) return text.error();
  if (!*text) return Bad(path + ": there is no such file");
  std::string line = (*text)->substr(0, (*text)->find_first_of("\r\n"));
  if (line.empty()) return Bad(path + ": its first line is empty, and should be the password");
  return line;
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Adds to an error where the text came from.
template <typename T>
Result<T> From(std::string_view where, Result<T> result) {
  if (result) return result;
  return Error{result.error().code, fmt::format("{}: {}", where, result.error().message)};
}

}  // namespace

std::string DaemonAddress::Text() const {
  if (way == Way::kUnix) return socket;
  const bool v6 = host.find(':') != host.npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<DaemonAddress> ParseDaemonUrl(std::string_view url) {
  DaemonAddress address;
  address.way = Way::kHttp;
  std::string_view rest = url;
  if (const std::size_t colon = url.find("://"); colon != url.npos) {
    const std::string_view scheme = url.substr(0, colon);
    if (scheme == "redis" || scheme == "spillway") {
      address.way = Way::kRedis;
    } else if (scheme == "unix") {
      address.way = Way::kUnix;
    } else if (scheme != "http") {
      return NoUrl(url);
    }
    rest.remove_prefix(colon + 3);
  }
  address.port = DefaultPort(address.way);
  const std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view path = rest.substr(authority.size());
  std::string_view host = authority;
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    const std::string_view user = authority.substr(0, at);
    host.remove_prefix(at + 1);
    if (const std::size_t colon = user.find(':'); colon != user.npos) {
      const std::optional<std::string> password = Decoded(user.substr(colon + 1));
      if (!password) return NoUrl(url);
      address.password = *password;
    }
  }
  if (rest.find_first_of("?#") != rest.npos) return NoUrl(url);
  if (address.way == Way::kUnix) {
    const std::optional<std::string> socket = Decoded(path);
    if (!host.empty() || !socket || socket->size() < 2) return NoUrl(url);
    address.socket = *socket;
    return address;
  }
  if (Status ok = ReadHost(host, url, &address); !ok) return ok.error();
  if (Status ok = ReadDatabase(path, url, &address); !ok) return ok.error();
  return address;
}

Error PasswordNeeded(const DaemonAddress& address) {
  if (!address.password_from.empty()) {
    return {Code::kUnavailable,
            fmt::format("the spillwayd at {} asks for a password, and it is not that of {}",
                        address.Text(), address.password_from)};
  }
  return {Code::kUnavailable,
          fmt::format("the spillwayd at {} asks for a password: set $SPILLWAY_PASSWORD, or "
                      "name a file whose first line it is by --password-file",
                      address.Text())};
}

void DaemonOptions::AddTo(CLI::App* app, Way way) {
  way_ = way;
  app->add_option("--url", url,
                  fmt::format("The daemon: redis://HOST:PORT, unix:///PATH or http://HOST:PORT "
                              "[$SPILLWAY_URL, {}://127.0.0.1:{}]",
                              way == Way::kHttp ? "http" : "redis", DefaultPort(way)));
  app->add_option("--password-file", password_file,
                  "File whose first line is the password [the URL's, $SPILLWAY_PASSWORD]");
}

void DaemonOptions::AddOldNames(CLI::App* app) {
  CLI::Option* const by_url = app->get_option("--url");
  CLI::Option* const by_socket =
      app->add_option("--socket", socket, "The same as --url unix://PATH");
  by_socket->excludes(by_url);
  app->add_option("--host", host, "With --port: the same as --url redis://HOST:PORT")
      ->excludes(by_url)
      ->excludes(by_socket);
  app->add_option("--port", port, "With --host: the same as --url redis://HOST:PORT")
      ->excludes(by_url)
      ->excludes(by_socket);
}

Result<DaemonAddress> DaemonOptions::Read() const {
  DaemonAddress address;
  address.way = way_;
  address.port = DefaultPort(way_);
  const std::string environment = Environment("SPILLWAY_URL");
  std::string_view where = "--url";
  if (!socket.empty()) {
    address.way = Way::kUnix;
    address.socket = socket;
    address.named = true;
  } else if (!host.empty() || !port.empty()) {
    if (!host.empty()) address.host = host;
    address.named = true;
    if (Status ok = port.empty() ? Status() : ReadPort(port, &address.port); !ok) {
      return Bad("--port: " + ok.error().message);
    }
  } else if (!url.empty() || !environment.empty()) {
    where = url.empty() ? "$SPILLWAY_URL" : "--url";
    Result<DaemonAddress> parsed = From(where, ParseDaemonUrl(url.empty() ? environment : url));
    if (!parsed) return parsed;
    address = std::move(*parsed);
    address.named = true;
  }
  if (!address.password.empty()) address.password_from = where;
  if (!password_file.empty()) {
    Result<std::string> read = From("--password-file", PasswordIn(password_file));
    if (!read) return read.error();
    address.password = std::move(*read);
    address.password_from = "--password-file";
  } else if (address.password.empty()) {
    address.password = Environment("SPILLWAY_PASSWORD");
    if (!address.password.empty()) address.password_from = "$SPILLWAY_PASSWORD";
  }
  return address;
}

}  // namespace spillway
