// SPDX-License-Identifier: Apache-2.0
#include "base/toml_hint.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"

namespace spillway {
namespace {

std::string_view WithoutSpace(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string QuotesHint(std::string_view toml_text, std::uint32_t line) {
  for (std::uint32_t at = 1; at < line; ++at) {
    const std::size_t end = toml_text.find('\n');
    if (end == std::string_view::npos) return {};
    toml_text.remove_prefix(end + 1);
  }
  std::string_view text = toml_text.substr(0, toml_text.find('\n'));
  text = text.substr(0, text.find('#'));
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {};
  const std::string_view name = WithoutSpace(text.substr(0, equals));
  const std::string_view value = WithoutSpace(text.substr(equals + 1));
  const bool is_bare = !value.empty() && value.front() != '"' && value.front() != '\'';
  if (name.empty() || !is_bare || (!ParseBytes(value) && !ParseDuration(value))) return {};
  return fmt::format("; write it in quotes: {} = \"{}\"", Printable(name), Printable(value));
}

}  // namespace spillway
