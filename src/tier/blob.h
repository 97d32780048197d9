// A blob is an entry's bytes together with what is bound to them wherever they
// go below the device: whose they are, and checksums by which they are known
// again. A blob that does not match what is expected is nobody's.
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

Hash128 Hash128Of(const void* data, Bytes bytes);

// Checksums of a value: one XXH3-128 for each piece of 1 MiB, the last piece
// being what is left. So pieces can be verified as they arrive, by several
// cores, and one can be read alone.
class Seal {
 public:
  static constexpr Bytes kPieceBytes = kHashPieceBytes;
  static std::size_t PiecesIn(Bytes bytes) {
    return static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
  }

  Seal() = default;
  explicit Seal(std::vector<Hash128> pieces) : pieces_(std::move(pieces)) {}
  static Seal Of(const Source& source);  // Host fragments.

  const std::vector<Hash128>& pieces() const { return pieces_; }
  // The first piece that is not as it was sealed; empty: all are.
  std::optional<std::size_t> FirstDamaged(const std::byte* data, Bytes bytes) const;
  friend bool operator==(const Seal&, const Seal&) = default;

 private:
  std::vector<Hash128> pieces_;
};

// What is known of an entry besides its bytes, as it travels with them.
struct BlobFacts {
  std::string key;
  std::string tenant = {};  // Whose; empty: there is only one.
  std::uint64_t generation = 0;
  Bytes size = 0;
  Tokens tokens = 0;
  std::uint64_t access_count = 1;
  std::string agent = {};
  std::string meta = {};
  // The entry it continues; parent_generation 0 with a declared parent: there
  // was none present, and a chain stops here.
  bool parent_declared = false;
  std::string parent = {};
  std::uint64_t parent_generation = 0;
  // End of its own ttl by the wall clock, since it has to hold after a restart.
  std::optional<std::int64_t> expires_unix_ns = {};
  bool no_idle_ttl = false;  // The tiers' ttl passes it by.
};

}  // namespace spillway
