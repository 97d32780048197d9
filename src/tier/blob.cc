// SPDX-License-Identifier: Apache-2.0
#include "tier/blob.h"

#include <algorithm>

#include "base/hash.h"
#include "tier/hash_wide.h"

namespace spillway {

namespace {

Hash128Into* Widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &Hash128Avx512;
  if (__builtin_cpu_supports("avx2")) return &Hash128Avx2;
#endif
  return nullptr;
}

}  // namespace

Hash128 Hash128Of(const void* data, Bytes bytes) {
  static Hash128Into* const kWidest = Widest();
  if (kWidest != nullptr && bytes >= 4 * kKiB) {
    Hash128 wide;
    kWidest(data, bytes, &wide.low, &wide.high);
    return wide;
  }
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.low64, hash.high64};
}

Seal Seal::Of(const Source& source) {
  const Bytes total = source.bytes();
  std::vector<Hash128> pieces;
  pieces.reserve(PiecesIn(total));
  XXH3_state_t state;
  Bytes in_piece = 0;
  const auto end_piece = [&] {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    pieces.push_back({hash.low64, hash.high64});
    in_piece = 0;
  };
  for (const Fragment& fragment : source.fragments()) {
    const auto* data = static_cast<const std::byte*>(fragment.data);
    Bytes left = fragment.bytes;
    while (left > 0) {
      const Bytes take = std::min(left, kPieceBytes - in_piece);
      if (in_piece == 0 && (take == kPieceBytes || take == total - pieces.size() * kPieceBytes)) {
        // A whole contiguous piece needs no streaming state.
        pieces.push_back(Hash128Of(data, take));
      } else {
        if (in_piece == 0) XXH3_128bits_reset(&state);
        XXH3_128bits_update(&state, data, take);
        in_piece += take;
        if (in_piece == kPieceBytes) end_piece();
      }
      data += take;
      left -= take;
    }
  }
  if (in_piece > 0) end_piece();
  return Seal(std::move(pieces));
}

std::optional<std::size_t> Seal::FirstDamaged(const std::byte* data, Bytes bytes) const {
  if (PiecesIn(bytes) != pieces_.size()) return 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Bytes at = i * kPieceBytes;
    if (Hash128Of(data + at, std::min(kPieceBytes, bytes - at)) != pieces_[i]) return i;
  }
  return std::nullopt;
}

}  // namespace spillway
