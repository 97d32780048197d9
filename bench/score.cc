// What the orders earn in the cache itself: a trace driven through Cache, chain
// by chain, on a clock of its own, beside what `spillway replay` says of the
// same trace, capacity and hints. Reads traces from ../shared/traces beside the
// repository, or the one named:
//
//   score [TRACE CAPACITY [FLAGS [REQUESTS]]]     FLAGS: end, bit:E or none
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/support/measure.h"
#include "cache/core.h"
#include "replay/order/orders.h"
#include "replay/replay.h"
#include "replay/trace/read_trace.h"
#include "spillway/testing.h"
#include "tier/virtual_tier.h"

namespace spillway::bench {
namespace {

constexpr Bytes kTokenBytes = 1024;

[[noreturn]] void Stop(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}

struct Job {
  std::string trace;
  std::string capacity;
  std::string flags;
  std::size_t requests = 0;  // 0: all.
};

struct Outcome {
  double hit_ratio = 0;
  double seconds = 0;
  std::size_t cut_short = 0;  // Requests whose end found no room.
  Stats stats;
};

// The first requests of a trace, counted as they are.
void Shorten(Trace* trace, std::size_t requests) {
  if (requests == 0 || requests >= trace->requests.size()) return;
  trace->requests.resize(requests);
  trace->references = trace->input_tokens = 0;
  std::vector<std::uint8_t> seen(trace->unique_blocks);
  std::size_t unique = 0;
  TraceWalk walk(*trace);
  while (walk.more()) {
    trace->input_tokens += trace->requests[walk.next()].tokens;
    for (const BlockId block : walk.Next()) {
      ++trace->references;
      unique += seen[block] == 0 ? 1 : 0;
      seen[block] = 1;
    }
  }
  fmt::print("  the first {} requests: {} unique blocks\n", requests, unique);
}

Outcome Through(const Trace& trace, const std::vector<RequestFlags>& flags,
                const std::vector<std::string>& names, std::string_view policy,
                std::size_t blocks) {
  static constexpr char kByte = 0;
  const Bytes bytes = trace.block_tokens * kTokenBytes;
  const auto clock = std::make_shared<testing::ManualClock>();
  Options options;
  options.clock = clock;
  options.policy = policy;
  options.ttl.reset();
  options.token_budget.reset();
  Core::Parts parts;
  parts.tiers.device = std::make_unique<VirtualTier>(blocks * bytes);
  parts.total = blocks * bytes;
  auto core = Core::Open(options, std::move(parts));
  if (!core) Stop(core.error().message);
  const std::unique_ptr<Cache> cache = Core::Wrap(std::move(*core));

  Outcome outcome;
  double hit_tokens = 0;
  std::vector<std::string_view> keys;
  const double begun = ThreadCpuSeconds();
  TraceWalk walk(trace);
  while (walk.more()) {
    const std::size_t number = walk.next();
    const TraceRequest& request = trace.requests[number];
    clock->Set(TimePoint(std::chrono::milliseconds(request.at_ms)));
    keys.clear();
    for (const BlockId block : walk.Next()) keys.push_back(names[block]);
    if (keys.empty()) continue;
    GetOptions said;
    if (flags[number].again >= 0) said.hint = flags[number].again == 1 ? Hint::kAgain : Hint::kDone;
    if (flags[number].done) said.hint = Hint::kDone;
    const std::string step = request.state == 0 ? "" : fmt::format("state{}", request.state);
    said.step = step;
    // What is said of the request is said of the end of its chain.
    const std::size_t there = cache->Match(keys);
    const std::vector<Lease> run =
        there == keys.size() ? cache->GetChain(keys, said) : cache->GetChain(keys);
    hit_tokens += static_cast<double>(
        std::min<std::uint64_t>(std::uint64_t{trace.block_tokens} * run.size(), request.tokens));
    for (std::size_t i = run.size(); i < keys.size(); ++i) {
      SetOptions set;
      set.tokens = trace.block_tokens;
      if (i > 0) set.parent = keys[i - 1];
      if (i + 1 == keys.size()) {
        set.hint = said.hint;
        set.step = said.step;
      }
      if (!cache->Set(keys[i], Source(&kByte, bytes), set)) {
        ++outcome.cut_short;
        break;
      }
    }
  }
  outcome.seconds = ThreadCpuSeconds() - begun;
  outcome.hit_ratio = hit_tokens / static_cast<double>(trace.input_tokens);
  outcome.stats = cache->stats();
  return outcome;
}

void Run(const Job& job) {
  auto trace = ReadTrace(job.trace, {});
  if (!trace) Stop(trace.error().message);
  fmt::print("{} at {}{}{}\n", trace->name, job.capacity, job.flags.empty() ? "" : ", flags ",
             job.flags);
  const auto blocks = ParseCapacity(job.capacity, *trace);
  if (!blocks) Stop(blocks.error().message);
  Shorten(&*trace, job.requests);
  const auto kind = ParseFlags(job.flags);
  if (!kind) Stop(kind.error().message);
  const std::vector<RequestFlags> flags = MakeFlags(*trace, *kind, 1);
  std::vector<std::string> names;
  for (std::size_t block = 0; block < trace->unique_blocks; ++block) {
    names.push_back(fmt::format("b{:x}", block));
  }
  fmt::print("  {:<11} {:>8} {:>8} {:>9} {:>9} {:>9}\n", "policy", "cache", "replay", "us/request",
             "returns", "fallbacks");
  for (const std::string_view policy : {"lru", "documented", "score"}) {
    const Outcome cache = Through(*trace, flags, names, policy, *blocks);
    const auto shadow = std::move(MakeReplayPolicy(policy, *blocks, trace->block_tokens).value());
    const double replay = Replay(*trace, flags, {}, shadow.get(), {}).token_hit_ratio();
    fmt::print("  {:<11} {:>8.4f} {:>8.4f} {:>9.1f} {:>9} {:>9}{}\n", policy, cache.hit_ratio,
               replay, cache.seconds / static_cast<double>(trace->requests.size()) * 1e6,
               cache.stats.score.returns, cache.stats.score.fallbacks,
               cache.cut_short > 0 ? fmt::format("  {} cut short", cache.cut_short) : "");
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  if (argc >= 3) {
    Run({argv[1], argv[2], argc > 3 && std::string_view(argv[3]) != "none" ? argv[3] : "",
         argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 0});
    return 0;
  }
  const std::string chat = "../shared/traces/mooncake_conversation.jsonl.gz";
  const std::string agents = "../shared/traces/weka_claude_code.jsonl.gz";
  if (!std::filesystem::exists(chat) || !std::filesystem::exists(agents)) {
    fmt::print("skipped: no traces in ../shared/traces; name one: score TRACE CAPACITY [FLAGS]\n");
    return 0;
  }
  for (const char* capacity : {"1%", "5%"}) Run({chat, capacity, "", 0});
  Run({chat, "5%", "end", 0});
  for (const char* capacity : {"2048", "4096"}) Run({agents, capacity, "end", 12'000});
  return 0;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) { return spillway::bench::Main(argc, argv); }
