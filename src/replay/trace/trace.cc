// SPDX-License-Identifier: Apache-2.0
#include "replay/trace/trace.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace spillway {

std::span<const BlockId> TraceWalk::Next() {
  const TraceRequest& request = trace_.requests[next_++];
  std::vector<BlockId>& chain = chains_[request.stream];
  chain.resize(request.kept);
  const auto from = trace_.blocks.begin() + static_cast<std::ptrdiff_t>(request.begin);
  chain.insert(chain.end(), from, from + request.count);
  return chain;
}

std::size_t TraceBuilder::HashKey::operator()(const Key& key) const {
  std::uint64_t h = key.raw * 0x9E3779B97F4A7C15U;
  h ^= (std::uint64_t{key.parent} << 32 | key.scope) + (h >> 29);
  h *= 0xBF58476D1CE4E5B9U;
  return static_cast<std::size_t>(h ^ (h >> 32));
}

TraceBuilder::Stream TraceBuilder::StreamOf(const std::string& key) {
  const auto [found, made] =
      stream_numbers_.try_emplace(key, static_cast<std::uint32_t>(growing_.size()));
  if (made) growing_.emplace_back();
  const Growing& growing = growing_[found->second];
  return {found->second, growing.raw.size(), growing.at_ms};
}

std::uint64_t TraceBuilder::SessionOf(const std::string& key) {
  return session_numbers_.try_emplace(key, session_numbers_.size() + 1).first->second;
}

void TraceBuilder::Add(TraceRequest request, std::uint32_t stream, std::size_t kept,
                       std::span<const std::uint64_t> fresh, std::uint32_t scope) {
  Growing& growing = growing_[stream];
  growing.at_ms = request.at_ms;
  growing.raw.resize(kept);
  growing.raw.insert(growing.raw.end(), fresh.begin(), fresh.end());
  std::vector<BlockId>& chain = growing.blocks;
  chain.resize(std::min(chain.size(), kept / group_));

  request.stream = stream;
  request.kept = static_cast<std::uint32_t>(chain.size());
  request.begin = trace_.blocks.size();
  for (std::size_t i = chain.size() * group_; i + group_ <= growing.raw.size(); i += group_) {
    const BlockId parent = chain.empty() ? kNoBlock : chain.back();
    // A group is named by its last id, which stands for the whole prefix.
    const Key key{growing.raw[i + group_ - 1], parent, chain.empty() ? scope : 0};
    const BlockId id = ids_.try_emplace(key, static_cast<BlockId>(ids_.size())).first->second;
    chain.push_back(id);
    trace_.blocks.push_back(id);
  }
  request.count = static_cast<std::uint32_t>(chain.size() - request.kept);
  trace_.references += chain.size();
  trace_.input_tokens += request.tokens;
  trace_.requests.push_back(request);
}

// Times of one stream never decrease, and requests with equal times keep their order: so each chain
// still follows the one it grew from.
Trace TraceBuilder::Finish() {
  std::vector<std::uint32_t> order(trace_.requests.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {},
                    [this](std::uint32_t i) { return std::pair(trace_.requests[i].at_ms, i); });
  std::vector<TraceRequest> sorted;
  sorted.reserve(order.size());
  for (const std::uint32_t i : order) sorted.push_back(trace_.requests[i]);
  trace_.requests = std::move(sorted);
  trace_.streams = static_cast<std::uint32_t>(growing_.size());
  trace_.unique_blocks = ids_.size();
  return std::move(trace_);
}

}  // namespace spillway
