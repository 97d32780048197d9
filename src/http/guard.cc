// SPDX-License-Identifier: Apache-2.0
#include "http/guard.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace spillway::http {

namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool IsPort(std::string_view text) {
  return text.size() <= 5 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Takes a time that depends only on the length of `given`.
bool Same(std::string_view given, std::string_view password) {
  unsigned differ = given.size() == password.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = password.empty() ? '\0' : password[i % password.size()];
    differ |= static_cast<unsigned>(static_cast<unsigned char>(given[i] ^ other));
  }
  return differ == 0;
}

std::optional<std::string> FromBase64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0;
  int have = 0;
  for (const char c : text) {
    unsigned value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<unsigned>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<unsigned>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<unsigned>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      return std::nullopt;
    }
    bits = (bits << 6U) | value;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    bytes += static_cast<char>((bits >> static_cast<unsigned>(have)) & 0xffU);
  }
  return bytes;
}

}  // namespace

std::string HostNameOf(std::string_view host) {
  if (host.empty()) return {};
  std::size_t end = host.find(':');
  if (host.front() == '[') {
    const std::size_t closed = host.find(']');
    if (closed == std::string_view::npos) return {};
    end = closed + 1;
  }
  const std::string_view rest = host.substr(std::min(end, host.size()));
  if (!rest.empty() && (rest.front() != ':' || !IsPort(rest.substr(1)))) return {};
  return Lower(host.substr(0, end));
}

bool IsKnownHost(std::string_view host, std::span<const std::string> more) {
  const std::string name = HostNameOf(host);
  if (name.empty()) return false;
  if (name == "localhost" || name == "127.0.0.1" || name == "[::1]") return true;
  return std::ranges::any_of(more, [&](const std::string& each) { return Lower(each) == name; });
}

bool IsOwnOrigin(std::string_view origin, std::string_view host) {
  if (origin.empty()) return true;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return Lower(origin.substr(scheme.size())) == Lower(host);
  }
  return false;
}

bool IsAuthorized(std::string_view authorization, std::string_view password) {
  const std::size_t space = authorization.find(' ');
  if (space == std::string_view::npos) return false;
  const std::string scheme = Lower(authorization.substr(0, space));
  const std::size_t begin = authorization.find_first_not_of(' ', space);
  if (begin == std::string_view::npos) return false;
  const std::string_view word = authorization.substr(begin);
  if (scheme == "bearer") return Same(word, password);
  if (scheme != "basic") return false;
  const std::optional<std::string> pair = FromBase64(word);
  if (!pair) return false;
  const std::size_t colon = pair->find(':');
  return colon != std::string::npos && Same(std::string_view(*pair).substr(colon + 1), password);
}

}  // namespace spillway::http
