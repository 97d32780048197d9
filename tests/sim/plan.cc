// SPDX-License-Identifier: Apache-2.0
#include "sim/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "tier/tier.h"

namespace spillway::sim {

namespace {

using std::chrono::milliseconds;

enum class Size : std::uint8_t { kTiny, kSmall, kMiddle, kLarge };

std::string KeyNamed(Rng& rng, std::uint32_t style, std::size_t number) {
  switch (style) {
    case 0:  // Fits into the slot.
      return fmt::format("k{}", number);
    case 1:
      return fmt::format("context:agent-{}/of/a/rather/long/name/{}", number % 7, number);
    case 2: {  // Any bytes, zeros too.
      std::string key(2 + rng.LogBetween(0, 60), '\0');
      for (char& byte : key) byte = static_cast<char>(rng.OneIn(3) ? 0 : rng.Next());
      return key + fmt::format("#{}", number);
    }
    default: {  // Up to the longest there can be.
      std::string key = fmt::format("{}:", number);
      key.resize(rng.OneIn(40) ? kKeyBytesMax : key.size() + rng.LogBetween(0, 400), 'x');
      return key;
    }
  }
}

void DrawKeys(Rng& rng, Size size, Plan* plan) {
  const std::array<std::uint64_t, 4> fewest = {2, 24, 200, 2500};
  const std::array<std::uint64_t, 4> most = {16, 150, 900, 6000};
  const auto at = static_cast<std::size_t>(size);
  const std::uint64_t count = rng.Between(fewest[at], most[at]);
  const auto style = static_cast<std::uint32_t>(rng.Below(5));  // 4: all styles.
  for (std::size_t i = 0; i < count; ++i) {
    plan->keys.push_back(
        KeyNamed(rng, style == 4 ? static_cast<std::uint32_t>(rng.Below(4)) : style, i));
  }
  plan->hot_keys = rng.Between(1, std::min<std::uint64_t>(count, 12));
  plan->hot_percent = size == Size::kLarge ? static_cast<std::uint32_t>(rng.Below(15))
                                           : static_cast<std::uint32_t>(rng.Below(80));
  plan->chain = rng.Percent(50) ? 1 : rng.Between(2, rng.OneIn(4) ? 40 : 6);
  plan->parent_percent = rng.OneOf<std::uint32_t>({0, 50, 90, 100});
}

void DrawCache(Rng& rng, Size size, Plan* plan) {
  Options& options = plan->options;
  options.policy = rng.OneOf<const char*>(
      {"documented", "documented", "documented", "lru", "hybrid", "hybrid", "seed"});
  const bool seed = options.policy == "seed";
  plan->real_bytes = size == Size::kLarge ? rng.Percent(60) : rng.Percent(85);
  if (seed) plan->real_bytes = rng.Percent(50);
  plan->value_max = rng.OneOf<Bytes>({0, 40, 300, 300, 2000, 4096, 9000, 20000});
  if (size == Size::kLarge) plan->value_max = std::min<Bytes>(plan->value_max, 300);
  plan->equal_sizes = rng.Percent(25);
  plan->tokens_max = rng.OneOf<Tokens>({0, 10, 1000, 100000});
  plan->chunk = Bytes{4096} << rng.Below(5);

  // Room for all keys, for half of them, or for a few.
  const Bytes usual = std::max<Bytes>(plan->value_max / (plan->equal_sizes ? 1 : 3), 1);
  const Bytes all = usual * plan->keys.size();
  Bytes capacity = all * rng.OneOf<Bytes>({10, 40, 70, 150, 300}) / 100;
  if (size == Size::kLarge) capacity = all * rng.Between(60, 200) / 100;
  capacity = std::max(capacity, plan->value_max + 1);
  if (!plan->real_bytes) {
    // Sizes of real contexts: no memory is behind them, so they cost nothing.
    plan->capacity = seed || rng.Percent(10) ? Tier::kUnlimited : capacity;
    plan->card = capacity * rng.Between(1, 3);
  } else {
    capacity = std::clamp<Bytes>(capacity, 2 * plan->chunk, 6 * kMiB);
    plan->card =
        (capacity + plan->chunk - 1) / plan->chunk * plan->chunk * rng.OneOf<Bytes>({1, 1, 2, 3});
    plan->capacity = capacity;
    plan->shared = rng.Percent(50);
    if (plan->shared && !seed && rng.Percent(70)) plan->reserve = plan->card / rng.Between(10, 30);
  }
  if (plan->capacity == Tier::kUnlimited) options.unlimited = true;
  options.entries_max = rng.Percent(15) ? rng.Between(1, plan->keys.size() + 4) : 1 << 16;
  if (rng.Percent(10)) options.names_bytes_max = rng.LogBetween(200, 20000);
  const auto expected = static_cast<Tokens>(plan->keys.size());
  options.token_budget.reset();
  if (!seed && rng.Percent(40)) {
    options.token_budget =
        size == Size::kLarge
            ? plan->tokens_max * expected / 2
            : plan->tokens_max * static_cast<Tokens>(rng.Between(1, plan->keys.size())) / 2;
  }
  plan->hash_bits = rng.Percent(25) ? static_cast<int>(rng.Between(6, 14)) : 64;
  plan->moves_per_step = rng.OneOf<std::size_t>({1, 2, 5, 20, 4096});
}

void DrawTime(Rng& rng, Size size, Plan* plan) {
  Options& options = plan->options;
  const bool seed = options.policy == "seed";
  // Preset seed counts in half minutes; the limits of the others are drawn to fit.
  plan->tick = milliseconds(seed ? rng.LogBetween(15, 400) : rng.LogBetween(1, 200));
  plan->still_percent = rng.OneOf<std::uint32_t>({0, 20, 60, 90});
  const auto ticks = [&](std::uint64_t low, std::uint64_t high) {
    return plan->tick * static_cast<std::int64_t>(rng.LogBetween(low, high));
  };
  options.idle_normal = ticks(20, 4000);
  options.idle_critical = rng.Percent(80) ? options.idle_normal / 4 : ticks(20, 4000);
  options.ttl.reset();
  if (!seed && rng.Percent(50)) options.ttl = ticks(size == Size::kLarge ? 8000 : 50, 20000);
  options.dwell = rng.Percent(15) ? Duration::zero() : ticks(5, 300);
  options.exit_band = rng.OneOf<double>({0, 0.02, 0.02, 0.1});
  options.sample_period = std::max<Duration>(milliseconds(1), ticks(5, 80));
  if (seed) {
    options.exit_band = rng.OneOf<double>({0, 0.02});
    options.dwell = rng.Percent(70) ? Duration::zero() : options.dwell;
  }
  if (rng.Percent(30)) {
    Thresholds& t = options.thresholds;
    t.normal = 0.2 + 0.3 * rng.Unit();
    t.pressure = t.normal + 0.05 + 0.2 * rng.Unit();
    t.critical = t.pressure + 0.02 + 0.1 * rng.Unit();
    t.emergency = t.critical + 0.02 + 0.05 * rng.Unit();
  }
  plan->ttl_percent = rng.OneOf<std::uint32_t>({0, 0, 10, 50});
  plan->ttl_max = ticks(20, 3000);
  plan->sampled = rng.Percent(60);
}

void DrawPressure(Rng& rng, Size size, Plan* plan) {
  plan->shape = static_cast<Curve::Shape>(rng.Below(Curve::kShapes));
  plan->foreign = rng.Percent(75);
  plan->real_card = plan->real_bytes && rng.Percent(35);
  plan->low = 0.5 * rng.Unit();
  plan->high = std::min(1.0, plan->low + 0.2 + 0.6 * rng.Unit());
  // A large world needs the memory that others leave.
  if (size == Size::kLarge && rng.Percent(80)) {
    plan->foreign = true;
    plan->low = 0.1 * rng.Unit();
    plan->high = plan->low + 0.5 * rng.Unit();
  }
  plan->curve_period = plan->tick * static_cast<std::int64_t>(rng.LogBetween(50, 20000));
}

void DrawClients(Rng& rng, Size size, Plan* plan) {
  plan->clients = rng.LogBetween(1, 24);
  plan->leases_max = rng.OneOf<std::size_t>({0, 1, 4, 16, 60});
  plan->names_percent = rng.OneOf<std::uint32_t>({0, 5, 50});
  plan->hurried_percent = rng.OneOf<std::uint32_t>({0, 10, 50});
  plan->batch_max = rng.OneOf<std::size_t>({1, 2, 3, 8, 32});
  plan->queue_percent = static_cast<std::uint32_t>(rng.Between(30, 90));

  const std::array<std::uint32_t, kDos> usual = {
      300,                              // set
      120, 120, 10, 20, 30, 120,        // get, read, many, touch, contains, release
      25,  1,   20, 15, 30, 3,          // erase, clear, match, chain, batch, bad set
      20,  10,  5,  1,  1,              // look, tick, relief, stats, start/stop
      6,   6,   6,  4,  1,  20,  3, 0,  // what goes wrong
      0};                               // graph
  for (std::size_t i = 0; i < static_cast<std::size_t>(Do::kGraph); ++i) {
    // Half of the weights stay as they are, a fifth become zero, the rest larger.
    const std::uint64_t luck = rng.Below(10);
    plan->weights[i] = luck < 5 ? usual[i] * 4 : luck < 7 ? 0 : usual[i] * 12;
  }
  const auto weight = [&](Do what) -> std::uint32_t& {
    return plan->weights[static_cast<std::size_t>(what)];
  };
  weight(Do::kSet) = std::max(weight(Do::kSet), 600U);
  weight(Do::kGet) = std::max(weight(Do::kGet), 100U);
  weight(Do::kRelease) = std::max(weight(Do::kRelease), weight(Do::kGet));
  if (!plan->sampled) weight(Do::kTick) = std::max(weight(Do::kTick), 200U);
  weight(Do::kCrash) = rng.Percent(25) ? 4 : 0;
  if (size == Size::kLarge) {
    plan->clients = rng.Between(8, 40);
    plan->queue_percent = static_cast<std::uint32_t>(rng.Between(60, 90));
    weight(Do::kSet) = std::max(weight(Do::kSet), 2500U);
    weight(Do::kClear) = 0;
    weight(Do::kErase) = std::min(weight(Do::kErase), 100U);
    for (const Do rare : {Do::kClockSteps, Do::kSourceLies, Do::kSourceFails, Do::kSourceHangs,
                          Do::kNeighbour, Do::kRefuseMap}) {
      if (rng.Percent(70)) weight(rare) = 0;
    }
  }
  plan->weights_sum = 0;
  for (const std::uint32_t w : plan->weights) plan->weights_sum += w;
}

}  // namespace

std::string Plan::Describe() const {
  const auto ms = [](Duration d) { return std::chrono::duration_cast<milliseconds>(d).count(); };
  return fmt::format(
      "{} keys (chains of {}), values to {} bytes in {} of {} on a card of {} (chunk {}, reserve "
      "{}), policy {}, "
      "{} entries at most, {} token budget, hash of {} bits, {} moves a step;\n"
      "{} clients, {} leases, tick {} ms ({} % still), ttl {} ms, idle {} and {} ms, dwell {} ms, "
      "band {}, "
      "period {} ms{}; pressure {} {:.2f}..{:.2f} over {} ms{}\n",
      keys.size(), chain, value_max, real_bytes ? "real memory" : "counted memory",
      capacity == Tier::kUnlimited ? std::string("no limit") : std::to_string(capacity), card,
      chunk, reserve, options.policy, options.entries_max,
      options.token_budget ? std::to_string(*options.token_budget) : std::string("no"), hash_bits,
      moves_per_step, clients, leases_max, ms(tick), still_percent,
      options.ttl ? ms(*options.ttl) : 0, ms(options.idle_normal), ms(options.idle_critical),
      ms(options.dwell), options.exit_band, ms(options.sample_period), sampled ? " sampled" : "",
      static_cast<int>(shape), low, high, ms(curve_period),
      real_card ? " on the card"
      : foreign ? " of others"
                : "");
}

Plan Plan::Draw(std::uint64_t seed) {
  Rng rng(seed * 2 + 1);
  Plan plan;
  const auto size =
      static_cast<Size>(rng.ByWeight(std::array<std::uint32_t, 4>{20, 30, 17, 33}, 100));
  DrawKeys(rng, size, &plan);
  DrawCache(rng, size, &plan);
  DrawTime(rng, size, &plan);
  DrawPressure(rng, size, &plan);
  DrawClients(rng, size, &plan);
  // Drawn last, so that worlds without a graph stay as they were.
  plan.graph = plan.options.policy != "seed" && rng.Percent(50) &&
               std::ranges::none_of(
                   plan.keys, [](const std::string& key) { return key.starts_with("context:"); });
  if (plan.graph) {
    plan.names_percent = 0;  // No agents: they would be told to the graph.
    std::uint32_t& weight = plan.weights[static_cast<std::size_t>(Do::kGraph)];
    weight = static_cast<std::uint32_t>(rng.LogBetween(4, 400));
    plan.weights_sum += weight;
  }
  // Likewise for worlds with another policy.
  if (plan.options.policy != "seed" && rng.Percent(15)) {
    plan.options.policy = "score";
    plan.options.history_entries = rng.OneOf<std::uint64_t>({0, 4, 1000});
  }
  return plan;
}

}  // namespace spillway::sim
