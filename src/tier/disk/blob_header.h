// SPDX-License-Identifier: Apache-2.0
// The pages before a value on disk: the facts of its entry, its place, and the
// checksums that verify it. docs/design/disk-format.md has the layout.
//
// The header's own checksum is at the end of its last page and covers
// everything before it, padding included, so a change of any bit is detected.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "spillway/result.h"
#include "tier/blob.h"
#include "tier/disk/aligned_buffer.h"

namespace spillway {

struct BlobHeader {
  Hash128 store;  // The store's name: blobs of another directory do not match.
  Bytes at = 0;   // Offset in the file: a header written to another place does not match.
  BlobFacts facts;
  Seal seal;
};

// Returns the size of the header, in whole pages.
Bytes HeaderBytes(const BlobFacts& facts);
// `to` has HeaderBytes(header.facts) bytes. Returns the checksum.
Hash128 EncodeHeader(const BlobHeader& header, std::span<std::byte> to);
// kCorrupt: the bytes are no header, or not the header with this checksum.
Result<BlobHeader> DecodeHeader(std::span<const std::byte> bytes, const Hash128& checksum);

}  // namespace spillway
