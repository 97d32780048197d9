// Keys as LMCache makes them, and the pair it writes for each chunk. Its native
// client matches replies byte for byte, so an error to a SET puts it out of step
// for good: the daemon has to know it when it sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/units.h"

namespace spillway::server {

// model@rank@group@hash[@...], or model@world@worker@hash@dtype[@...] with the
// suffix "metadata" or "kv_bytes": at least three '@', and hexadecimal where both
// have it.
bool IsLmcacheKey(std::string_view key);

// The other key of the pair; empty: it is none of a pair.
std::string PairOf(std::string_view key);
bool IsMetadata(std::string_view key);

// From the value of a metadata key: packed int32 length, format, dtype and four
// dims. Empty: it does not say.
std::optional<Tokens> TokensIn(std::string_view metadata);

}  // namespace spillway::server
