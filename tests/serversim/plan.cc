// SPDX-License-Identifier: Apache-2.0
#include "serversim/plan.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "serversim/requests.h"

namespace spillway::serversim {

namespace {

using sim::Rng;
using std::chrono::milliseconds;

constexpr Bytes kPage = 4096;

void DrawData(Rng& rng, const std::set<std::string>& without, Plan* plan) {
  const std::size_t count = rng.LogBetween(2, 60);
  for (std::size_t i = 0; i < count; ++i) {
    // Some fit into a slot, some do not; one looks like a key of another database.
    plan->keys.push_back(i % 7 == 3    ? fmt::format("a-key-that-is-longer-than-most-{}", i)
                         : i % 11 == 5 ? fmt::format("\xff\x01k{}", i)
                                       : fmt::format("k{}", i));
  }
  plan->databases = static_cast<int>(rng.OneOf<std::uint32_t>({1, 2, 3, 5}));
  plan->value_max = rng.OneOf<Bytes>({60, 2000, 4096, 9000, 9000, 20'000, 60'000, 150'000});
  if (without.contains("large")) plan->value_max = std::min<Bytes>(plan->value_max, 20'000);
  plan->large_percent = rng.OneOf<std::uint32_t>({0, 5, 30, 80});
  plan->end_ms_max = rng.OneOf<std::uint64_t>({50, 2000, 20'000, 500'000});
}

void DrawTiers(Rng& rng, Plan* plan) {
  const auto which = rng.ByWeight(std::array<std::uint32_t, 4>{25, 50, 15, 10}, 100);
  plan->tiers[0].there = true;
  plan->tiers[1].there = which >= 2;
  plan->tiers[2].there = which == 1 || which == 2;
  plan->chunk = kPage << rng.Below(3);
  plan->rules.roomy = rng.Percent(25);
  const Bytes all = std::max<Bytes>(plan->value_max / 3, 200) * plan->keys.size() *
                    static_cast<Bytes>(plan->databases);
  for (const TierId tier : kTierIds) {
    TierPlan& one = plan->tiers[IndexOf(tier)];
    if (!one.there) continue;
    const bool disk = tier == TierId::kDisk;
    Bytes share = rng.OneOf<Bytes>({3, 10, 30, 70, 150}) * (1 + IndexOf(tier));
    if (disk && rng.Percent(60)) share = 1000;
    Bytes capacity = std::clamp<Bytes>(all * share / 100, 2 * plan->chunk, 6 * kMiB);
    if (plan->rules.roomy && tier == TierId::kDevice) {
      capacity = 5 * all + plan->value_max * (64 + 4 * plan->keys.size()) + kMiB;
    }
    if (disk) {
      capacity += plan->keys.size() * static_cast<Bytes>(plan->databases) * kPage * share / 100;
      capacity = std::clamp<Bytes>(capacity, 32 * kPage, 64 * kMiB);
    }
    one.capacity = (capacity + plan->chunk - 1) / plan->chunk * plan->chunk;
    one.total = one.capacity * rng.OneOf<Bytes>({1, 2, 4});
    one.shape = static_cast<sim::Curve::Shape>(rng.Below(sim::Curve::kShapes));
    const bool calm = plan->rules.roomy || rng.Percent(50);
    one.low = calm ? 0 : 0.5 * rng.Unit();
    one.high = calm ? 0.1 : std::min(1.0, one.low + 0.2 + 0.7 * rng.Unit());
    if (plan->rules.roomy) one.total = 4 * one.capacity;
    one.period = plan->tick * static_cast<std::int64_t>(rng.LogBetween(100, 20'000));
  }
  plan->rules.has_disk = plan->Has(TierId::kDisk);
  plan->rules.value_max = plan->tiers[0].capacity;
}

void DrawOptions(Rng& rng, Plan* plan) {
  Options& options = plan->options;
  options.policy = rng.OneOf<const char*>({"documented", "lru", "score", "score"});
  options.history_entries = rng.OneOf<std::uint64_t>({0, 100});
  const auto ticks = [&](std::uint64_t low, std::uint64_t high) {
    return plan->tick * static_cast<std::int64_t>(rng.LogBetween(low, high));
  };
  options.idle_normal = ticks(20, 2000);
  options.idle_critical = options.idle_normal / 4;
  options.ttl.reset();
  options.dwell = rng.Percent(15) ? Duration::zero() : ticks(5, 300);
  options.sample_period = std::max<Duration>(milliseconds(1), ticks(5, 80));
  options.write_back_after.reset();
  if (rng.Percent(60)) options.write_back_after = ticks(1, 300);
  options.scrub_every.reset();
  if (rng.Percent(20)) options.scrub_every = ticks(50, 3000);
  options.emergency_time = ticks(2, 200);
  options.disk_read_back = rng.Percent(60);
  options.entries_max = 1 << 12;
  options.reserve = 0;
  options.reserve_bytes_min = 0;
  options.token_budget.reset();
  plan->sampled = !plan->rules.roomy && rng.Percent(60);
  plan->server.on_blocked =
      rng.OneOf<server::OnBlocked>({server::OnBlocked::kError, server::OnBlocked::kError,
                                    server::OnBlocked::kAuto, server::OnBlocked::kDrop});
  plan->rules.drop = plan->server.on_blocked == server::OnBlocked::kDrop;
  plan->server.output_max = 4 * kMiB;
  plan->server.stall_max = Duration::zero();
  plan->server.slowlog_us = -1;
}

void DrawClients(Rng& rng, Plan* plan) {
  plan->clients = rng.LogBetween(1, 8);
  plan->pipeline = rng.LogBetween(1, 24);
  plan->net.read_max = rng.OneOf<Bytes>({7, 100, 4000, 64 * kKiB, 64 * kKiB});
  // Small pieces of large values would take for ever.
  plan->net.read_max = std::max<Bytes>(plan->net.read_max, plan->value_max / 16);
  plan->net.socket_bytes = rng.OneOf<Bytes>({300, 16 * kKiB, 256 * kKiB, kMiB});
  plan->net.socket_bytes = std::max<Bytes>(plan->net.socket_bytes, plan->value_max / 8);
  plan->multi_percent = rng.OneOf<std::uint32_t>({0, 5, 20});
  plan->multi_max = rng.OneOf<std::size_t>({3, 12, 60});
  if (plan->value_max >= 4096 && plan->value_max <= 20'000 && rng.Percent(25)) {
    plan->multi_percent = std::max(plan->multi_percent, 5U);
    plan->bulk_percent = 30;
    plan->server.output_max = 3 * kMiB / 2;
    plan->net.socket_bytes = std::min<Bytes>(plan->net.socket_bytes, 64 * kKiB);
  }
}

void DrawWorld(Rng& rng, const std::set<std::string>& without, Plan* plan) {
  plan->still_percent = rng.OneOf<std::uint32_t>({0, 20, 60, 90});
  plan->queue_percent = static_cast<std::uint32_t>(rng.Between(50, 92));
  plan->moves.slow_percent = rng.OneOf<std::uint32_t>({0, 0, 5, 40});
  plan->moves.fail_percent = rng.OneOf<std::uint32_t>({0, 0, 0, 3});
  plan->moves.tear_percent = rng.OneOf<std::uint32_t>({0, 0, 0, 3});
  plan->moves.slow_max = plan->tick * static_cast<std::int64_t>(rng.LogBetween(2, 400));
  plan->load_percent = rng.OneOf<std::uint32_t>({0, 60, 100, 100});
  plan->rot_percent = rng.OneOf<std::uint32_t>({0, 0, 50});
  plan->verify_percent = rng.OneOf<std::uint32_t>({0, 100, 100});
  const std::array<std::uint32_t, kDos> usual = {900, 12, 5, 20, 15, 30, 60, 2,
                                                 4,   3,  2, 3,  2,  12, 1,  1};
  for (std::size_t i = 0; i < kDos; ++i) {
    const std::uint64_t luck = rng.Below(10);
    plan->weights[i] = luck < 5 ? usual[i] * 4 : luck < 7 ? 0 : usual[i] * 10;
  }
  const auto weight = [&](Do what) -> std::uint32_t& {
    return plan->weights[static_cast<std::size_t>(what)];
  };
  weight(Do::kRequest) = 4000;
  weight(Do::kConnect) = std::max(weight(Do::kConnect), 40U);
  weight(Do::kLook) = std::max(weight(Do::kLook), 60U);
  weight(Do::kDiskBackground) = std::max(weight(Do::kDiskBackground), 60U);
  if (!plan->sampled && plan->rules.roomy) weight(Do::kSample) = 0;
  if (!plan->Has(TierId::kDisk)) {
    for (const Do disk : {Do::kFileFaults, Do::kBitRot, Do::kSlowDisk, Do::kDiskBackground}) {
      weight(disk) = 0;
    }
  }
  // Worlds without any fault, too: there nothing may be lost.
  if (plan->rules.roomy || rng.Percent(50) || without.contains("faults")) {
    for (const Do wrong : {Do::kTierRefuses, Do::kFileFaults, Do::kBitRot, Do::kSourceFails}) {
      weight(wrong) = 0;
    }
    plan->moves.fail_percent = plan->moves.tear_percent = 0;
  }
  weight(Do::kRestart) = rng.OneOf<std::uint32_t>({0, 0, 6, 40});
  weight(Do::kCrash) = rng.OneOf<std::uint32_t>({0, 0, 10, 60});
  // Worlds that end often, and in which nothing else goes wrong.
  if (plan->Has(TierId::kDisk) && rng.Percent(25)) {
    for (const Do wrong : {Do::kTierRefuses, Do::kFileFaults, Do::kBitRot, Do::kSourceFails}) {
      weight(wrong) = 0;
    }
    plan->moves.fail_percent = plan->moves.tear_percent = 0;
    plan->load_percent = plan->verify_percent = 100;
    plan->options.write_back_after = plan->tick * static_cast<std::int64_t>(rng.Between(1, 20));
    plan->keys.resize(std::min<std::size_t>(plan->keys.size(), rng.Between(2, 12)));
    weight(Do::kCrash) = 60;
    weight(Do::kSlowReader) = 40;
  }
  if (without.contains("restart")) weight(Do::kRestart) = 0;
  if (without.contains("crash")) weight(Do::kCrash) = 0;
  if (without.contains("disconnect")) weight(Do::kDisconnect) = 0;
  if (without.contains("multi")) plan->multi_percent = 0;
  if (without.contains("network")) plan->net.whole = true;
  plan->commands = DrawCommands(rng, without, plan->rules.roomy);
}

// Worlds in which something that is rare elsewhere is common.
enum Special : std::uint8_t { kLateLoading, kStalledUploads, kSlowRelief, kSpecials };

// All that follows counts in ticks.
Duration DrawTick(Rng& rng, std::uint64_t kind) {
  constexpr std::uint64_t kLeastUs[] = {20'000, 8000, 20'000};
  const std::uint64_t least = kind < kSpecials ? kLeastUs[kind] : 100;
  return std::chrono::microseconds(
      rng.LogBetween(least, std::max<std::uint64_t>(2 * least, 20'000)));
}

void DrawSpecial(Rng& rng, const std::set<std::string>& without, std::uint64_t kind, Plan* plan) {
  const auto weight = [&](Do what) -> std::uint32_t& {
    return plan->weights[static_cast<std::size_t>(what)];
  };
  if (kind == kLateLoading && plan->Has(TierId::kDisk) && !without.contains("crash")) {
    // The disk is read in for longer than commands wait; some clients hang up meanwhile.
    plan->load_lag =
        milliseconds(rng.Percent(40) ? rng.LogBetween(500, 12'000) : rng.Between(12'000, 60'000));
    plan->still_percent = std::min(plan->still_percent, 20U);
    weight(Do::kCrash) = std::max(weight(Do::kCrash), 10U);
    weight(Do::kStepClock) = std::min(weight(Do::kStepClock), 2U);
    if (!without.contains("disconnect")) weight(Do::kDisconnect) = 20;
  }
  if (kind == kStalledUploads) {
    // Room is announced and not filled, and others want it.
    const std::vector<std::uint32_t> pieces = WeightsOf("PIECES", 600);
    for (std::size_t i = 0; i < pieces.size(); ++i) plan->commands[i] += pieces[i];
    plan->unfinished_percent = 60;
    plan->still_percent = std::min(plan->still_percent, 20U);
    plan->large_percent = 80;
    plan->clients = std::max<std::size_t>(plan->clients, 3);
    weight(Do::kDisconnect) = std::min(weight(Do::kDisconnect), 2U);
  }
  if (kind == kSlowRelief && plan->Has(TierId::kDisk) && !without.contains("multi")) {
    // Room is being made for far longer than commands wait, also those of transactions.
    plan->moves.slow_percent = 100;
    plan->moves.slow_max = std::chrono::minutes(5);
    plan->options.write_back_after.reset();
    plan->still_percent = std::min(plan->still_percent, 20U);
    plan->large_percent = 80;
    plan->multi_percent = 30;
    plan->multi_max = 12;
    const std::vector<std::uint32_t> sets = WeightsOf("SET K V", 600);
    for (std::size_t i = 0; i < sets.size(); ++i) plan->commands[i] += sets[i];
    weight(Do::kDisconnect) = std::min(weight(Do::kDisconnect), 2U);
    weight(Do::kRestart) = weight(Do::kCrash) = 0;
  }
}

}  // namespace

Plan Plan::Draw(std::uint64_t seed, const std::set<std::string>& without) {
  Rng rng(seed * 2 + 1);
  Plan plan;
  constexpr std::uint64_t kKinds = 16;  // Most are not special.
  const std::uint64_t kind = rng.Below(kKinds);
  plan.tick = DrawTick(rng, kind);
  DrawData(rng, without, &plan);
  DrawTiers(rng, &plan);
  DrawOptions(rng, &plan);
  DrawClients(rng, &plan);
  DrawWorld(rng, without, &plan);
  DrawSpecial(rng, without, kind, &plan);
  plan.weights_sum = 0;
  for (const std::uint32_t w : plan.weights) plan.weights_sum += w;
  plan.commands_sum = 0;
  for (const std::uint32_t w : plan.commands) plan.commands_sum += w;
  return plan;
}

std::string Plan::Describe() const {
  const auto us = [](Duration d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  };
  std::string text = fmt::format(
      "{} keys in {} databases, values to {} bytes ({} % large), ends to {} ms, policy {}, "
      "on_blocked {}{}\n",
      keys.size(), databases, value_max, large_percent, end_ms_max, options.policy,
      server::Name(server.on_blocked), rules.roomy ? ", room for all" : "");
  for (const TierId tier : kTierIds) {
    const TierPlan& one = tiers[IndexOf(tier)];
    if (!one.there) continue;
    text += fmt::format("{}: {} of {} bytes, others {:.2f}..{:.2f} shape {}\n", Name(tier),
                        one.capacity, one.total, one.low, one.high, static_cast<int>(one.shape));
  }
  return text +
         fmt::format(
             "{} clients, {} requests ahead, reads of {}, sockets of {} bytes, {} % MULTI of "
             "{}\ntick {} us, write behind {}, moves: {} % slow, {} % fail, {} % torn; restart "
             "{}, crash {}, faults {}; the disk is read in {} ms late, {} % of pieces unfinished\n",
             clients, pipeline, net.read_max, net.socket_bytes, multi_percent, multi_max, us(tick),
             options.write_back_after ? fmt::format("{} us", us(*options.write_back_after))
                                      : std::string("none"),
             moves.slow_percent, moves.fail_percent, moves.tear_percent,
             weights[static_cast<std::size_t>(Do::kRestart)],
             weights[static_cast<std::size_t>(Do::kCrash)],
             weights[static_cast<std::size_t>(Do::kFileFaults)], us(load_lag) / 1000,
             unfinished_percent);
}

}  // namespace spillway::serversim
