// SPDX-License-Identifier: Apache-2.0
#include "wire/glob.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace spillway::wire {

namespace {

// A pattern that takes more steps for one key matches nothing. Patterns and keys written by people
// take a few hundred.
constexpr std::size_t kStepsMax = 1 << 18;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);

unsigned char Lower(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u >= 'A' && u <= 'Z' ? static_cast<unsigned char>(u + 32) : u;
}

template <bool AnyCase>
unsigned char Fold(char c) {
  return AnyCase ? Lower(c) : static_cast<unsigned char>(c);
}

// Whether the class [...] after `at` (the bracket) contains `c`; `at` moves past it. A class that
// is not closed ends with the pattern.
template <bool AnyCase>
bool ClassHas(std::string_view pattern, std::size_t* at, char c) {
  std::size_t p = *at + 1;
  const bool negated = p < pattern.size() && pattern[p] == '^';
  if (negated) ++p;
  const unsigned char wanted = Fold<AnyCase>(c);
  bool has = false;
  for (;;) {
    if (p + 1 < pattern.size() && pattern[p] == '\\') {
      ++p;
      has = has || Fold<AnyCase>(pattern[p]) == wanted;
    } else if (p < pattern.size() && pattern[p] == ']') {
      ++p;
      break;
    } else if (p >= pattern.size()) {
      break;
    } else if (p + 2 < pattern.size() && pattern[p + 1] == '-') {
      unsigned char from = Fold<AnyCase>(pattern[p]);
      unsigned char to = Fold<AnyCase>(pattern[p + 2]);
      if (from > to) std::swap(from, to);
      p += 2;
      has = has || (wanted >= from && wanted <= to);
    } else {
      has = has || Fold<AnyCase>(pattern[p]) == wanted;
    }
    ++p;
  }
  *at = p;
  return has != negated;
}

// Whether the pattern's next element accepts `c`; `at` moves past the element.
template <bool AnyCase>
bool Takes(std::string_view pattern, std::size_t* at, char c) {
  if (pattern[*at] == '?') {
    ++*at;
    return true;
  }
  if (pattern[*at] == '[') return ClassHas<AnyCase>(pattern, at, c);
  if (pattern[*at] == '\\' && *at + 1 < pattern.size()) ++*at;
  return Fold<AnyCase>(pattern[(*at)++]) == Fold<AnyCase>(c);
}

// The number of elements up to the pattern's end. kNone: there is another star. Every element
// except a star accepts exactly one character.
template <bool AnyCase>
std::size_t ElementsToTheEnd(std::string_view pattern, std::size_t p) {
  std::size_t elements = 0;
  while (p < pattern.size() && pattern[p] != '*') {
    Takes<AnyCase>(pattern, &p, '\0');
    ++elements;
  }
  return p < pattern.size() ? kNone : elements;
}

// The next position in `text`, from `t` on, where the element at `p` may match.
template <bool AnyCase>
std::size_t NextPlace(std::string_view pattern, std::size_t p, std::string_view text,
                      std::size_t t) {
  constexpr std::string_view kNotItself = "*?[\\";
  if (AnyCase || t >= text.size() || kNotItself.find(pattern[p]) != kNotItself.npos) return t;
  return std::min(text.find(pattern[p], t), text.size());
}

// After a mismatch only the last star has to accept one more character: whatever an earlier star
// could accept instead, the last one can accept as well. The part after the pattern's last star can
// only match the end of the text.
template <bool AnyCase>
bool Matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = kNone;
  std::size_t star_took = 0;
  std::size_t steps = 0;
  while (t < text.size()) {
    if (++steps > kStepsMax) return false;
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      const std::size_t last = ElementsToTheEnd<AnyCase>(pattern, p);
      steps += last == kNone ? 0 : last;
      if (last != kNone && last > text.size() - t) return false;
      t = last != kNone ? text.size() - last : NextPlace<AnyCase>(pattern, p, text, t);
      star_took = t;
      continue;
    }
    if (p < pattern.size()) {
      std::size_t next = p;
      const bool takes = Takes<AnyCase>(pattern, &next, text[t]);
      steps += next - p;
      if (takes) {
        p = next;
        ++t;
        continue;
      }
    }
    if (star == kNone) return false;
    p = star;
    t = star_took = NextPlace<AnyCase>(pattern, p, text, star_took + 1);
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  return Matches<false>(pattern, text);
}

bool GlobMatchesAnyCase(std::string_view pattern, std::string_view text) {
  return Matches<true>(pattern, text);
}

}  // namespace spillway::wire
