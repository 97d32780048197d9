// SPDX-License-Identifier: Apache-2.0
#include "http/target.h"

#include <algorithm>
#include <utility>

namespace spillway::http {

namespace {

int Nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Decode(std::string_view text, bool in_query) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && in_query) {
      decoded += ' ';
      continue;
    }
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = Nibble(text[i + 1]);
    const int low = Nibble(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace

std::optional<Target> Target::Parse(std::string_view text) {
  if (text.empty() || text.front() != '/') return std::nullopt;
  text = text.substr(0, text.find('#'));
  const std::size_t mark = text.find('?');
  auto path = Decode(text.substr(0, mark), false);
  if (!path || path->find('\0') != std::string::npos) return std::nullopt;
  Target target{std::move(*path), {}};
  if (mark == std::string_view::npos) return target;
  std::string_view rest = text.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = Decode(pair.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::optional<std::string>("")
                                                  : Decode(pair.substr(equals + 1), true);
    if (!name || !value) return std::nullopt;
    target.query.emplace(std::move(*name), std::move(*value));
  }
  return target;
}

std::string_view Target::Get(const std::string& name, std::string_view otherwise) const {
  const auto found = query.find(name);
  return found == query.end() ? otherwise : std::string_view(found->second);
}

}  // namespace spillway::http
