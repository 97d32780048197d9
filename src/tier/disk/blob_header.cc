// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/blob_header.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "tier/disk/codec.h"

namespace spillway {
namespace {

constexpr std::uint64_t kMagic = 0x31424f4c42575053;  // "SPWBLOB1"
constexpr std::uint32_t kVersion = 1;
// Magic, version, number of pieces, store, offset.
constexpr Bytes kHeaderFixedBytes = 8 + 4 + 4 + 16 + 8;
constexpr Bytes kChecksumBytes = 16;

Error Corrupt(const char* why) { return {Code::kCorrupt, why}; }

}  // namespace

Bytes HeaderBytes(const BlobFacts& facts) {
  return PagesUp(kHeaderFixedBytes + EncodedBytes(facts) +
                 Seal::PiecesIn(facts.size) * sizeof(Hash128) + kChecksumBytes);
}

Hash128 EncodeHeader(const BlobHeader& header, std::span<std::byte> to) {
  assert(to.size() == HeaderBytes(header.facts));
  std::vector<std::byte> bytes;
  bytes.reserve(to.size());
  Encoder out(&bytes);
  out.Put(kMagic);
  out.Put(kVersion);
  out.Put(static_cast<std::uint32_t>(header.seal.pieces().size()));
  out.Put(header.store);
  out.Put(header.at);
  Encode(header.facts, &out);
  for (const Hash128& piece : header.seal.pieces()) out.Put(piece);
  assert(bytes.size() + kChecksumBytes <= to.size());
  bytes.resize(to.size() - kChecksumBytes);
  const Hash128 checksum = Hash128Of(bytes.data(), bytes.size());
  out.Put(checksum);
  std::memcpy(to.data(), bytes.data(), bytes.size());
  return checksum;
}

Result<BlobHeader> DecodeHeader(std::span<const std::byte> bytes, const Hash128& checksum) {
  if (bytes.size() < kPageBytes) return Corrupt("the header is cut short");
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  if (Decoder(bytes.last(kChecksumBytes)).GetHash() != checksum) {
    return Corrupt("the header's checksum is not the expected one");
  }
  if (Hash128Of(body.data(), body.size()) != checksum) return Corrupt("the header is damaged");
  // The bytes are what this program wrote; the checks below guard against its own errors.
  Decoder in(body);
  if (in.Get<std::uint64_t>() != kMagic) return Corrupt("the header has a wrong magic number");
  if (in.Get<std::uint32_t>() != kVersion) return Corrupt("the header has a wrong version");
  const auto count = in.Get<std::uint32_t>();
  BlobHeader header;
  header.store = in.GetHash();
  header.at = in.Get<Bytes>();
  if (!Decode(&in, &header.facts)) return Corrupt("the header's facts are cut short");
  if (count != Seal::PiecesIn(header.facts.size) || in.left() / sizeof(Hash128) < count) {
    return Corrupt("the header's checksums do not fit its size");
  }
  std::vector<Hash128> pieces(count);
  for (Hash128& piece : pieces) piece = in.GetHash();
  header.seal = Seal(std::move(pieces));
  return header;
}

}  // namespace spillway
