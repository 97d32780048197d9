// A trace through a cache without bytes: what would have been hit, what that
// would have saved, what would have moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "policy/block_cache.h"
#include "replay/flags.h"
#include "replay/trace/trace.h"
#include "spillway/result.h"

namespace spillway {

// Seconds to compute the first `tokens` tokens of a context: 8 billion weights
// (16.06 GFLOP a token) and attention over what is before (0.524 MFLOP a token
// and token before it: 4 x 32 layers x 4096), at 400 TFLOP/s. Only ratios of it
// are shown, so the speed does not matter; what matters is that the 30,000th
// token costs twice the first.
double PrefillSeconds(double tokens);

// Bytes of one token's keys and values of the same model: 32 layers x 2 x 8
// heads x 128 x 2 bytes.
inline constexpr std::uint64_t kBytesPerToken = 131'072;

struct ReplayResult {
  std::uint64_t requests = 0;
  std::uint64_t references = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t hit_tokens = 0;
  double saved_s = 0;         // Of prefill.
  double most_saved_s = 0;    // With room for everything.
  std::uint64_t entered = 0;  // Blocks.
  double token_hit_ratio() const;
  double saved_ratio() const;
};

// Called now and then with the number of requests served.
using ReplayProgress = std::function<void(std::size_t)>;

// Which request uses each reference's block next, for oracles: one entry for
// each reference, in order.
std::vector<std::uint32_t> NextUses(const Trace& trace);

// `next_uses` may be empty for those who need none.
ReplayResult Replay(const Trace& trace, const std::vector<RequestFlags>& flags,
                    const std::vector<std::uint32_t>& next_uses, BlockCache* cache,
                    const ReplayProgress& progress);

// "5%" of the trace's unique blocks, "2M-tokens", "4096-blocks" or "4096", with
// k, M, G (thousands) or Ki, Mi, Gi (1024s): blocks, at least 1.
Result<std::size_t> ParseCapacity(std::string_view text, const Trace& trace);

}  // namespace spillway
