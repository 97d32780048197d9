// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/journal_format.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "tier/disk/codec.h"

namespace spillway {
namespace {

constexpr std::uint64_t kMagic = 0x4c4e524a59575053;  // "SPWYJRNL"
constexpr std::uint32_t kPut = 1;
constexpr std::uint32_t kDelete = 2;
constexpr std::uint32_t kPadding = 3;
constexpr std::uint32_t kDeadline = 4;
// Length, kind, sequence; the checksum.
constexpr std::uint32_t kFrameBytes = 4 + 4 + 8 + 8;
static_assert(kFrameBytes + sizeof(Bytes) == kPaddingMin);

std::vector<std::byte> Begin(std::uint32_t kind, std::uint64_t sequence) {
  std::vector<std::byte> record;
  Encoder out(&record);
  out.Put(std::uint32_t{0});  // The length, known at the end.
  out.Put(kind);
  out.Put(sequence);
  return record;
}

std::vector<std::byte> End(std::vector<std::byte> record) {
  const auto bytes = static_cast<std::uint32_t>(record.size() + sizeof(std::uint64_t));
  std::memcpy(record.data(), &bytes, sizeof bytes);
  return record;
}

std::optional<PutRecord> DecodePut(Decoder* in) {
  PutRecord put;
  put.extent.at = in->Get<Bytes>();
  put.extent.bytes = in->Get<Bytes>();
  put.header = in->GetHash();
  if (!Decode(in, &put.facts)) return std::nullopt;
  return put;
}

std::optional<DeadlineRecord> DecodeDeadline(Decoder* in) {
  DeadlineRecord deadline;
  deadline.put = in->Get<std::uint64_t>();
  const auto expires = in->Get<std::int64_t>();
  const auto is_set = in->Get<std::uint64_t>();
  if (is_set > 1 || (is_set == 0 && expires != 0)) return std::nullopt;
  if (is_set == 1) deadline.expires_unix_ns = expires;
  return deadline;
}

bool IsLength(std::uint32_t length, std::size_t there) {
  return length >= kFrameBytes && length <= JournalRecord::kBytesMax && length <= there;
}

bool IsSealed(std::span<const std::byte> record, std::uint64_t seed) {
  const auto body = record.first(record.size() - sizeof(std::uint64_t));
  return Decoder(record.subspan(body.size())).Get<std::uint64_t>() ==
         XXH3_64bits_withSeed(body.data(), body.size(), seed);
}

void Flip(std::span<std::byte> bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

}  // namespace

std::vector<std::byte> Encode(const JournalHeader& header) {
  std::vector<std::byte> bytes;
  Encoder out(&bytes);
  out.Put(kMagic);
  out.Put(header.version);
  out.Put(static_cast<std::uint32_t>(JournalHeader::kBytes));
  out.Put(header.store);
  out.Put(header.epoch);
  out.Put(header.first_sequence);
  out.Put(std::uint64_t{header.synced_bytes});
  out.Put(std::uint64_t{XXH3_64bits(bytes.data(), bytes.size())});
  return bytes;
}

std::array<std::byte, JournalHeader::kBytes> VoidHeader() {
  // Zero except for the fields that every version has; the checksum of these
  // bytes is not 0.
  std::array<std::byte, JournalHeader::kBytes> bytes{};
  constexpr auto kLength = static_cast<std::uint32_t>(JournalHeader::kBytes);
  std::memcpy(bytes.data(), &kMagic, sizeof kMagic);
  std::memcpy(bytes.data() + sizeof kMagic, &JournalHeader::kVersion, sizeof(std::uint32_t));
  std::memcpy(bytes.data() + sizeof kMagic + sizeof(std::uint32_t), &kLength, sizeof kLength);
  return bytes;
}

Result<std::optional<JournalHeader>> DecodeJournalHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < JournalHeader::kBytes) return std::optional<JournalHeader>();
  Decoder in(bytes);
  if (in.Get<std::uint64_t>() != kMagic) {
    return Error{Code::kUnavailable, "it is not a Spillway journal (wrong magic number)"};
  }
  JournalHeader header;
  header.version = in.Get<std::uint32_t>();
  if (header.version > JournalHeader::kVersion) {
    return Error{
        Code::kUnavailable,
        fmt::format("it has format version {}, newer than version {}, the newest that "
                    "this program reads; open it with the program that wrote it, or name another "
                    "directory",
                    header.version, JournalHeader::kVersion)};
  }
  if (header.version < JournalHeader::kOldestVersion) {
    return Error{
        Code::kUnavailable,
        fmt::format("it has format version {}, older than version {}, the oldest that can be read",
                    header.version, JournalHeader::kOldestVersion)};
  }
  const auto header_bytes = in.Get<std::uint32_t>();
  header.store = in.GetHash();
  header.epoch = in.Get<std::uint64_t>();
  header.first_sequence = in.Get<std::uint64_t>();
  header.synced_bytes = in.Get<Bytes>();
  const Bytes covered = JournalHeader::kBytes - sizeof(std::uint64_t);
  if (in.Get<std::uint64_t>() != XXH3_64bits(bytes.data(), covered) ||
      header_bytes != JournalHeader::kBytes) {
    return std::optional<JournalHeader>();
  }
  return std::optional<JournalHeader>(header);
}

bool IsVoidHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < JournalHeader::kBytes) return false;
  auto mine = VoidHeader();
  std::memcpy(mine.data() + sizeof kMagic, bytes.data() + sizeof kMagic, sizeof(std::uint32_t));
  return std::equal(mine.begin(), mine.end(), bytes.begin());
}

