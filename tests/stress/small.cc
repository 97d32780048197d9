// SPDX-License-Identifier: Apache-2.0
// Small values under short keys: many threads set them at once, into a cache that is
// always full.
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cache/core.h"
#include "cache/parts.h"
#include "spillway/cache.h"
#include "spillway/testing.h"
#include "stress/phases.h"
#include "stress/value.h"

namespace spillway::stress {

namespace {

constexpr std::uint64_t kKeys = 60'000;
constexpr std::uint64_t kEntriesMost = 24'000;

struct Counts {
  std::atomic<std::uint64_t> sets{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> hits{0};
};

void Hammer(Board* board, Cache* cache, unsigned thread, std::uint64_t ops, Counts* counts) {
  Random random(board->settings.seed * 7919 + thread);
  std::vector<std::byte> value;
  std::vector<Lease> held;
  for (std::uint64_t i = 0; i < ops; ++i) {
    // Half of them from a small range, which all threads use.
    const std::uint64_t key = random.OneIn(2) ? random.Below(200) : random.Below(kKeys);
    const std::string name = fmt::format("s{}", key);
    auto got = cache->Get(name);
    if (got && *got) {
      counts->hits.fetch_add(1, std::memory_order_relaxed);
      if (!CheckValue(key, (*got)->data(), (*got)->size()).whole)
        board->Fail("a wrong small value");
      if (random.OneIn(32)) held.push_back(std::move(**got));
      if (held.size() > 16) held.erase(held.begin(), held.begin() + 8);
      if (!random.OneIn(16)) continue;
      if (random.OneIn(2)) {
        (void)cache->Erase(name);
        continue;
      }
    }
    FillValue(key, i, random.OneIn(8) ? 100 : 40, &value);
    const bool set = cache->Set(name, Source(value.data(), value.size())).has_value();
    (set ? counts->sets : counts->refused).fetch_add(1, std::memory_order_relaxed);
  }
  for (const Lease& lease : held) {
    if (lease.size() != 40 && lease.size() != 100) board->Fail("a lease on something else");
  }
}

}  // namespace

void RunSmall(Board* board, std::uint64_t ops) {
  auto clock = std::make_shared<testing::ManualClock>();
  Options options;
  options.capacity = 64 * kMiB;
  options.entries_max = kEntriesMost;
  options.policy = board->settings.policy == "seed" ? "score" : board->settings.policy;
  options.clock = clock;
  std::uint64_t left = 0;  // Changed on the strand only.
  options.on_event = [&left](const Event&) { ++left; };
  Result<Core::Parts> parts = OpenParts(options);
  if (!parts) return board->Fail(parts.error().message);
  parts->hash_bits = board->settings.hash_bits;
  auto core = Core::Open(options, std::move(*parts));
  if (!core) return board->Fail(core.error().message);
  const std::unique_ptr<Cache> cache = Core::Wrap(std::move(*core));

  Counts counts;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < board->settings.threads; ++i) {
    threads.emplace_back(
        [&, i] { Hammer(board, cache.get(), i, ops / board->settings.threads, &counts); });
  }
  std::thread world([&] {
    Random random(board->settings.seed);
    while (!stop.load()) {
      clock->Advance(std::chrono::milliseconds(random.Below(400)));
      if (random.OneIn(16)) {
        (void)cache->Apply(random.OneIn(2) ? 0.97 : 0.9);
        (void)cache->Apply(0.1);
        clock->Advance(std::chrono::milliseconds(2100));  // Longer than a level lasts.
      }
      (void)cache->Apply(0.1);
      const Stats stats = cache->stats();
      if (stats.entries > kEntriesMost) board->Fail("more small entries than entries_max");
      if (cache->size() > kEntriesMost) board->Fail("size() is more than entries_max");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  world.join();

  const Stats stats = cache->stats();
  Bytes bytes = 0;
  std::uint64_t there = 0;
  cache->ForEach([&](const Cache::EntryInfo& info) {
    ++there;
    bytes += info.bytes;
  });
  if (stats.sets != counts.sets.load()) board->Fail("small sets were counted wrong");
  if (there != stats.entries || bytes != stats.device.bytes) board->Fail("small entries' account");
  if (left + there != stats.sets) {
    board->Fail(fmt::format("{} left and {} are there of {} small sets", left, there, stats.sets));
  }
  fmt::print("small: {} sets, {} refused, {} hits, {} departures, {} there\n", counts.sets.load(),
             counts.refused.load(), counts.hits.load(), left, there);
}

}  // namespace spillway::stress
