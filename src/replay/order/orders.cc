// SPDX-License-Identifier: Apache-2.0
#include "replay/order/orders.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "replay/order/lru_lfu.h"

namespace spillway {
namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "score", "workflow", "documented", "hybrid", "seed",  "lru",
    "lfu",   "s3-fifo",  "w-tinylfu",  "arc",    "lru-2", "belady"};

std::unique_ptr<BlockCache> Make(std::string_view name, std::size_t capacity,
                                 std::uint32_t block_tokens) {
  if (name == "lru") return std::make_unique<LruBlocks>(capacity);
  if (name == "lfu") return std::make_unique<LfuBlocks>(capacity);
  if (name == "s3-fifo") return MakeS3Fifo(capacity);
  if (name == "w-tinylfu") return MakeTinyLfu(capacity);
  if (name == "arc") return MakeArc(capacity);
  if (name == "lru-2") return MakeLru2(capacity);
  if (name == "belady") return MakeBelady(capacity);
  if (name == "seed") return MakeSeedContexts(capacity, block_tokens);
  if (name == "documented" || name == "hybrid") {
    return MakeProductBlocks(name, capacity, block_tokens);
  }
  return nullptr;
}

}  // namespace

std::span<const std::string_view> ReplayPolicyNames() { return kNames; }

bool NeedsNextUse(std::string_view name) { return name == "belady"; }

Result<std::unique_ptr<BlockCache>> MakeReplayPolicy(std::string_view name, std::size_t capacity,
                                                     std::uint32_t block_tokens) {
  if (name == "score" || name == "workflow") return MakeCacheBlocks(name, capacity, block_tokens);
  std::unique_ptr<BlockCache> made = Make(name, capacity, block_tokens);
  if (made != nullptr) return made;
  return Error{Code::kInvalidArgument,
               fmt::format("policy: '{}' is not known; known: {}{}", name, fmt::join(kNames, ", "),
                           DidYouMean(name, kNames))};
}

}  // namespace spillway
