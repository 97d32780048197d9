// SPDX-License-Identifier: Apache-2.0
#include "server/lmcache_key.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace spillway::server {

namespace {
constexpr std::string_view kMetadata = "metadata";
constexpr std::string_view kBytes = "kv_bytes";
constexpr std::size_t kMetadataBytes = 7 * 4;
constexpr std::int32_t kTwoLayersTokensHidden =
    1;  // Its format KV_2LTD: [2, layers, tokens, hidden].
constexpr Tokens kTokensOfOneChunkMax = 1'000'000;

bool IsHex(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

// The key without the suffix of a pair. A colon that some clients write before it stays.
std::string_view Stem(std::string_view key) {
  for (const std::string_view suffix : {kMetadata, kBytes}) {
    if (key.ends_with(suffix)) return key.substr(0, key.size() - suffix.size());
  }
  return key;
}
}  // namespace

bool IsLmcacheKey(std::string_view key) {
  std::string_view rest = Stem(key);
  const bool paired = rest.size() < key.size();
  std::array<std::string_view, 4> field;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const std::size_t at = rest.find('@');
    if (at == std::string_view::npos && i + 1 < field.size()) return false;
    field[i] = rest.substr(0, at);
    rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  }
  if (paired && rest.empty() && field[3].ends_with(':')) field[3].remove_suffix(1);
  return !field[0].empty() && IsHex(field[1]) && IsHex(field[2]) && IsHex(field[3]);
}

bool IsMetadata(std::string_view key) { return key.ends_with(kMetadata) && IsLmcacheKey(key); }

std::string PairOf(std::string_view key) {
  const std::string_view stem = Stem(key);
  if (stem.size() == key.size() || !IsLmcacheKey(key)) return {};
  std::string other(stem);
  other += key.ends_with(kMetadata) ? kBytes : kMetadata;
  return other;
}

std::optional<Tokens> TokensIn(std::string_view metadata) {
  if (metadata.size() < kMetadataBytes) return std::nullopt;
  std::array<std::int32_t, 7> words{};
  std::memcpy(words.data(), metadata.data(), kMetadataBytes);
  // Dims of [2, layers, tokens, hidden]; other formats put tokens elsewhere.
  const bool known = words[1] == kTwoLayersTokensHidden || words[3] == 2;
  if (!known || words[5] <= 0 || words[5] > kTokensOfOneChunkMax) return std::nullopt;
  return words[5];
}

}  // namespace spillway::server
