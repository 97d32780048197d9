#include "tier/disk/journal_format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/hash.h"
#include "tier/disk/codec.h"

namespace spillway {
namespace {

constexpr std::uint64_t kMagic = 0x4c4e524a59575053;  // "SPWYJRNL"
constexpr std::uint32_t kPut = 1;
constexpr std::uint32_t kDelete = 2;
constexpr std::uint32_t kPadding = 3;
// Length, kind, sequence; the checksum.
constexpr std::uint32_t kFrameBytes = 4 + 4 + 8 + 8;
static_assert(kFrameBytes == kPaddingMin);

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
  out.Put(std::uint64_t{0});
  out.Put(std::uint64_t{XXH3_64bits(bytes.data(), bytes.size())});
  return bytes;
}

std::array<std::byte, JournalHeader::kBytes> VoidHeader() {
  // All zero but for what must stand there in every version; its checksum is not 0.
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
    return Error{Code::kUnavailable, "it is no journal of ours (its magic number is another)"};
  }
  JournalHeader header;
  header.version = in.Get<std::uint32_t>();
  if (header.version != JournalHeader::kVersion) {
    return Error{
        Code::kUnavailable,
        fmt::format("it has format version {}, {} than version {}, which is the one we read",
                    header.version, header.version > JournalHeader::kVersion ? "newer" : "older",
                    JournalHeader::kVersion)};
  }
  const auto header_bytes = in.Get<std::uint32_t>();
  header.store = in.GetHash();
  header.epoch = in.Get<std::uint64_t>();
  header.first_sequence = in.Get<std::uint64_t>();
  in.Get<std::uint64_t>();
  const Bytes covered = JournalHeader::kBytes - sizeof(std::uint64_t);
  if (in.Get<std::uint64_t>() != XXH3_64bits(bytes.data(), covered) ||
      header_bytes != JournalHeader::kBytes) {
    return std::optional<JournalHeader>();
  }
  return std::optional<JournalHeader>(header);
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

void EncodeDelete(std::uint64_t sequence, std::uint64_t deleted, std::uint64_t seed,
                  std::span<std::byte, kDeleteBytes> record) {
  static_assert(kDeleteBytes == kFrameBytes + sizeof deleted);
  std::byte* to = record.data();
  const auto put = [&to](const auto& value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  put(static_cast<std::uint32_t>(kDeleteBytes));
  put(kDelete);
  put(sequence);
  put(deleted);
  put(std::uint64_t{
      XXH3_64bits_withSeed(record.data(), kDeleteBytes - sizeof(std::uint64_t), seed)});
}

std::vector<std::byte> EncodePadding(Bytes bytes) {
  std::vector<std::byte> record = Begin(kPadding, 0);
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
  if (length < kFrameBytes || length > JournalRecord::kBytesMax || length > bytes.size()) return {};
  const auto body = bytes.first(length - sizeof(std::uint64_t));
  const auto sum = Decoder(bytes.subspan(body.size())).Get<std::uint64_t>();
  if (sum != XXH3_64bits_withSeed(body.data(), body.size(), seed)) return {};

  Decoder in(body.subspan(sizeof length));
  const auto kind = in.Get<std::uint32_t>();
  Parsed parsed;
  parsed.bytes = length;
  parsed.record.sequence = in.Get<std::uint64_t>();
  if (kind == kPut) {
    parsed.record.put = DecodePut(&in);
    if (!parsed.record.put) return {};
  } else if (kind == kDelete) {
    parsed.record.deleted = in.Get<std::uint64_t>();
  } else {
    return kind == kPadding ? std::optional(std::move(parsed)) : std::nullopt;
  }
  if (!in.ok() || in.left() != 0) return {};
  return parsed;
}

JournalScan ScanJournal(Files& files, int file, const JournalHeader& header,
                        const VisitRecord& visit) {
  constexpr Bytes kWindow = 4 * kMiB;
  static_assert(kWindow >= 2 * JournalRecord::kBytesMax);
  JournalScan scan;
  scan.good = JournalHeader::kBytes;
  scan.last_sequence = header.first_sequence - 1;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(kWindow);
  std::byte* const window = memory.get();
  Bytes begin = 0;  // Of what the window holds and was not parsed.
  Bytes end = 0;
  bool more = true;
  while (true) {
    if (more && end - begin < JournalRecord::kBytesMax) {
      std::memmove(window, window + begin, end - begin);
      end -= begin;
      begin = 0;
      const std::int64_t got = files.ReadAt(file, scan.good + end, window + end, kWindow - end);
      if (got == -EINTR) continue;
      if (got < 0) {
        scan.error = static_cast<int>(-got);
        return scan;
      }
      more = got > 0;
      end += static_cast<Bytes>(got);
      continue;
    }
    if (begin == end) return scan;
    auto parsed = ParseRecord({window + begin, end - begin}, header.Seed());
    const bool is_padding = parsed && parsed->record.is_padding();
    if (!parsed || (!is_padding && parsed->record.sequence <= scan.last_sequence)) {
      scan.torn = true;
      return scan;
    }
    if (!is_padding) scan.last_sequence = parsed->record.sequence;
    const Bytes at = scan.good;
    begin += parsed->bytes;
    scan.good += parsed->bytes;
    if (is_padding) continue;
    if (!visit(std::move(parsed->record), at, parsed->bytes)) return scan;
  }
}

}  // namespace spillway
