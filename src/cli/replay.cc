// SPDX-License-Identifier: Apache-2.0
// spillway replay: a trace of requests through caches of several sizes and orders that store no
// bytes.
#include "cli/replay.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/arguments.h"
#include "base/parse.h"
#include "cli/complain.h"
#include "cli/replay_progress.h"
#include "replay/order/orders.h"
#include "replay/plot.h"
#include "replay/replay.h"
#include "replay/trace/read_trace.h"

namespace spillway {
namespace {

constexpr int kCantWrite = 1;

constexpr const char* kReplayAbout =
    R"(A trace of requests through caches of several sizes and orders: what each would
have hit, and what that would have saved. No bytes are stored.)";

constexpr const char* kReplayMore = R"(
Policies:
  score, workflow, documented, hybrid, seed; for comparison lru, lfu, s3-fifo,
  w-tinylfu, arc, lru-2, belady (which is told the future)
Columns:
  hit      share of input tokens that were in the cache, as an unbroken beginning
  saved    share of the seconds of prefill that could be saved, by a cost that
           grows with length (saved_ratio with --json)
  moved    what entered the cache, at 128 KiB a token

Try:
  spillway replay --trace trace.jsonl.gz --policy score,lru,belady --capacity 1%,5%,25%

docs/reference/replay.md has the formats, the rules and the cost model.)";

struct ReplayFlags {
  std::string trace;
  std::string format;
  std::vector<std::string> policies = {"score", "lru", "belady"};
  std::vector<std::string> capacities = {"1%", "5%", "25%"};
  std::string spacing = "60s";
  std::string flags;
  std::uint64_t seed = 1;
  std::uint32_t group = 0;
  bool json = false;
  bool skip_bad = false;
  std::string plot;
};

struct Row {
  std::string policy;
  std::size_t blocks = 0;
  ReplayResult result;
  double seconds = 0;
};

void DescribeReplay(CLI::App* app, ReplayFlags* flags) {
  app->add_option("--trace", flags->trace,
                  "the trace, compressed by gzip or not; - reads standard input")
      ->required()
      ->option_text("FILE");
  app->add_option("--policy", flags->policies, "orders to compare; without it score,lru,belady")
      ->delimiter(',')
      ->option_text("A,B,..");
  app->add_option("--capacity", flags->capacities,
                  "sizes: % of the trace's unique blocks, tokens or blocks, as in "
                  "5%,2M-tokens,4096; without it 1%,5%,25%")
      ->delimiter(',')
      ->option_text("C,D,..");
  app->add_option("--flags", flags->flags,
                  "what clients tell: end (a session's last request says so) or bit:E (each says "
                  "whether it will be back, a share E of them wrongly)")
      ->option_text("KIND");
  app->add_option("--spacing", flags->spacing,
                  "time between starts of sessions that have no time of day; without it 60s")
      ->option_text("TIME");
  app->add_option("--format", flags->format,
                  "mooncake, weka, lmcache, dynamo or log; without it found by itself")
      ->option_text("NAME");
  app->add_option("--group", flags->group,
                  "ids of the trace that make one block; without it 8 for weka, else 1")
      ->option_text("N")
      ->check(CLI::Range(1U, 65536U));
  app->add_option("--seed", flags->seed, "of the wrong bits; without it 1")->option_text("N");
  app->add_option("--plot", flags->plot, "writes a picture of hit ratio over capacity")
      ->option_text("FILE.svg");
  app->add_flag("--json", flags->json, "one object a line");
  app->add_flag("--skip-bad", flags->skip_bad, "counts malformed lines and continues");
  app->footer(kReplayMore);
}