std::optional<JournalHeader> CorrectHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < JournalHeader::kBytes) return std::nullopt;
  std::vector<std::byte> copy(bytes.begin(), bytes.begin() + JournalHeader::kBytes);
  for (std::size_t bit = 0; bit < copy.size() * 8; ++bit) {
    Flip(copy, bit);
    if (const auto header = DecodeJournalHeader(copy); header && *header) return *header;
    Flip(copy, bit);
  }
  return std::nullopt;
}

std::vector<std::byte> EncodePut(std::uint64_t sequence, const PutRecord& put) {
  std::vector<std::byte> record = Begin(kPut, sequence);
  Encoder out(&record);
  out.Put(put.extent.at);
  out.Put(put.extent.bytes);
  out.Put(put.header);
  Encode(put.facts, &out);
  return End(std::move(record));
}

std::vector<std::byte> EncodeDelete(std::uint64_t sequence, std::uint64_t deleted) {
  std::vector<std::byte> record = Begin(kDelete, sequence);
  Encoder(&record).Put(deleted);
  return End(std::move(record));
}

namespace {

// Encodes and checksums a record of numbers, without allocating.
template <typename... Numbers>
void EncodeNumbers(std::uint32_t kind, std::uint64_t seed, std::span<std::byte> record,
                   Numbers... numbers) {
  std::byte* to = record.data();
  const auto put = [&to](auto value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  put(static_cast<std::uint32_t>(record.size()));
  put(kind);
  (put(numbers), ...);
  put(std::uint64_t{
      XXH3_64bits_withSeed(record.data(), record.size() - sizeof(std::uint64_t), seed)});
}

}  // namespace

void EncodeDelete(std::uint64_t sequence, std::uint64_t deleted, std::uint64_t seed,
                  std::span<std::byte, kDeleteBytes> record) {
  static_assert(kDeleteBytes == kFrameBytes + sizeof deleted);
  EncodeNumbers(kDelete, seed, record, sequence, deleted);
}

void EncodeDeadline(std::uint64_t sequence, const DeadlineRecord& deadline, std::uint64_t seed,
                    std::span<std::byte, kDeadlineBytes> record) {
  static_assert(kDeadlineBytes == kFrameBytes + 3 * sizeof(std::uint64_t));
  EncodeNumbers(kDeadline, seed, record, sequence, deadline.put,
                deadline.expires_unix_ns.value_or(0),
                std::uint64_t{deadline.expires_unix_ns.has_value()});
}

std::vector<std::byte> EncodePadding(Bytes bytes, Bytes synced_bytes) {
  std::vector<std::byte> record = Begin(kPadding, 0);
  Encoder(&record).Put(synced_bytes);
  record.resize(bytes - sizeof(std::uint64_t));
  return End(std::move(record));
}

void Finish(std::uint64_t seed, std::vector<std::byte>* record) {
  const std::uint64_t checksum = XXH3_64bits_withSeed(record->data(), record->size(), seed);
  Encoder(record).Put(checksum);
}

std::optional<Parsed> ParseRecord(std::span<const std::byte> bytes, std::uint64_t seed) {
  Decoder frame(bytes);
  const auto length = frame.Get<std::uint32_t>();
  if (!IsLength(length, bytes.size()) || !IsSealed(bytes.first(length), seed)) return {};

  Decoder in(bytes.first(length - sizeof(std::uint64_t)).subspan(sizeof length));
  const auto kind = in.Get<std::uint32_t>();
  Parsed parsed;
  parsed.bytes = length;
  parsed.record.sequence = in.Get<std::uint64_t>();
  if (kind == kPut) {
    parsed.record.put = DecodePut(&in);
    if (!parsed.record.put) return {};
  } else if (kind == kDelete) {
    parsed.record.deleted = in.Get<std::uint64_t>();
  } else if (kind == kDeadline) {
    parsed.record.deadline = DecodeDeadline(&in);
    if (!parsed.record.deadline) return {};
  } else {
    if (kind != kPadding) return {};
    // 0 in version 1, and in padding too short for it.
    parsed.record.synced_bytes = in.Get<Bytes>();
    return parsed;
  }
  if (!in.ok() || in.left() != 0) return {};
  return parsed;
}

bool MayBeRecord(std::span<const std::byte> bytes) {
  Decoder in(bytes);
  const auto length = in.Get<std::uint32_t>();
  const auto kind = in.Get<std::uint32_t>();
  return IsLength(length, bytes.size()) && kind >= kPut && kind <= kDeadline;
}

// If the flipped bit is in the length, the checksum is elsewhere; lengths are tried first.
std::optional<std::vector<std::byte>> CorrectRecord(std::span<const std::byte> bytes,
                                                    std::uint64_t seed, Bytes* budget) {
  const auto spend = [budget](Bytes cost) {
    if (cost > *budget) return false;
    *budget -= cost;
    return true;
  };
  const auto stored = Decoder(bytes).Get<std::uint32_t>();
  for (int bit = 0; bit < 32; ++bit) {
    const std::uint32_t length = stored ^ (1U << bit);
    if (!IsLength(length, bytes.size()) || !spend(length)) continue;
    std::vector<std::byte> record(bytes.begin(), bytes.begin() + length);
    std::memcpy(record.data(), &length, sizeof length);
    if (IsSealed(record, seed)) return record;
  }
  const Bytes bits = Bytes{stored} * 8;
  if (!IsLength(stored, bytes.size()) || !spend(bits * stored)) return {};
  std::vector<std::byte> record(bytes.begin(), bytes.begin() + stored);
  for (std::size_t bit = sizeof stored * 8; bit < bits; ++bit) {
    Flip(record, bit);
    if (IsSealed(record, seed)) return record;
    Flip(record, bit);
  }
  return {};
}

}  // namespace spillway
