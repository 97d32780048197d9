// SPDX-License-Identifier: Apache-2.0
#include "stress/value.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace spillway::stress {

namespace {

constexpr std::size_t kHeaderBytes = 24;  // Key, count, size.

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Word `i` after the header. Multiplied, so that words at a wrong place look wrong.
std::uint64_t WordAt(std::uint64_t seed, std::uint64_t i) {
  return (seed + i) * 0x9e3779b97f4a7c15ULL;
}

}  // namespace

std::uint64_t Random::Next() { return Mix(state_++); }

void FillValue(std::uint64_t key, std::uint64_t count, std::size_t size,
               std::vector<std::byte>* value) {
  value->resize(size);
  std::byte* out = value->data();
  std::size_t at = 0;
  if (size >= kHeaderBytes) {
    const std::array<std::uint64_t, 3> header = {key, count, size};
    std::memcpy(out, header.data(), kHeaderBytes);
    at = kHeaderBytes;
  } else {
    count = 0;
  }
  const std::uint64_t seed = Mix(key ^ Mix(count));
  for (std::uint64_t i = 0; at < size; ++i, at += sizeof i) {
    const std::uint64_t word = WordAt(seed, i);
    std::memcpy(out + at, &word, std::min(sizeof word, size - at));
  }
}

Checked CheckValue(std::uint64_t key, const std::byte* data, std::size_t size) {
  Checked checked;
  std::uint64_t count = 0;
  std::size_t at = 0;
  if (size >= kHeaderBytes) {
    std::array<std::uint64_t, 3> header{};
    std::memcpy(header.data(), data, kHeaderBytes);
    if (header[0] != key || header[2] != size) return checked;
    count = header[1];
    checked.count = count;
    at = kHeaderBytes;
  }
  const std::uint64_t seed = Mix(key ^ Mix(count));
  for (std::uint64_t i = 0; at < size; ++i, at += sizeof i) {
    const std::uint64_t word = WordAt(seed, i);
    if (std::memcmp(data + at, &word, std::min(sizeof word, size - at)) != 0) return checked;
  }
  checked.whole = true;
  return checked;
}

std::size_t DrawSize(Random* random) {
  switch (random->Below(16)) {
    case 0:
      return random->Below(kHeaderBytes + 1);
    case 1:
      return 4095 + random->Below(3);
    case 2:
      return 4096 + random->Below(12'000);
    case 3:
      return random->OneIn(8) ? 30'000 + random->Below(100'000) : random->Below(4096);
    case 4:
    case 5:
    case 6:
      return 1024 + random->Below(2048);
    default:
      return kHeaderBytes + random->Below(600);
  }
}

}  // namespace spillway::stress
