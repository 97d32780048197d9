// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/journal_format.h"

#include <random>

#include <gtest/gtest.h>

#include "base/testing/guarded_bytes.h"
#include "base/testing/seed.h"
#include "tier/disk/blob_header.h"
#include "tier/disk/codec.h"

namespace spillway {
namespace {

PutRecord SomePut() {
  PutRecord put;
  put.extent = {8192, 12288};
  put.header = {1, 2};
  put.facts.key = "key";
  put.facts.meta = "meta";
  put.facts.size = 5000;
  put.facts.expires_unix_ns = 77;
  return put;
}

TEST(JournalRecord, ComesBackWhole) {
  auto bytes = EncodePut(9, SomePut());
  Finish(5, &bytes);
  const auto parsed = ParseRecord(bytes, 5);
  ASSERT_TRUE(parsed && parsed->record.put);
  EXPECT_EQ(parsed->bytes, bytes.size());
  EXPECT_EQ(parsed->record.sequence, 9U);
  EXPECT_EQ(parsed->record.put->extent, SomePut().extent);
  EXPECT_EQ(parsed->record.put->facts.key, "key");
  EXPECT_EQ(parsed->record.put->facts.expires_unix_ns, 77);
  EXPECT_FALSE(ParseRecord(bytes, 6)) << "another journal's";

  bytes = EncodeDelete(10, 9);
  Finish(5, &bytes);
  EXPECT_EQ(ParseRecord(bytes, 5)->record.deleted, 9U);
  for (const std::optional<std::int64_t> expires :
       {std::optional<std::int64_t>(-5), std::optional<std::int64_t>(0),
        std::optional<std::int64_t>()}) {
    bytes.resize(kDeadlineBytes);
    EncodeDeadline(11, {9, expires}, 5, std::span<std::byte, kDeadlineBytes>(bytes));
    const auto deadline = ParseRecord(bytes, 5);
    ASSERT_TRUE(deadline && deadline->record.deadline && !deadline->record.is_padding());
    EXPECT_EQ(deadline->record.sequence, 11U);
    EXPECT_EQ(deadline->record.deadline->put, 9U);
    EXPECT_EQ(deadline->record.deadline->expires_unix_ns, expires);
  }
  bytes = EncodePadding(100, 4096);
  Finish(5, &bytes);
  EXPECT_EQ(bytes.size(), 100U);
  EXPECT_TRUE(ParseRecord(bytes, 5)->record.is_padding());
  EXPECT_EQ(ParseRecord(bytes, 5)->record.synced_bytes, 4096U);
}

TEST(JournalRecord, WhatWeWouldNotHaveWrittenIsNotUnderstood) {
  // Length, kind, sequence, extent, header; then the facts: six numbers, the
  // last of them the deadline, and the flags.
  constexpr std::size_t kExpiresAt = 4 + 4 + 8 + 16 + 16 + 5 * 8;
  const auto parses = [](std::size_t at, std::byte value) {
    PutRecord put = SomePut();
    put.facts.expires_unix_ns.reset();
    auto bytes = EncodePut(9, put);
    bytes[at] = value;
    Finish(5, &bytes);
    return ParseRecord(bytes, 5).has_value();
  };
  EXPECT_TRUE(parses(kExpiresAt, std::byte{0}));
  EXPECT_FALSE(parses(kExpiresAt, std::byte{1})) << "an end, and no flag that says so";
  EXPECT_TRUE(parses(kExpiresAt + 8, std::byte{7})) << "all flags there are";
  EXPECT_FALSE(parses(kExpiresAt + 8, std::byte{8}));
}

TEST(JournalRecord, OneFlippedBitIsFoundWhereverItIs) {
  auto whole = EncodePut(9, SomePut());
  Finish(5, &whole);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    bytes.insert(bytes.end(), 5000, std::byte{0x5a});  // The bytes behind it in the file.
    Bytes budget = kCorrectionBudget;
    ASSERT_EQ(CorrectRecord(bytes, 5, &budget), whole) << "bit " << bit;
    EXPECT_LT(budget, kCorrectionBudget);
    bytes[whole.size() - 1] ^= std::byte{0x5a};
    EXPECT_FALSE(CorrectRecord(bytes, 5, &budget)) << "more than one bit";
    budget = 1000;
    EXPECT_TRUE(bit < 32 || !CorrectRecord(bytes, 5, &budget)) << "too much work";
  }
}

TEST(JournalHeader, OneFlippedBitIsFoundAndANewerVersionIsNoSuchBit) {
  JournalHeader header;
  header.store = {11, 12};
  header.epoch = 3;
  header.synced_bytes = 4096;
  const auto whole = Encode(header);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto corrected = CorrectHeader(bytes);
    ASSERT_TRUE(corrected) << "bit " << bit;
    EXPECT_EQ(Encode(*corrected), whole);
  }
  auto newer = whole;
  newer[8] = static_cast<std::byte>(JournalHeader::kVersion + 1);
  EXPECT_FALSE(CorrectHeader(newer));
  ASSERT_FALSE(DecodeJournalHeader(newer));
  EXPECT_FALSE(IsVoidHeader(whole));
  EXPECT_TRUE(IsVoidHeader(VoidHeader()));
  EXPECT_FALSE(CorrectHeader(VoidHeader()));
}

