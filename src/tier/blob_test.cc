// SPDX-License-Identifier: Apache-2.0
#include "tier/blob.h"

#include <utility>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "tier/hash_wide.h"

namespace spillway {
namespace {

std::vector<std::byte> Some(Bytes bytes) {
  std::vector<std::byte> value(bytes);
  for (Bytes i = 0; i < bytes; ++i) value[i] = static_cast<std::byte>(i * 31 + i / 4096);
  return value;
}

// Wide registers give the same hashes as plain code, whichever the processor has.
TEST(Hash128, IsTheSameByWideRegisters) {
  std::vector<unsigned char> bytes(3 * kMiB + 5);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(i * 31 + i / 977);
  }
  for (const std::size_t size :
       {std::size_t{4096}, std::size_t{4097}, kMiB - 1, kMiB + 0, bytes.size() - 3}) {
    for (const std::size_t at : {0U, 1U, 3U}) {
      const XXH128_hash_t plain = XXH3_128bits(bytes.data() + at, size);
      EXPECT_EQ(Hash128Of(bytes.data() + at, size), (Hash128{plain.low64, plain.high64}));
#if defined(__x86_64__)
      for (const auto& [has, wide] :
           {std::pair{__builtin_cpu_supports("avx2") != 0, &Hash128Avx2},
            std::pair{__builtin_cpu_supports("avx512f") != 0, &Hash128Avx512}}) {
        Hash128 hash;
        if (!has) continue;
        wide(bytes.data() + at, size, &hash.low, &hash.high);
        EXPECT_EQ(hash, (Hash128{plain.low64, plain.high64}));
      }
#endif
    }
  }
}

TEST(Seal, HasOneChecksumForEachBegunMebibyte) {
  EXPECT_EQ(Seal::PiecesIn(0), 0U);
  EXPECT_EQ(Seal::PiecesIn(1), 1U);
  EXPECT_EQ(Seal::PiecesIn(kMiB), 1U);
  EXPECT_EQ(Seal::PiecesIn(kMiB + 1), 2U);
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, kMiB, kMiB + 1, 3 * kMiB}) {
    const auto value = Some(bytes);
    EXPECT_EQ(Seal::Of(Source(value.data(), bytes)).pieces().size(), Seal::PiecesIn(bytes));
  }
}

TEST(Seal, DoesNotDependOnHowAValueIsCutUp) {
  const auto value = Some(2 * kMiB + 12'345);
  const Seal whole = Seal::Of(Source(value.data(), value.size()));
  for (const Bytes step : {Bytes{1000}, Bytes{4096}, kMiB - 1, kMiB, kMiB + 1}) {
    std::vector<Fragment> fragments{{value.data(), 0, Place::kHost}};
    for (Bytes at = 0; at < value.size(); at += step) {
      fragments.push_back({value.data() + at, std::min(step, value.size() - at), Place::kHost});
    }
    EXPECT_EQ(Seal::Of(Source(fragments)), whole) << "pieces of " << step;
  }
}

TEST(Seal, NamesTheFirstDamagedPiece) {
  auto value = Some(3 * kMiB + 5);
  const Seal seal = Seal::Of(Source(value.data(), value.size()));
  EXPECT_EQ(seal.FirstDamaged(value.data(), value.size()), std::nullopt);
  EXPECT_EQ(seal.FirstDamaged(value.data(), value.size() - 5), 0U) << "another length";
  for (const Bytes at : {Bytes{0}, kMiB - 1, kMiB, 3 * kMiB + 4}) {
    value[at] ^= std::byte{4};
    EXPECT_EQ(seal.FirstDamaged(value.data(), value.size()), at / kMiB);
    value[at] ^= std::byte{4};
  }
}

TEST(Hash128, IsXxh3) {
  // The output of `xxhsum -H2` for empty input:
  // 99aa06d3014798d86001c324468d497f.
  EXPECT_EQ(Hash128Of("", 0), (Hash128{0x6001c324468d497fULL, 0x99aa06d3014798d8ULL}));
}

}  // namespace
}  // namespace spillway
