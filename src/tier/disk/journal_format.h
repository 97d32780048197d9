// The journal's bytes: a header, then records that say what came and went.
// docs/design/disk-format.md has the layout.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spillway/result.h"
#include "tier/blob.h"
#include "tier/disk/files.h"
#include "tier/disk/page_allocator.h"

namespace spillway {

struct JournalHeader {
  static constexpr std::uint32_t kVersion = 1;
  static constexpr Bytes kBytes = 64;

  std::uint32_t version = kVersion;
  Hash128 store;
  std::uint64_t epoch = 0;           // Rises by one with every new journal of a store.
  std::uint64_t first_sequence = 1;  // No record has a smaller one.

  // With this every record's checksum begins: records of an older journal that
  // the file system left behind are no records of this one.
  std::uint64_t Seed() const { return store.low ^ (epoch * 0x9e3779b97f4a7c15ULL); }
};

std::vector<std::byte> Encode(const JournalHeader& header);
// A header that reads as damaged: the journal it is written over tells of nothing.
std::array<std::byte, JournalHeader::kBytes> VoidHeader();
// Empty: damaged. Unavailable: it is another format, or none of ours; the
// message says what was found.
Result<std::optional<JournalHeader>> DecodeJournalHeader(std::span<const std::byte> bytes);

struct PutRecord {
  Extent extent;
  Hash128 header;  // The checksum of the blob's header.
  BlobFacts facts;
};

struct JournalRecord {
  static constexpr Bytes kBytesMax = kMiB;

  std::uint64_t sequence = 0;
  // It tells of a blob, or that the one of an earlier record has gone, or
  // (neither) it only fills up a page; then it has no sequence.
  std::optional<PutRecord> put;
  std::optional<std::uint64_t> deleted;
  bool is_padding() const { return !put && !deleted; }
};

// Without their checksum, which Finish appends: it needs the journal's seed.
std::vector<std::byte> EncodePut(std::uint64_t sequence, const PutRecord& put);
std::vector<std::byte> EncodeDelete(std::uint64_t sequence, std::uint64_t deleted);
// The same, finished, without memory of its own.
inline constexpr Bytes kDeleteBytes = 32;
void EncodeDelete(std::uint64_t sequence, std::uint64_t deleted, std::uint64_t seed,
                  std::span<std::byte, kDeleteBytes> record);
// As long as `bytes` when finished; at least kPaddingMin.
inline constexpr Bytes kPaddingMin = 24;
std::vector<std::byte> EncodePadding(Bytes bytes);
void Finish(std::uint64_t seed, std::vector<std::byte>* record);
// The record at the beginning of `bytes` and its length; empty: there is none
// that is whole.
struct Parsed {
  JournalRecord record;
  std::uint32_t bytes = 0;
};
std::optional<Parsed> ParseRecord(std::span<const std::byte> bytes, std::uint64_t seed);

// Reads a journal from its header's end on. Stops at the first record that is
// torn, damaged or out of order.
struct JournalScan {
  int error = 0;      // Of a read: what was seen is not all there is.
  Bytes good = 0;     // Where the last whole record ends.
  bool torn = false;  // Something follows that is no record.
  std::uint64_t last_sequence = 0;
};
// `visit` answers whether to go on.
using VisitRecord = std::function<bool(JournalRecord&& record, Bytes at, std::uint32_t bytes)>;
JournalScan ScanJournal(Files& files, int file, const JournalHeader& header,
                        const VisitRecord& visit);

}  // namespace spillway