// Not only damaged bytes: also wrong ones with a valid checksum.
TEST(JournalRecord, AnyBytesAreReadSafely) {
  const std::uint64_t seed = testing::Seed(1);
  std::mt19937_64 random(seed);
  int understood = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = EncodePut(1, SomePut());
    auto whole = bytes;
    Finish(5, &whole);
    const std::size_t changes = 1 + random() % 4;
    for (std::size_t c = 0; c < changes; ++c) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const bool sealed = i % 2 == 0;
    if (sealed) {
      Finish(5, &bytes);
    } else {
      bytes.insert(bytes.end(), whole.end() - sizeof(std::uint64_t), whole.end());
    }
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    // Reading one byte too far would crash.
    testing::GuardedBytes guarded(bytes);
    const std::optional<Parsed> parsed = ParseRecord(guarded.span(), 5);
    if (parsed) {
      ++understood;
      EXPECT_LE(parsed->bytes, bytes.size()) << "seed " << seed << " case " << i;
      EXPECT_TRUE(sealed || bytes == whole)
          << "damaged and understood: seed " << seed << " case " << i;
    }
    BlobFacts facts;
    const std::span<const std::byte> view = guarded.span();
    Decoder in(view.subspan(random() % (view.size() + 1)));
    (void)Decode(&in, &facts);
  }
  EXPECT_GT(understood, 1000) << "seed " << seed << ": those that were sealed anew";
}

TEST(BlobHeader, ASealedHeaderThatMakesNoSenseIsRefused) {
  BlobHeader header;
  header.facts.key = "key";
  header.facts.size = 3 * kMiB;
  header.seal = Seal(std::vector<Hash128>(3));
  AlignedBuffer buffer(HeaderBytes(header.facts));
  const Hash128 checksum = EncodeHeader(header, buffer.span());
  ASSERT_TRUE(DecodeHeader(buffer.span(), checksum));
  EXPECT_FALSE(DecodeHeader(buffer.span(), {})) << "another one was expected";
  EXPECT_FALSE(DecodeHeader(buffer.span().first(100), checksum));
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    AlignedBuffer changed(buffer.bytes());
    std::memcpy(changed.data(), buffer.data(), buffer.bytes());
    changed.data()[random() % 150] = static_cast<std::byte>(random());
    const auto body = changed.span().first(changed.bytes() - sizeof(Hash128));
    const Hash128 sealed = Hash128Of(body.data(), body.size());
    std::memcpy(changed.data() + body.size(), &sealed, sizeof sealed);
    refused += DecodeHeader(changed.span(), sealed) ? 0 : 1;
  }
  EXPECT_GT(refused, 500);
}

TEST(BlobHeader, GrowsWithItsFacts) {
  BlobFacts facts;
  EXPECT_EQ(HeaderBytes(facts), kPageBytes);
  facts.meta = std::string(4000, 'm');
  EXPECT_EQ(HeaderBytes(facts), 2 * kPageBytes);
  facts.size = kGiB;  // 16 KiB of checksums.
  EXPECT_EQ(HeaderBytes(facts), 6 * kPageBytes);
}

}  // namespace
}  // namespace spillway
