// SPDX-License-Identifier: Apache-2.0
// A blob is an entry's bytes together with the facts that travel with them to
// the tiers below the device: key, tenant, generation, and the checksums that
// verify them. A blob that does not match the expected facts is treated as
// corrupt and never served.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "spillway/fragment.h"
#include "spillway/units.h"

namespace spillway {

// XXH3-128 of host memory, by the widest vector instructions that the processor has.
Hash128 Hash128Of(const void* data, Bytes bytes);

// Checksums of a value: one XXH3-128 for each piece of 1 MiB; the last piece
// may be shorter. So several cores can verify pieces as they arrive, and one
// piece can be read alone.
class Seal {
 public:
  static constexpr Bytes kPieceBytes = kHashPieceBytes;
  static std::size_t PiecesIn(Bytes bytes) {
    return static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
  }

  Seal() = default;
  explicit Seal(std::vector<Hash128> pieces) : pieces_(std::move(pieces)) {}
  static Seal Of(const Source& source);  // Fragments must be host memory.

  const std::vector<Hash128>& pieces() const { return pieces_; }
  // Returns the first piece whose bytes do not match its checksum; empty: all match.
  std::optional<std::size_t> FirstDamaged(const std::byte* data, Bytes bytes) const;
  friend bool operator==(const Seal&, const Seal&) = default;

 private:
  std::vector<Hash128> pieces_;
};

// The facts of an entry that are stored and sent together with its bytes.
struct BlobFacts {
  std::string key;
  std::string tenant = {};  // The owner; empty: the cache has one tenant only.
  std::uint64_t generation = 0;
  Bytes size = 0;
  Tokens tokens = 0;
  std::uint64_t access_count = 1;
  std::string agent = {};
  std::string meta = {};
  // The entry that this one continues. A declared parent with parent_generation
  // 0 was not present when the entry was set; a chain ends here.
  bool parent_declared = false;
  std::string parent = {};
  std::uint64_t parent_generation = 0;
  // End of the entry's own TTL. Wall clock, since it must hold across a restart.
  std::optional<std::int64_t> expires_unix_ns = {};
  bool no_idle_ttl = false;  // The tiers' idle TTL does not apply.
};

}  // namespace spillway
