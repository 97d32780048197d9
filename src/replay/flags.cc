// SPDX-License-Identifier: Apache-2.0
#include "replay/flags.h"

#include <charconv>
#include <unordered_map>

#include <fmt/format.h>

namespace spillway {
namespace {

// splitmix64: gives the same bits on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  double Next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

// The last request that uses each block.
std::vector<std::uint32_t> LastUses(const Trace& trace) {
  std::vector<std::uint32_t> last(trace.unique_blocks);
  TraceWalk walk(trace);
  while (walk.more()) {
    const auto number = static_cast<std::uint32_t>(walk.next());
    for (const BlockId block : walk.Next()) last[block] = number;
  }
  return last;
}

void SetBits(const Trace& trace, double wrong, std::uint64_t seed,
             std::vector<RequestFlags>* flags) {
  const std::vector<std::uint32_t> last = LastUses(trace);
  Dice dice(seed);
  TraceWalk walk(trace);
  while (walk.more()) {
    const std::size_t number = walk.next();
    const auto chain = walk.Next();
    const bool turned = dice.Next() < wrong;
    if (chain.empty()) continue;
    const BlockId watched = chain[chain.size() > 1 ? chain.size() - 2 : 0];
    (*flags)[number].again = (last[watched] > number) != turned ? 1 : 0;
  }
}

}  // namespace

Result<FlagSettings> ParseFlags(std::string_view text) {
  if (text.empty()) return FlagSettings{};
  if (text == "end") return FlagSettings{FlagSettings::Kind::kEnd, 0};
  if (text.starts_with("bit:")) {
    const std::string_view number = text.substr(4);
    double wrong = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), wrong);
    if (error == std::errc() && end == number.data() + number.size() && wrong >= 0 && wrong <= 1) {
      return FlagSettings{FlagSettings::Kind::kBit, wrong};
    }
  }
  return Error{
      Code::kInvalidArgument,
      fmt::format("flags: '{}' is not known; expected end, or bit:E with E from 0 to 1", text)};
}

std::vector<RequestFlags> MakeFlags(const Trace& trace, const FlagSettings& settings,
                                    std::uint64_t seed) {
  std::vector<RequestFlags> flags(trace.requests.size());
  std::unordered_map<std::uint64_t, std::size_t> last;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    flags[i] = {trace.requests[i].again, trace.requests[i].done};
    last[trace.requests[i].session] = i;
  }
  if (settings.kind == FlagSettings::Kind::kEnd) {
    for (const auto& [session, number] : last) flags[number].done = true;
  } else if (settings.kind == FlagSettings::Kind::kBit) {
    SetBits(trace, settings.wrong, seed, &flags);
  }
  return flags;
}

}  // namespace spillway
