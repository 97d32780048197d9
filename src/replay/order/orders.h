// SPDX-License-Identifier: Apache-2.0
// The orders that `spillway replay` compares, by name: the product's own and, for comparison,
// well-known ones. All keep the rules of replay/order/block_cache.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "replay/order/block_cache.h"
#include "spillway/result.h"

namespace spillway {

// All names, as accepted by --policy.
std::span<const std::string_view> ReplayPolicyNames();

// InvalidArgument: unknown name; the message lists the known ones. NoMemory: the index of so many
// blocks does not fit into memory.
Result<std::unique_ptr<BlockCache>> MakeReplayPolicy(std::string_view name, std::size_t capacity,
                                                     std::uint32_t block_tokens);
// Whether the order must know each block's next use.
bool NeedsNextUse(std::string_view name);

std::unique_ptr<BlockCache> MakeBelady(std::size_t capacity);
std::unique_ptr<BlockCache> MakeArc(std::size_t capacity);
std::unique_ptr<BlockCache> MakeS3Fifo(std::size_t capacity);
std::unique_ptr<BlockCache> MakeTinyLfu(std::size_t capacity);
std::unique_ptr<BlockCache> MakeLru2(std::size_t capacity);
// A product cache with that policy, on one tier of so many blocks.
Result<std::unique_ptr<BlockCache>> MakeCacheBlocks(std::string_view policy, std::size_t capacity,
                                                    std::uint32_t block_tokens);
// The product's orders "documented" and "hybrid", as they rank at PRESSURE.
std::unique_ptr<BlockCache> MakeProductBlocks(std::string_view name, std::size_t capacity,
                                              std::uint32_t block_tokens);
// Whole contexts are entries; evicts the quarter with the most tokens per access.
std::unique_ptr<BlockCache> MakeSeedContexts(std::size_t capacity, std::uint32_t block_tokens);

}  // namespace spillway