Result<Trace> Read(const ReplayFlags& flags, ReplayProgressBar* bar) {
  const Result<Duration> spacing = ParseDuration(flags.spacing);
  if (!spacing) {
    return Error{Code::kInvalidArgument, fmt::format("--spacing: {}", spacing.error().message)};
  }
  const auto spacing_ms = std::chrono::duration_cast<std::chrono::milliseconds>(*spacing).count();
  if (spacing_ms > std::int64_t{1} << 36) {
    return Error{Code::kInvalidArgument, "--spacing: expected at most 2 years"};
  }
  ReadOptions options;
  options.format = flags.format;
  options.spacing_ms = spacing_ms;
  options.group = flags.group;
  options.skip_bad = flags.skip_bad;
  options.progress = [bar](std::optional<double> share) {
    bar->Show("reading", share.value_or(-1));
  };
  std::size_t told = 0;
  options.skipped = [&told, bar](const std::string& what) {
    constexpr std::size_t kToldMax = 5;
    if (++told > kToldMax) return;
    bar->Clear();
    fmt::print(stderr, "spillway replay: skipped {}{}\n", what,
               told == kToldMax ? "; further ones are only counted" : "");
  };
  return ReadTrace(flags.trace, options);
}

void PrintJson(const ReplayFlags& flags, const Trace& trace, const Row& row) {
  const std::uint64_t tokens = std::uint64_t{row.blocks} * trace.block_tokens;
  nlohmann::ordered_json line = {
      {"trace", trace.name},
      {"format", trace.format},
      {"policy", row.policy},
      {"flags", flags.flags},
      {"seed", flags.seed},
      {"capacity_blocks", row.blocks},
      {"capacity_tokens", tokens},
      {"block_tokens", trace.block_tokens},
      {"requests", row.result.requests},
      {"references", row.result.references},
      {"unique_blocks", trace.unique_blocks},
      {"input_tokens", row.result.input_tokens},
      {"token_hit_ratio", row.result.token_hit_ratio()},
      {"saved_ratio", row.result.saved_ratio()},
      {"waited_s", row.result.waited_ratio()},
      {"moved_bytes", row.result.entered * trace.block_tokens * kBytesPerToken},
      {"bad_lines", trace.bad_lines},
      {"seconds", row.seconds},
  };
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void PrintHead(const ReplayFlags& flags, const Trace& trace) {
  fmt::print("{}: {} requests, {} references of {}-token blocks, {} unique, {} input tokens{}\n",
             trace.name, trace.requests.size(), trace.references, trace.block_tokens,
             trace.unique_blocks, trace.input_tokens,
             trace.bad_lines > 0 ? fmt::format(", {} bad lines skipped", trace.bad_lines) : "");
  if (flags.flags.starts_with("bit")) fmt::print("flags {}, seed {}\n", flags.flags, flags.seed);
  if (flags.flags == "end") fmt::print("flags end\n");
  fmt::print("\n{:>9}  {:>11}  {:<10}  {:>6}  {:>7}  {:>11}  {:>8}\n", "blocks", "tokens", "policy",
             "hit", "saved", "moved", "M refs/s");
}

void PrintRow(const Trace& trace, const Row& row) {
  fmt::print("{:>9}  {:>11}  {:<10}  {:.4f}  {:>7.4f}  {:>11}  {:>8.1f}\n", row.blocks,
             std::uint64_t{row.blocks} * trace.block_tokens, row.policy,
             row.result.token_hit_ratio(), row.result.saved_ratio(),
             FormatBytes(row.result.entered * trace.block_tokens * kBytesPerToken),
             static_cast<double>(row.result.references) / std::max(row.seconds, 1e-9) / 1e6);
}

// Belady's order is optimal for hits of single blocks; the columns count other things.
void PrintNote(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const auto is_its_belady = [&](const Row& other) {
      return other.policy == "belady" && other.blocks == row.blocks;
    };
    const auto belady = std::ranges::find_if(rows, is_its_belady);
    if (belady == rows.end()) continue;
    const double hit = row.result.token_hit_ratio();
    const double saved = row.result.saved_ratio();
    if (hit <= belady->result.token_hit_ratio() && saved <= belady->result.saved_ratio()) continue;
    fmt::print(
        "\n{} is above belady here: belady evicts the block with the farthest next use, which is "
        "best\nfor hits of single blocks. A hit counts only in an unbroken beginning, long "
        "prefixes "
        "save more\nthan their share, and belady may not refuse a new block: a policy that weighs "
        "these can pass it.\n",
        row.policy);
    return;
  }
}

