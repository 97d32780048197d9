// SPDX-License-Identifier: Apache-2.0
// Replays a trace through a cache without bytes: which requests would have been hits, how much time
// that would have saved, and how many blocks would have been inserted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "replay/flags.h"
#include "replay/order/block_cache.h"
#include "replay/trace/trace.h"
#include "spillway/result.h"

namespace spillway {

// Seconds to compute the first `tokens` tokens of a context: 8 billion weights (16.06 GFLOP per
// token) and attention over all tokens before (0.524 MFLOP per token and earlier token: 4 x 32
// layers x 4096), at 400 TFLOP/s. Only ratios of it are shown, so the speed does not matter. It
// matters that the 30,000th token costs twice the first.
double PrefillSeconds(double tokens);

// Bytes of one token's keys and values in the same model: 32 layers x 2 x 8 heads x 128 x 2 bytes.
inline constexpr std::uint64_t kBytesPerToken = 131'072;

// Sums over a whole replay.
struct ReplayResult {
  std::uint64_t requests = 0;
  std::uint64_t references = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t hit_tokens = 0;
  double saved_s = 0;         // Seconds of prefill saved by hits.
  double most_saved_s = 0;    // The same with unlimited capacity.
  double input_s = 0;         // Seconds of prefill without a cache.
  std::uint64_t entered = 0;  // Blocks inserted.
  double token_hit_ratio() const;
  double saved_ratio() const;
  // Remaining prefill time, as a share of the time without a cache.
  double waited_ratio() const;
};

// Called from time to time with the number of requests served.
using ReplayProgress = std::function<void(std::size_t)>;

// For orders that know the future: which request uses each reference's block next. One element for
// each reference, in order.
std::vector<std::uint32_t> NextUses(const Trace& trace);

// Runs the whole trace. `next_uses` may be empty unless the order needs it (NeedsNextUse).
ReplayResult Replay(const Trace& trace, const std::vector<RequestFlags>& flags,
                    const std::vector<std::uint32_t>& next_uses, BlockCache* cache,
                    const ReplayProgress& progress);

// Parses a capacity: "5%" of the trace's unique blocks, "2M-tokens", "4096-blocks" or "4096", with
// k, M, G (thousands) or Ki, Mi, Gi (1024s). Returns blocks, at least 1.
Result<std::size_t> ParseCapacity(std::string_view text, const Trace& trace);

}  // namespace spillway
