#include "demo/content.h"

#include <xxhash.h>

#include <array>
#include <cstring>

namespace spillway::demo {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

// splitmix64's output function over a counter: word i is known without the
// words before it, and the loop below runs at several GB/s.
std::uint64_t WordAt(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9e37'79b9'7f4a'7c15U;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9U;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebU;
  return z ^ (z >> 31);
}

std::uint64_t CountWrongInWord(std::uint64_t expected, const std::byte* at, std::size_t bytes) {
  std::array<std::byte, kWord> right;
  std::memcpy(right.data(), &expected, kWord);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < bytes; ++i) wrong += right[i] != at[i] ? 1U : 0U;
  return wrong;
}

}  // namespace

std::uint64_t SeedOf(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

void FillContent(std::uint64_t seed, std::span<std::byte> out) {
  const std::size_t words = out.size() / kWord;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = WordAt(seed, i);
    std::memcpy(out.data() + i * kWord, &word, kWord);
  }
  const std::uint64_t last = WordAt(seed, words);
  if (const std::size_t rest = out.size() % kWord; rest > 0) {
    std::memcpy(out.data() + words * kWord, &last, rest);
  }
}

std::uint64_t CountWrongBytes(std::uint64_t seed, std::span<const std::byte> in) {
  const std::size_t words = in.size() / kWord;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, in.data() + i * kWord, kWord);
    const std::uint64_t expected = WordAt(seed, i);
    if (word != expected) [[unlikely]] {
      wrong += CountWrongInWord(expected, in.data() + i * kWord, kWord);
    }
  }
  return wrong +
         CountWrongInWord(WordAt(seed, words), in.data() + words * kWord, in.size() % kWord);
}

}  // namespace spillway::demo
