// What the demo's contexts are made of: pseudo-random bytes that follow from a
// block's key alone, so that whoever reads a block knows every byte it must
// find there. No two blocks are alike; nothing compresses, nothing is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace spillway::demo {

// The seed of the block with this key.
std::uint64_t SeedOf(std::string_view key);

void FillContent(std::uint64_t seed, std::span<std::byte> out);

// How many bytes of `in` are not what FillContent would have written.
std::uint64_t CountWrongBytes(std::uint64_t seed, std::span<const std::byte> in);

}  // namespace spillway::demo
