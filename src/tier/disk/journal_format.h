// SPDX-License-Identifier: Apache-2.0
// The bytes of the journal: a header, then records of puts, deletes and
// deadlines. docs/design/disk-format.md has the layout.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spillway/result.h"
#include "tier/blob.h"
#include "tier/disk/page_allocator.h"

namespace spillway {

struct JournalHeader {
  // There is no version 2: it takes more than one flipped bit to turn 3 into 4.
  static constexpr std::uint32_t kVersion = 3;
  static constexpr std::uint32_t kOldestVersion = 1;  // The oldest that can be read.
  static constexpr Bytes kBytes = 64;

  std::uint32_t version = kVersion;
  Hash128 store;
  std::uint64_t epoch = 0;           // Rises by one with each new journal of a store.
  std::uint64_t first_sequence = 1;  // No record has a smaller sequence.
  // This much of the file was on stable storage before it got its name, so no
  // power cut can have torn it. 0 in version 1.
  Bytes synced_bytes = 0;

  // The seed of each record's checksum. Records of an older journal that the
  // file system left behind do not match it.
  std::uint64_t Seed() const { return store.low ^ (epoch * 0x9e3779b97f4a7c15ULL); }
};

std::vector<std::byte> Encode(const JournalHeader& header);
// A header that is read as damaged: written over a journal, it empties the journal.
std::array<std::byte, JournalHeader::kBytes> VoidHeader();
// Empty: damaged. Unavailable: another format, or not a Spillway journal; the
// message says what was found.
Result<std::optional<JournalHeader>> DecodeJournalHeader(std::span<const std::byte> bytes);
// Whether these bytes are VoidHeader's, of any version: emptied on purpose, not damaged.
bool IsVoidHeader(std::span<const std::byte> bytes);
// Returns the header if the bytes differ from a valid one by one flipped bit;
// otherwise empty.
std::optional<JournalHeader> CorrectHeader(std::span<const std::byte> bytes);

struct PutRecord {
  Extent extent;
  Hash128 header;  // The checksum of the blob's header.
  BlobFacts facts;
};

// The blob of an earlier put has this deadline from now on; empty: no TTL of its own.
struct DeadlineRecord {
  std::uint64_t put = 0;  // Sequence of the put.
  std::optional<std::int64_t> expires_unix_ns = {};
};

struct JournalRecord {
  static constexpr Bytes kBytesMax = kMiB;

  std::uint64_t sequence = 0;
  // One of: a blob was put; the blob of an earlier record was deleted; it has a
  // new deadline. With none of these the record only fills up a page; then it
  // has no sequence, and says how much of the file was on stable storage before
  // it was written.
  std::optional<PutRecord> put;
  std::optional<std::uint64_t> deleted;
  std::optional<DeadlineRecord> deadline;
  Bytes synced_bytes = 0;
  bool is_padding() const { return !put && !deleted && !deadline; }
};

// These come without their checksum, which Finish appends: it needs the journal's seed.
std::vector<std::byte> EncodePut(std::uint64_t sequence, const PutRecord& put);
std::vector<std::byte> EncodeDelete(std::uint64_t sequence, std::uint64_t deleted);
// The same with the checksum, without allocating.
inline constexpr Bytes kDeleteBytes = 32;
void EncodeDelete(std::uint64_t sequence, std::uint64_t deleted, std::uint64_t seed,
                  std::span<std::byte, kDeleteBytes> record);
inline constexpr Bytes kDeadlineBytes = 48;
void EncodeDeadline(std::uint64_t sequence, const DeadlineRecord& deadline, std::uint64_t seed,
                    std::span<std::byte, kDeadlineBytes> record);
// `bytes` is the length with the checksum; at least kPaddingMin.
inline constexpr Bytes kPaddingMin = 32;
std::vector<std::byte> EncodePadding(Bytes bytes, Bytes synced_bytes);
void Finish(std::uint64_t seed, std::vector<std::byte>* record);
// Parses the record at the beginning of `bytes`; empty: no complete valid record.
struct Parsed {
  JournalRecord record;
  std::uint32_t bytes = 0;
};
std::optional<Parsed> ParseRecord(std::span<const std::byte> bytes, std::uint64_t seed);

// Whether a record may begin here, judged by length and kind. Cheaper than ParseRecord.
bool MayBeRecord(std::span<const std::byte> bytes);
// Returns the record that begins here with one flipped bit corrected; empty:
// none. All bits are tried, which takes time: `budget` is how many bytes may
// still be hashed for it, and is reduced by the bytes hashed.
inline constexpr Bytes kCorrectionBudget = 512 * kMiB;
std::optional<std::vector<std::byte>> CorrectRecord(std::span<const std::byte> bytes,
                                                    std::uint64_t seed, Bytes* budget);

}  // namespace spillway
