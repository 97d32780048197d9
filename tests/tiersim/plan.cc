// SPDX-License-Identifier: Apache-2.0
#include "tiersim/plan.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "sim/value.h"

namespace spillway::tiersim {

namespace {

using sim::Rng;
using std::chrono::milliseconds;

void DrawKeys(Rng& rng, Plan* plan) {
  const std::size_t count = rng.LogBetween(3, 240);
  for (std::size_t i = 0; i < count; ++i) {
    // Some keys fit into a slot, some do not.
    plan->keys.push_back(i % 7 == 3 ? fmt::format("context:agent-{}-of-many", i)
                                    : fmt::format("k{}", i));
  }
  plan->chain = rng.OneOf<std::size_t>({1, 1, 2, 5, 20});
  plan->parent_percent = rng.OneOf<std::uint32_t>({50, 90, 100});
  plan->value_max = rng.OneOf<Bytes>({0, 200, 3000, 4096, 9000, 9000, 20000, 60000});
  plan->equal_sizes = rng.Percent(25);
  plan->tokens_max = rng.OneOf<Tokens>({0, 10, 1000, 100000});
}

void DrawTiers(Rng& rng, Plan* plan) {
  const auto which = rng.ByWeight(std::array<std::uint32_t, 4>{50, 20, 15, 15}, 100);
  plan->tiers[0].there = which != 3;
  plan->tiers[1].there = which != 2;
  plan->tiers[2].there = which != 1;
  plan->chunk = Bytes{4096} << rng.Below(3);
  const Bytes usual = std::max<Bytes>(plan->value_max / (plan->equal_sizes ? 1 : 3), 200);
  const Bytes all = usual * plan->keys.size();
  for (const TierId tier : kTierIds) {
    TierPlan& one = plan->tiers[IndexOf(tier)];
    if (!one.there) continue;
    // Room for a few entries up to all of them, in lower tiers more often for all.
    const Bytes share = rng.OneOf<Bytes>({8, 20, 40, 70, 150}) * (1 + IndexOf(tier));
    Bytes capacity = std::clamp<Bytes>(all * share / 100, 2 * plan->chunk, 4 * kMiB);
    // Blobs take whole pages, and one for the header.
    if (tier == TierId::kDisk) {
      capacity =
          std::max<Bytes>(capacity + plan->keys.size() * 4096 * share / 100, 16 * Plan::kPage);
    }
    one.capacity = (capacity + Plan::kPage - 1) / Plan::kPage * Plan::kPage;
    one.total = (one.capacity + plan->chunk - 1) / plan->chunk * plan->chunk *
                rng.OneOf<Bytes>({1, 1, 2, 4});
    one.shape = static_cast<sim::Curve::Shape>(rng.Below(sim::Curve::kShapes));
    const bool calm = rng.Percent(40);
    one.low = calm ? 0 : 0.5 * rng.Unit();
    one.high = calm ? 0.1 : std::min(1.0, one.low + 0.2 + 0.7 * rng.Unit());
    one.period = plan->tick * static_cast<std::int64_t>(rng.LogBetween(100, 20000));
  }
  plan->shared = rng.Percent(40);
  if (plan->Has(TierId::kDevice) && plan->shared && rng.Percent(50)) {
    plan->reserve = plan->tiers[0].total / rng.Between(10, 30);
  }
}

void DrawOptions(Rng& rng, Plan* plan) {
  Options& options = plan->options;
  plan->tick = milliseconds(rng.LogBetween(1, 100));
  plan->still_percent = rng.OneOf<std::uint32_t>({0, 20, 60, 90});
  const auto ticks = [&](std::uint64_t low, std::uint64_t high) {
    return plan->tick * static_cast<std::int64_t>(rng.LogBetween(low, high));
  };
  options.policy = rng.OneOf<const char*>({"documented", "documented", "lru", "hybrid"});
  options.idle_normal = ticks(20, 2000);
  options.idle_critical = rng.Percent(80) ? options.idle_normal / 4 : ticks(20, 2000);
  options.ttl.reset();
  if (rng.Percent(40)) options.ttl = ticks(50, 4000);
  if (rng.Percent(30)) options.host_ttl = ticks(50, 8000);
  if (rng.Percent(20)) options.disk_ttl = ticks(200, 20000);
  options.dwell = rng.Percent(15) ? Duration::zero() : ticks(5, 300);
  options.exit_band = rng.OneOf<double>({0, 0.02, 0.02, 0.1});
  options.sample_period = std::max<Duration>(milliseconds(1), ticks(5, 80));
  if (rng.Percent(30)) {
    Thresholds& t = options.thresholds;
    t.normal = 0.2 + 0.3 * rng.Unit();
    t.pressure = t.normal + 0.05 + 0.2 * rng.Unit();
    t.critical = t.pressure + 0.02 + 0.1 * rng.Unit();
    t.emergency = t.critical + 0.02 + 0.05 * rng.Unit();
  }
  options.write_back_after.reset();
  if (rng.Percent(75)) options.write_back_after = ticks(1, 300);
  options.scrub_every.reset();
  if (rng.Percent(40)) options.scrub_every = ticks(50, 3000);
  options.emergency_time = rng.Percent(20) ? Duration::zero() : ticks(2, 200);
  options.disk_read_back = rng.Percent(60);
  options.entries_max = 1 << 12;
  options.reserve = rng.Percent(20) ? 0.05 : 0;  // Of the host tier.
  options.reserve_bytes_min = 0;
  options.token_budget.reset();
  if (rng.Percent(20)) {
    options.token_budget =
        plan->tokens_max * static_cast<Tokens>(rng.Between(1, plan->keys.size())) / 2;
  }
  plan->hash_bits = rng.Percent(20) ? static_cast<int>(rng.Between(6, 14)) : 64;
  plan->moves_per_step = rng.OneOf<std::size_t>({1, 3, 20, 4096});
  plan->ttl_percent = rng.OneOf<std::uint32_t>({0, 0, 10, 40});
  plan->ttl_max = ticks(20, 3000);
  plan->sampled = rng.Percent(60);
}

void DrawWeights(Rng& rng, Plan* plan) {
  plan->clients = rng.LogBetween(1, 24);
  plan->leases_max = rng.OneOf<std::size_t>({0, 1, 4, 16});
  plan->hurried_percent = rng.OneOf<std::uint32_t>({0, 10, 40});
  plan->queue_percent = static_cast<std::uint32_t>(rng.Between(40, 85));
  plan->slow_percent = rng.OneOf<std::uint32_t>({0, 0, 5, 40});
  plan->fail_percent = rng.OneOf<std::uint32_t>({0, 0, 2, 15});
  plan->tear_percent = rng.OneOf<std::uint32_t>({0, 0, 2, 10});
  const std::array<std::uint32_t, kDos - 1> usual = {300, 150, 40, 60, 100, 30, 1,  20, 15, 10,
                                                     20,  8,   60, 30, 25,  1,  20, 4,  2,  5,
                                                     4,   4,   3,  4,  1,   1,  80, 20};
  for (std::size_t i = 0; i < usual.size(); ++i) {
    const std::uint64_t luck = rng.Below(10);
    plan->weights[i] = luck < 5 ? usual[i] * 4 : luck < 7 ? 0 : usual[i] * 10;
  }
  const auto weight = [&](Do what) -> std::uint32_t& {
    return plan->weights[static_cast<std::size_t>(what)];
  };
  weight(Do::kSet) = std::max(weight(Do::kSet), 600U);
  weight(Do::kGet) = std::max(weight(Do::kGet), 300U);
  weight(Do::kRelease) = std::max(weight(Do::kRelease), 200U);
  weight(Do::kSample) = std::max(weight(Do::kSample), plan->sampled ? 0U : 100U);
  weight(Do::kDiskBackground) = std::max(weight(Do::kDiskBackground), 40U);
  if (!plan->Has(TierId::kDisk)) {
    for (const Do disk : {Do::kFileFaults, Do::kBitRot, Do::kSlowDisk}) weight(disk) = 0;
  }
  // Also worlds without any fault: nothing may be lost there.
  if (rng.Percent(35)) {
    for (const Do wrong : {Do::kTierRefuses, Do::kFileFaults, Do::kBitRot}) weight(wrong) = 0;
    plan->fail_percent = plan->tear_percent = 0;
  }
  plan->graph = rng.Percent(50);
  if (plan->graph && rng.Percent(30)) plan->options.policy = "workflow";
  plan->options.prefetch_steps = rng.OneOf<std::uint64_t>({0, 1, 1, 3});
  if (!plan->graph) weight(Do::kGraph) = weight(Do::kHint) = 0;
  weight(Do::kRestart) = rng.Percent(25) ? 3 : 0;
  weight(Do::kCrash) = rng.Percent(40) ? 4 : 0;
  weight(Do::kDeadline) = plan->keys.size() % 3 == 0 ? 0 : 60;
  plan->gone_percent = rng.OneOf<std::uint32_t>({0, 10, 40});
  if (weight(Do::kCrash) > 0) plan->kill_percent = rng.OneOf<std::uint32_t>({0, 5, 30});
  plan->weights_sum = 0;
  for (const std::uint32_t w : plan->weights) plan->weights_sum += w;
}

}  // namespace

Plan Plan::Draw(std::uint64_t seed) {
  Rng rng(seed * 2 + 1);
  Plan plan;
  DrawKeys(rng, &plan);
  DrawOptions(rng, &plan);
  DrawTiers(rng, &plan);
  DrawWeights(rng, &plan);
  // Drawn last, so that worlds with another policy stay as they were.
  if (plan.options.policy != "workflow" && rng.Percent(20)) {
    plan.options.policy = "score";
    plan.options.history_entries = rng.OneOf<std::uint64_t>({0, 4, 1000});
  }
  return plan;
}

std::string Plan::Describe() const {
  const auto ms = [](Duration d) { return std::chrono::duration_cast<milliseconds>(d).count(); };
  const auto maybe = [&](const std::optional<Duration>& d) {
    return d ? fmt::format("{} ms", ms(*d)) : std::string("none");
  };
  std::string text = fmt::format(
      "{} keys (chains of {}), values to {} bytes{}, policy {}{}, chunk {}, reserve {}\n",
      keys.size(), chain, value_max, equal_sizes ? ", all alike" : "", options.policy,
      graph ? " with a step graph" : "", chunk, reserve);
  for (const TierId tier : kTierIds) {
    const TierPlan& one = tiers[IndexOf(tier)];
    if (!one.there) continue;
    text += fmt::format("{}: {} of {} bytes, others {:.2f}..{:.2f} shape {} over {} ms\n",
                        Name(tier), one.capacity, one.total, one.low, one.high,
                        static_cast<int>(one.shape), ms(one.period));
  }
  return text +
         fmt::format(
             "tick {} ms, ttl {} / {} / {}, idle {} and {} ms, dwell {} ms, emergency {} ms, "
             "write behind {}, scrub {}, budget {}\n"
             "{} clients, {} leases, moves: {} % slow, {} % fail, {} % torn\n",
             ms(tick), maybe(options.ttl), maybe(options.host_ttl), maybe(options.disk_ttl),
             ms(options.idle_normal), ms(options.idle_critical), ms(options.dwell),
             ms(options.emergency_time), maybe(options.write_back_after),
             maybe(options.scrub_every), options.token_budget.value_or(-1), clients, leases_max,
             slow_percent, fail_percent, tear_percent);
}

}  // namespace spillway::tiersim
