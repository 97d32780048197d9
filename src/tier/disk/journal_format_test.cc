#include "tier/disk/journal_format.h"

#include <random>

#include <gtest/gtest.h>

#include "tier/disk/blob_header.h"
#include "tier/disk/codec.h"
#include "tier/disk/testing/memory_files.h"

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
  bytes = EncodePadding(100);
  Finish(5, &bytes);
  EXPECT_EQ(bytes.size(), 100U);
  EXPECT_TRUE(ParseRecord(bytes, 5)->record.is_padding());
}

TEST(JournalRecord, WhatWeWouldNotHaveWrittenIsNotUnderstood) {
  // Length, kind, sequence, extent, header; then the facts: six numbers, of which the
  // last is the end of its time, and the flags.
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

// A write that failed may leave whole records behind the end; they are older
// than what is written there later.
TEST(JournalScan, EndsWhereARecordIsOlderThanTheOneBefore) {
  testing::MemoryFiles files;
  const int file = files.Open("/disk/journal", {.create = true}, nullptr);
  JournalHeader header;
  header.store = {11, 12};
  header.epoch = 3;
  std::vector<std::byte> journal = Encode(header);
  Bytes good = 0;
  for (const std::uint64_t sequence : {4U, 7U, 6U, 8U}) {
    auto record = EncodeDelete(sequence, 1);
    Finish(header.Seed(), &record);
    journal.insert(journal.end(), record.begin(), record.end());
    if (sequence == 7) good = journal.size();
  }
  ASSERT_EQ(WriteFully(files, file, 0, journal.data(), journal.size()), 0);
  std::vector<std::uint64_t> seen;
  const JournalScan scan =
      ScanJournal(files, file, header, [&](JournalRecord&& record, Bytes, std::uint32_t) {
        seen.push_back(record.sequence);
        return true;
      });
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{4, 7}));
  EXPECT_TRUE(scan.torn);
  EXPECT_EQ(scan.good, good);
  EXPECT_EQ(scan.last_sequence, 7U);
  files.Close(file);
}

// Not only damaged: what a wrong writer could have sealed, too.
TEST(JournalRecord, AnyBytesAreReadSafely) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = EncodePut(1, SomePut());
    const std::size_t changes = 1 + random() % 4;
    for (std::size_t c = 0; c < changes; ++c) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    if (i % 2 == 0) Finish(5, &bytes);
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    (void)ParseRecord(bytes, 5);
    BlobFacts facts;
    const std::span<const std::byte> view(bytes);
    Decoder in(view.subspan(random() % (bytes.size() + 1)));
    (void)Decode(&in, &facts);
  }
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
