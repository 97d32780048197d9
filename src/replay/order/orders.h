// The orders `spillway replay` compares, by name: the product's own and, for
// comparison only, the classics. All keep to the rules of policy/block_cache.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "policy/block_cache.h"
#include "spillway/result.h"

namespace spillway {

// All of them, as --policy takes them.
std::span<const std::string_view> ReplayPolicyNames();

// InvalidArgument: the name is not known, and the message lists those that are.
Result<std::unique_ptr<BlockCache>> MakeReplayPolicy(std::string_view name, std::size_t capacity,
                                                     std::uint32_t block_tokens);
// Whether that one must be told each block's next use.
bool NeedsNextUse(std::string_view name);

std::unique_ptr<BlockCache> MakeBelady(std::size_t capacity);
std::unique_ptr<BlockCache> MakeArc(std::size_t capacity);
std::unique_ptr<BlockCache> MakeS3Fifo(std::size_t capacity);
std::unique_ptr<BlockCache> MakeTinyLfu(std::size_t capacity);
std::unique_ptr<BlockCache> MakeLru2(std::size_t capacity);
// The product's own orders, as they rank at PRESSURE: "documented", "hybrid".
std::unique_ptr<BlockCache> MakeProductBlocks(std::string_view name, std::size_t capacity,
                                              std::uint32_t block_tokens);
// Whole contexts, and the quarter with most tokens per access leaves.
std::unique_ptr<BlockCache> MakeSeedContexts(std::size_t capacity, std::uint32_t block_tokens);

}  // namespace spillway
