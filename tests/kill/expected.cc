// SPDX-License-Identifier: Apache-2.0
#include "kill/expected.h"

#include <sys/mman.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

namespace spillway::kill {

namespace {

constexpr std::size_t kCountsBytes = 4096;
static_assert(sizeof(Counts) <= kCountsBytes);

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t SeedOf(std::size_t key, std::uint32_t version) {
  return Mix(Mix(key) ^ (std::uint64_t{version} << 32));
}

}  // namespace

Expected::Expected(std::size_t keys) : keys_(keys), bytes_(kCountsBytes + keys * sizeof(KeyState)) {
  // Shared and anonymous: a file without a name.
  map_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map_ == MAP_FAILED) throw std::runtime_error("no memory for the expected state");
  counts_ = new (map_) Counts();
  states_ = reinterpret_cast<KeyState*>(static_cast<std::byte*>(map_) + kCountsBytes);
  for (std::size_t i = 0; i < keys; ++i) new (&states_[i]) KeyState();
}

Expected::~Expected() { ::munmap(map_, bytes_); }

void Expected::Forget() {
  for (std::size_t i = 0; i < keys_; ++i) {
    KeyState& state = states_[i];
    for (auto* each : {&state.firm, &state.pending, &state.is_pending, &state.on_disk}) *each = 0;
  }
}

std::string NameOf(std::size_t key) {
  // Every third name is too long for the slot.
  return key % 3 == 0 ? fmt::format("key:of:some:length:{}", key) : fmt::format("k:{}", key);
}

std::size_t KeyOf(std::string_view name) {
  std::size_t key = ~std::size_t{0};
  const std::string_view digits = name.substr(name.rfind(':') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), key);
  return key;
}

std::size_t SizeOf(std::size_t key, std::uint32_t version) {
  constexpr double kMost = 21;  // 2^21 bytes.
  const double share = static_cast<double>(SeedOf(key, version) >> 11) * 0x1.0p-53;
  return static_cast<std::size_t>(std::exp2(share * kMost));
}

void FillValue(std::size_t key, std::uint32_t version, std::string* value) {
  value->resize(SizeOf(key, version));
  std::uint64_t state = SeedOf(key, version) | 1;
  for (std::size_t at = 0; at < value->size(); at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(value->data() + at, &state, std::min(sizeof state, value->size() - at));
  }
}

bool IsValue(std::size_t key, std::uint32_t version, const void* data, std::size_t bytes) {
  static thread_local std::string right;
  FillValue(key, version, &right);
  return right.size() == bytes && std::memcmp(right.data(), data, bytes) == 0;
}

}  // namespace spillway::kill
