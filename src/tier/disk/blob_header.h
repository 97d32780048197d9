// The pages before a value on disk: whose it is, where it lies, and the
// checksums by which it is known again. docs/design/disk-format.md has the
// layout.
//
// The checksum stands at the end of the last page and covers all before it,
// padding too: no bit of a header can change unseen.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "spillway/result.h"
#include "tier/blob.h"
#include "tier/disk/aligned_buffer.h"

namespace spillway {

struct BlobHeader {
  Hash128 store;  // The store's name: blobs of another directory are not ours.
  Bytes at = 0;   // Where in the file it lies: one written elsewhere is not this one.
  BlobFacts facts;
  Seal seal;
};

// Whole pages.
Bytes HeaderBytes(const BlobFacts& facts);
// `to` holds HeaderBytes(header.facts). Returns the checksum.
Hash128 EncodeHeader(const BlobHeader& header, std::span<std::byte> to);
// kCorrupt: the bytes are no header, or not the one with this checksum.
Result<BlobHeader> DecodeHeader(std::span<const std::byte> bytes, const Hash128& checksum);

}  // namespace spillway
