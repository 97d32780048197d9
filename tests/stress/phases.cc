// SPDX-License-Identifier: Apache-2.0
#include "stress/phases.h"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cache/core.h"
#include "cache/parts.h"
#include "spillway/cache.h"
#include "spillway/testing.h"
#include "stress/value.h"
#include "stress/worker.h"

namespace spillway::stress {

namespace {

constexpr Bytes kCapacity = 4 * kMiB;
constexpr Bytes kChunkMost = kCapacity / 8;

std::unique_ptr<Cache> OpenCache(Board* board, const Options& options) {
  Result<Core::Parts> parts = OpenParts(options);
  if (parts) {
    parts->hash_bits = board->settings.hash_bits;
    parts->moves_per_step = 64;  // Other events run in between.
    Result<std::shared_ptr<Core>> core = Core::Open(options, std::move(*parts));
    if (core) return Core::Wrap(std::move(*core));
    board->Fail(core.error().message);
  } else {
    board->Fail(parts.error().message);
  }
  return nullptr;
}

void Expect(Board* board, bool ok, std::string_view what, std::uint64_t got, std::uint64_t wanted) {
  if (!ok) board->Fail(fmt::format("{}: {}, expected {}", what, got, wanted));
}

// All leases are released and all batches have completed.
void CheckAccounts(Board* board, Cache* cache, const Worker::Counts& sum) {
  const auto expect = [&](std::string_view what, std::uint64_t got, std::uint64_t wanted) {
    Expect(board, got == wanted, what, got, wanted);
  };
  const Stats stats = cache->stats();
  std::uint64_t entries = 0;
  Bytes bytes = 0;
  Tokens tokens = 0;
  cache->ForEach([&](const Cache::EntryInfo& info) {
    ++entries;
    bytes += info.bytes;
    tokens += info.tokens;
  });
  expect("leases at the end", stats.leases, 0);
  expect("reservations at the end", stats.reservations, 0);
  expect("entries", stats.entries, entries);
  expect("size()", cache->size(), entries);
  expect("bytes", stats.device.bytes, bytes);
  expect("tokens", static_cast<std::uint64_t>(stats.tokens), static_cast<std::uint64_t>(tokens));
  expect("sets", stats.sets, sum.sets);
  expect("misses", stats.misses, sum.misses);
  // Every acknowledged set is here, or was removed for one reason.
  const std::uint64_t left = std::accumulate(stats.removed_by_reason.begin(),
                                             stats.removed_by_reason.end(), std::uint64_t{0}) -
                             stats.removed_by_action.at(static_cast<std::size_t>(Action::kDemote));
  expect("entries that left", left, sum.sets - entries);
  expect("events", board->events(), left);
  // A late reader is counted for an instant, and an entry that is removed in that
  // instant keeps it: the count is exact except for those.
  const std::uint64_t slack = sum.hits / 1000 + 10;
  Expect(board, stats.hits + slack >= sum.hits && stats.hits <= sum.hits + slack, "hits",
         stats.hits, sum.hits);

  cache->Clear();
  const Stats cleared = cache->stats();
  expect("entries after clear", cleared.entries, 0);
  expect("tokens after clear", static_cast<std::uint64_t>(cleared.tokens), 0);
  expect("bytes after clear", cleared.device.bytes, 0);
  // On a private card the tier keeps one chunk for the next entry.
  Expect(board, cleared.device.held <= kChunkMost, "memory held after clear", cleared.device.held,
         0);
}

void Add(const Worker::Counts& one, Worker::Counts* sum) {
  sum->sets += one.sets;
  sum->refused += one.refused;
  sum->no_memory += one.no_memory;
  sum->hits += one.hits;
  sum->misses += one.misses;
  sum->erased += one.erased;
  sum->leases_over_departures += one.leases_over_departures;
  sum->late += one.late;
  sum->passes += one.passes;
}

}  // namespace

void RunMixed(Board* board) {
  const Settings& settings = board->settings;
  auto clock = std::make_shared<testing::ManualClock>();
  auto pressure = std::make_shared<testing::ManualPressure>(kCapacity);
  Options options;
  options.capacity = kCapacity;
  options.policy = settings.policy;
  options.clock = clock;
  options.pressure = pressure;
  options.entries_max = 2500;
  options.names_bytes_max = 96 * kKiB;
  options.token_budget = 90'000;
  options.sample_period = std::chrono::milliseconds(1);
  options.on_event = [board](const Event& event) { board->OnEvent(event); };
  const std::unique_ptr<Cache> cache = OpenCache(board, options);
  if (cache == nullptr) return;

  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < settings.threads; ++i) {
    workers.push_back(
        std::make_unique<Worker>(i, board, cache.get(), Surroundings{clock.get(), pressure.get()}));
  }
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) {
    threads.emplace_back([&] { worker->Run(settings.ops / settings.threads); });
  }
  for (std::thread& thread : threads) thread.join();
  cache->Stop();

  Worker::Counts sum;
  for (const auto& worker : workers) Add(worker->counts(), &sum);
  const Stats stats = cache->stats();
  CheckAccounts(board, cache.get(), sum);
  fmt::print(
      "mixed: {} sets; refused: {} blocked, {} over budget, {} other, {} late; {} hits, {} misses, "
      "{} passes, {} samples failed, {} levels, {} departures, {} leases outlived their entry\n",
      sum.sets, stats.refused_blocked, stats.refused_budget, stats.refused_other, sum.late,
      sum.hits, sum.misses, sum.passes, stats.samples_failed, stats.level_changes, board->events(),
      sum.leases_over_departures);
}

