// SPDX-License-Identifier: Apache-2.0
// The keys of LMCache, and the pair it writes for each chunk. Its native client expects replies
// byte for byte, so an error reply to a SET puts it out of step for good: the daemon must recognise
// its keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/units.h"

namespace spillway::server {

// model@rank@group@hash[@...], or model@world@worker@hash@dtype[@...] with the suffix "metadata" or
// "kv_bytes": at least three '@', and the second to fourth field hexadecimal.
bool IsLmcacheKey(std::string_view key);

// The other key of the pair. Empty: `key` does not belong to a pair.
std::string PairOf(std::string_view key);
bool IsMetadata(std::string_view key);

// The tokens of a chunk, from the value of its metadata key: packed int32 length, format, dtype and
// four dims. Empty: unknown format.
std::optional<Tokens> TokensIn(std::string_view metadata);

}  // namespace spillway::server