int WritePlot(const ReplayFlags& flags, const Trace& trace, const std::vector<Row>& rows) {
  std::vector<PlotLine> lines;
  for (const std::string& policy : flags.policies) {
    PlotLine line{policy, {}};
    for (const Row& row : rows) {
      if (row.policy != policy) continue;
      line.points.push_back(
          {static_cast<double>(row.blocks) * trace.block_tokens, row.result.token_hit_ratio()});
    }
    lines.push_back(std::move(line));
  }
  std::ofstream file(flags.plot, std::ios::binary);
  file << PlotHitRatios("Token hit ratio, " + trace.name, std::move(lines));
  file.close();
  if (file) return 0;
  fmt::print(stderr, "spillway replay: can't write '{}': {}\n", flags.plot, std::strerror(errno));
  return kCantWrite;
}

// Finds all mistakes before the long work begins.
Result<std::vector<std::size_t>> Check(const ReplayFlags& flags, const Trace& trace) {
  std::vector<std::size_t> capacities;
  for (const std::string& text : flags.capacities) {
    const Result<std::size_t> capacity = ParseCapacity(text, trace);
    if (!capacity) return capacity.error();
    capacities.push_back(*capacity);
  }
  return capacities;
}

Row RunOne(const std::string& policy, std::size_t blocks, const Trace& trace,
           const std::vector<RequestFlags>& hints, const std::vector<std::uint32_t>& next_uses,
           ReplayProgressBar* bar) {
  static const std::vector<std::uint32_t> kNoFuture;
  const auto cache = std::move(MakeReplayPolicy(policy, blocks, trace.block_tokens).value());
  const auto begin = std::chrono::steady_clock::now();
  Row row{policy, blocks, {}, 0};
  row.result =
      Replay(trace, hints, NeedsNextUse(policy) ? next_uses : kNoFuture, cache.get(),
             [&](std::size_t number) {
               bar->Show(fmt::format("{} at {} blocks", policy, blocks),
                         static_cast<double>(number) / static_cast<double>(trace.requests.size()));
             });
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bar->Clear();
  return row;
}

int Replay(const ReplayFlags& flags) {
  const Result<FlagSettings> settings = ParseFlags(flags.flags);
  if (!settings) return Complain("replay", settings.error().message);
  for (const std::string& policy : flags.policies) {
    if (auto made = MakeReplayPolicy(policy, 1, 1); !made)
      return Complain("replay", made.error().message);
  }
  ReplayProgressBar bar;
  const Result<Trace> trace = Read(flags, &bar);
  bar.Clear();
  if (!trace) return Complain("replay", trace.error().message);
  const Result<std::vector<std::size_t>> capacities = Check(flags, *trace);
  if (!capacities) return Complain("replay", capacities.error().message);

  const std::vector<RequestFlags> hints = MakeFlags(*trace, *settings, flags.seed);
  std::vector<std::uint32_t> next_uses;
  if (std::ranges::any_of(flags.policies, NeedsNextUse)) next_uses = NextUses(*trace);
  if (!flags.json) PrintHead(flags, *trace);
  std::vector<Row> rows;
  for (const std::size_t capacity : *capacities) {
    for (const std::string& policy : flags.policies) {
      rows.push_back(RunOne(policy, capacity, *trace, hints, next_uses, &bar));
      if (flags.json) {
        PrintJson(flags, *trace, rows.back());
      } else {
        PrintRow(*trace, rows.back());
      }
      std::fflush(stdout);
    }
  }
  if (!flags.json) PrintNote(rows);
  return flags.plot.empty() ? 0 : WritePlot(flags, *trace, rows);
}

}  // namespace

int RunReplay(int argc, char** argv) {
  ReplayFlags flags;
  CLI::App app(kReplayAbout, "spillway replay");
  DescribeReplay(&app, &flags);
  if (const auto status = ReadArguments(&app, argc, argv)) return *status;
  return Replay(flags);
}

}  // namespace spillway