void RunReplacing(Board* board, std::uint64_t ops) {
  Options options;
  options.capacity = 64 * kMiB;
  options.ttl.reset();
  const std::unique_ptr<Cache> cache = OpenCache(board, options);
  if (cache == nullptr) return;
  constexpr std::size_t kKeys = 3;
  std::vector<std::byte> value;
  for (std::size_t key = 0; key < kKeys; ++key) {
    FillValue(key, 0, 300, &value);
    if (!cache->Set(board->keys[key], Source(value.data(), value.size())))
      return board->Fail("set");
  }
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (unsigned i = 1; i < board->settings.threads; ++i) {
    readers.emplace_back([&, i] {
      Random random(i);
      std::array<std::uint64_t, kKeys> seen{};
      while (!stop.load(std::memory_order_relaxed)) {
        const std::size_t key = random.Below(kKeys);
        const Result<std::optional<Lease>> got = cache->Get(board->keys[key]);
        if (!got || !*got) {
          board->Fail("a key missed while it was set again");
          continue;
        }
        const Checked checked = CheckValue(key, (*got)->data(), (*got)->size());
        if (!checked.whole) board->Fail("a value nobody set, while its key was set again");
        if (checked.count.value_or(0) < seen.at(key))
          board->Fail("an older value after a newer one");
        seen.at(key) = checked.count.value_or(0);
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  Random random(board->settings.seed);
  for (std::uint64_t i = 1; i <= ops; ++i) {
    const std::size_t key = random.Below(kKeys);
    FillValue(key, i, random.OneIn(4) ? 5000 : 300, &value);
    if (!cache->Set(board->keys[key], Source(value.data(), value.size()))) board->Fail("set again");
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  fmt::print("replacing: {} sets under {} reads, none missed\n", ops, reads.load());
}

void RunClosing(Board* board, std::uint64_t rounds) {
  std::vector<std::byte> value;
  FillValue(1, 1, 200'000, &value);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Options options;
    options.capacity = 16 * kMiB;
    options.entries_max = 1000;
    std::unique_ptr<Cache> cache = OpenCache(board, options);
    if (cache == nullptr) return;
    if (!cache->Set("leased", Source(value.data(), value.size()))) return board->Fail("set");
    std::vector<Lease> leases;
    for (int i = 0; i < 3; ++i) leases.push_back(std::move(**cache->Get("leased")));
    std::array<Operation, 4> operations;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      operations.at(i).kind = Operation::Kind::kSet;
      operations.at(i).key = board->keys[i];
      operations.at(i).source = Source(value.data(), value.size());
    }
    // Another thread submits, so that the strand is busy and copies are left to the
    // executor; the cache is closed as soon as both calls have returned.
    std::atomic<int> landed{0};
    std::thread other([&] {
      cache->Submit(operations.data() + 2, 2, std::chrono::hours(1), Completion([&] { ++landed; }));
    });
    cache->Submit(operations.data(), 2, std::chrono::hours(1), Completion([&] { ++landed; }));
    other.join();
    if (round % 2 == 0) {
      while (landed.load() < 2) std::this_thread::yield();
    }
    // Readers release their leases while it closes, and after.
    std::thread reader([moved = std::move(leases)]() mutable {
      for (Lease& lease : moved) {
        if (!CheckValue(1, lease.data(), lease.size()).whole) std::abort();
        lease.Release();
      }
    });
    cache.reset();
    if (landed.load() != 2) board->Fail("a cache closed before its batches had ended");
    reader.join();
  }
  fmt::print("closing: {} caches closed under leases and batches\n", rounds);
}

}  // namespace spillway::stress
