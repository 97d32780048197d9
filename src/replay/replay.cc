// SPDX-License-Identifier: Apache-2.0
#include "replay/replay.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr double kFlopPerToken = 16.06e9;
constexpr double kFlopPerPair = 0.524288e6;
constexpr double kFlopPerSecond = 400e12;
constexpr std::size_t kProgressRequests = 512;

double RatioOf(double part, double whole) { return whole > 0 ? part / whole : 0; }

// A cache of unlimited capacity: hits the leading run of blocks seen before.
class EverSeen {
 public:
  explicit EverSeen(std::size_t blocks) : seen_(blocks) {}
  std::size_t Serve(std::span<const BlockId> chain) {
    std::size_t run = 0;
    while (run < chain.size() && seen_[chain[run]] != 0) ++run;
    for (std::size_t i = run; i < chain.size(); ++i) seen_[chain[i]] = 1;
    return run;
  }

 private:
  std::vector<std::uint8_t> seen_;
};

double TokensOf(const Trace& trace, std::size_t run, std::uint64_t input) {
  return static_cast<double>(
      std::min<std::uint64_t>(std::uint64_t{trace.block_tokens} * run, input));
}

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 7> kUnits = {{{"Ki", 1024.0},
                                         {"Mi", 1048576.0},
                                         {"Gi", 1073741824.0},
                                         {"k", 1e3},
                                         {"M", 1e6},
                                         {"G", 1e9},
                                         {"", 1}}};

}  // namespace

double PrefillSeconds(double tokens) {
  return (kFlopPerToken * tokens + kFlopPerPair * tokens * tokens / 2) / kFlopPerSecond;
}

double ReplayResult::token_hit_ratio() const {
  return RatioOf(static_cast<double>(hit_tokens), static_cast<double>(input_tokens));
}

double ReplayResult::saved_ratio() const { return RatioOf(saved_s, most_saved_s); }

double ReplayResult::waited_ratio() const { return RatioOf(input_s - saved_s, input_s); }

std::vector<std::uint32_t> NextUses(const Trace& trace) {
  std::vector<std::uint32_t> next(trace.references, kNeverAgain);
  std::vector<std::uint64_t> last(trace.unique_blocks, trace.references);
  std::uint64_t at = 0;
  TraceWalk walk(trace);
  while (walk.more()) {
    const auto number = static_cast<std::uint32_t>(walk.next());
    for (const BlockId block : walk.Next()) {
      if (last[block] < at) next[last[block]] = number;
      last[block] = at++;
    }
  }
  return next;
}

ReplayResult Replay(const Trace& trace, const std::vector<RequestFlags>& flags,
                    const std::vector<std::uint32_t>& next_uses, BlockCache* cache,
                    const ReplayProgress& progress) {
  ReplayResult result;
  EverSeen ever(trace.unique_blocks);
  double hit_tokens = 0;
  TraceWalk walk(trace);
  while (walk.more()) {
    const std::size_t number = walk.next();
    const TraceRequest& request = trace.requests[number];
    Visit visit;
    visit.chain = walk.Next();
    visit.now_s = static_cast<double>(request.at_ms) / 1000;
    visit.session = request.session;
    visit.state = request.state;
    if (flags[number].again >= 0) visit.again = flags[number].again == 1;
    visit.done = flags[number].done;
    visit.number = static_cast<std::uint32_t>(number);
    if (!next_uses.empty()) {
      visit.next_use = std::span(next_uses).subspan(result.references, visit.chain.size());
    }
    const double hit = TokensOf(trace, cache->Serve(visit), request.tokens);
    hit_tokens += hit;
    result.saved_s += PrefillSeconds(hit);
    result.input_s += PrefillSeconds(static_cast<double>(request.tokens));
    result.most_saved_s += PrefillSeconds(TokensOf(trace, ever.Serve(visit.chain), request.tokens));
    result.references += visit.chain.size();
    ++result.requests;
    if (progress && number % kProgressRequests == 0) progress(number);
  }
  result.input_tokens = trace.input_tokens;
  result.hit_tokens = static_cast<std::uint64_t>(hit_tokens);
  result.entered = cache->entered();
  return result;
}

Result<std::size_t> ParseCapacity(std::string_view text, const Trace& trace) {
  const Error bad{Code::kInvalidArgument,
                  fmt::format("capacity: '{}' is not known; expected a share (5%), tokens "
                              "(2M-tokens) or blocks (4096)",
                              text)};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number > 0) || number > 1e15) return bad;
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  double blocks = 0;
  if (rest == "%") {
    if (number > 100) return bad;
    blocks = number / 100 * static_cast<double>(trace.unique_blocks);
  } else {
    const bool tokens = rest.ends_with("-tokens");
    if (tokens || rest.ends_with("-blocks")) rest.remove_suffix(7);
    const auto* unit = std::ranges::find(kUnits, rest, &Unit::name);
    if (unit == kUnits.end()) return bad;
    blocks = number * unit->factor / (tokens ? static_cast<double>(trace.block_tokens) : 1);
  }
  if (blocks > 4e9) return bad;
  return static_cast<std::size_t>(std::max(1LL, std::llround(blocks)));
}

}  // namespace spillway
