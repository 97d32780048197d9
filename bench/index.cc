// SPDX-License-Identifier: Apache-2.0
// The index beside its peers in one run: a hit with lease and release, get-or-insert, one reclaim
// plan over a million entries with a concurrent reader, and the bytes an entry costs. docs/bench.md
// explains the figures.
#include <functional>

#include <fmt/format.h>

#include "bench/support/engines.h"
#include "bench/support/entry_bytes.h"
#include "bench/support/measure.h"
#include "bench/support/plan.h"
#include "bench/support/report.h"
#include "bench/support/workload.h"

namespace spillway::bench {
namespace {

constexpr double kExponent = 0.99;
constexpr int kThreadsMax = 2;
constexpr std::string_view kPeer = "RocksDB HyperClockCache";

struct Sizes {
  std::size_t keys = 1'000'000;
  std::size_t entries = 100'000;
  std::size_t requests = 1'000'000;  // Per thread and run.
  int rounds = 15;

  static Sizes For(const Settings& settings) {
    if (!settings.quick) return {};
    return {20'000, 2'000, 100'000, 3};
  }
};

using Streams = std::vector<std::vector<Request>>;  // One for each thread.

Streams MakeStreams(std::size_t keys, std::size_t requests) {
  const Zipf zipf(keys, kExponent);
  Streams streams;
  for (std::uint64_t thread = 0; thread < kThreadsMax; ++thread) {
    streams.push_back(Stream(zipf, requests, 100 + thread));
  }
  return streams;
}

// One engine in one role: `run(threads)` processes each thread's whole stream.
struct Contestant {
  std::string name;
  std::function<Elapsed(int)> run;
  // Nanoseconds per request, as its thread measured: [threads - 1][round].
  std::array<std::vector<double>, kThreadsMax> ns = {};

  double Mops(int threads) const {
    return 1e3 * threads / Median(ns.at(static_cast<std::size_t>(threads - 1)));
  }
};

// Runs all contestants within each round, so that a slow moment of the machine affects all of them.
void RunRounds(const Settings& settings, const Sizes& sizes, Report* report,
               std::vector<Contestant>* contestants) {
  Elapsed sum;
  for (int round = 0; round < sizes.rounds; ++round) {
    for (int threads = 1; threads <= kThreadsMax; ++threads) {
      for (Contestant& contestant : *contestants) {
        const Elapsed took = contestant.run(threads);
        const double seconds = settings.cpu_time ? took.cpu : took.wall;
        contestant.ns.at(static_cast<std::size_t>(threads - 1))
            .push_back(seconds * 1e9 / static_cast<double>(sizes.requests));
        sum.wall += took.wall;
        sum.cpu += took.cpu;
      }
    }
  }
  report->data()["share_of_time_running"].push_back(sum.cpu / sum.wall);
}

// Keeps the optimizer from removing unused results.
void Consume(std::uint64_t sum) { asm volatile("" : : "r"(sum) : "memory"); }

// `each(requests, n)` handles requests[0..n). The first quarter of the stream is not measured, so
// that no engine pays for cold processor caches.
template <typename Each>
Elapsed SendAll(const Streams& streams, int threads, Each&& each) {
  const std::size_t requests = streams[0].size();
  return Timed(
      threads, [&](int t) { each(streams[static_cast<std::size_t>(t)].data(), requests / 4); },
      [&](int t) { each(streams[static_cast<std::size_t>(t)].data(), requests); });
}

template <typename Engine>
auto GetAll(Engine* engine, const Streams* streams) {
  return [engine, streams](int threads) {
    return SendAll(*streams, threads, [engine](const Request* requests, std::size_t n) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += engine->Get(requests[i]);
      Consume(sum);
    });
  };
}

template <typename Engine>
void PutAll(Engine* engine, std::size_t entries) {
  for (std::size_t rank = 0; rank < entries; ++rank) engine->Put(RequestFor(rank));
  for (std::size_t rank = 0; rank < entries; ++rank) {
    if (engine->Get(RequestFor(rank)) != 0) continue;
    fmt::print(stderr, "an engine does not hold what was put into it\n");
    std::exit(1);
  }
}

void PrintRows(const std::vector<Contestant>& contestants, const char* part, Report* report,
               const std::vector<double>* hit_ratios = nullptr) {
  const Contestant* peer = nullptr;
  for (const Contestant& contestant : contestants) {
    if (contestant.name == kPeer) peer = &contestant;
  }
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    const Contestant& c = contestants[i];
    const auto ratio = [&](std::size_t threads) {
      return peer ? fmt::format("{:.2f}", MedianRatio(c.ns[threads], peer->ns[threads])) : "-";
    };
    std::vector<std::string> cells = {
        c.name,
        fmt::format("{:.1f} ({:.1f})", Median(c.ns[0]), Least(c.ns[0])),
        ratio(0),
        fmt::format("{:.1f} ({:.1f})", Median(c.ns[1]), Least(c.ns[1])),
        ratio(1),
        fmt::format("{:.1f}", c.Mops(2)),
        fmt::format("{:.2f}", 2 * MedianRatio(c.ns[0], c.ns[1]))};
    if (hit_ratios != nullptr) cells.push_back(fmt::format("{:.3f}", (*hit_ratios)[i]));
    report->Row(std::move(cells));
    report->data()[part].push_back({{"engine", c.name}, {"ns_1", c.ns[0]}, {"ns_2", c.ns[1]}});
    if (hit_ratios != nullptr) report->data()[part].back()["hit_ratio"] = (*hit_ratios)[i];
  }
}

// Compares the first contestant with the peer, with the design's line and goal.
void AddAgainstPeer(const char* part, const std::vector<Contestant>& contestants, Report* report) {
  for (const Contestant& peer : contestants) {
    if (peer.name != kPeer) continue;
    for (std::size_t i = 0; i < kThreadsMax; ++i) {
      report->Add(
          {fmt::format("{}, {} thread{}: time against HyperClockCache", part, i + 1, i ? "s" : ""),
           MedianRatio(contestants[0].ns[i], peer.ns[i]), 1, 0.6, false, "x"});
    }
  }
}

std::vector<std::string> Columns() {
  return {"engine", "1 thread ns (best)", "x HCC",  "2 threads ns (best)",
          "x HCC",  "2 threads Mops/s",   "scaling"};
}

void MeasureHits(const Settings& settings, Report* report) {
  const Sizes sizes = Sizes::For(settings);
  // Zipf over the resident keys only is the stream without its misses.
  const Streams streams = MakeStreams(sizes.entries, sizes.requests);

  SpillwayEngine ours(sizes.entries);
  PutAll(&ours, sizes.entries);
  MutexLru plain(sizes.entries);
  PutAll(&plain, sizes.entries);

  std::vector<Contestant> all;
  all.push_back({"Spillway Get", GetAll(&ours, &streams)});
  all.push_back({"Spillway GetMany of 32, a key", [&](int threads) {
                   return SendAll(streams, threads, [&](const Request* requests, std::size_t n) {
                     std::uint64_t hits = 0;
                     for (std::size_t i = 0; i + SpillwayEngine::kMany <= n;
                          i += SpillwayEngine::kMany) {
                       hits += ours.GetMany(requests + i);
                     }
                     Consume(hits);
                   });
                 }});
  all.push_back({"Spillway Get, bytes read too", [&](int threads) {
                   return SendAll(streams, threads, [&](const Request* requests, std::size_t n) {
                     std::uint64_t sum = 0;
                     for (std::size_t i = 0; i < n; ++i) sum += ours.GetAndRead(requests[i]);
                     Consume(sum);
                   });
                 }});
#if defined(SPILLWAY_HAVE_ROCKSDB)
  RocksEngine hyper = RocksEngine::HyperClock(sizes.entries);
  PutAll(&hyper, sizes.entries);
  // Shards fill unevenly: a quarter more capacity keeps everything resident.
  RocksEngine lru = RocksEngine::Lru(sizes.entries * 5 / 4, 4);
  PutAll(&lru, sizes.entries);
  all.push_back({std::string(kPeer), GetAll(&hyper, &streams)});
  all.push_back({"RocksDB LRUCache, 16 shards", GetAll(&lru, &streams)});
#endif
  all.push_back({"mutex + list + unordered_map", GetAll(&plain, &streams)});
  RunRounds(settings, sizes, report, &all);

  report->Table(fmt::format("hit: get, lease, release; Zipf {} over {} resident keys of 16 B, "
                            "median of {} rounds of {} requests a thread",
                            kExponent, sizes.entries, sizes.rounds, sizes.requests),
                Columns());
  PrintRows(all, "hit", report);
  const Contestant& single = all[0];
  const Contestant& batch = all[1];
  AddAgainstPeer("hit", all, report);
  report->Add(
      {"hit, 2 threads against 1", 2 * MedianRatio(single.ns[0], single.ns[1]), 0, 1.8, true, "x"});
  report->Add({"32 keys in one call: time a key against single",
               MedianRatio(batch.ns[0], single.ns[0]), 0, 0.75, false, "x"});
}

// Get, and insert on a miss. Counts hits over all runs of one engine.
template <typename Engine>
struct Mixed {
  Engine* engine;
  const Streams* streams;
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> requests{0};

  Elapsed Run(int threads) {
    return SendAll(*streams, threads, [this](const Request* all, std::size_t n) {
      std::uint64_t found = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (engine->Get(all[i]) != 0) {
          ++found;
        } else {
          engine->Put(all[i]);
        }
      }
      hits += found;
      requests += n;
    });
  }
  Contestant AsContestant(std::string name) {
    return {std::move(name), [this](int threads) { return Run(threads); }};
  }
  double HitRatio() const { return static_cast<double>(hits) / static_cast<double>(requests); }
};

void MeasureMix(const Settings& settings, Report* report) {
  const Sizes sizes = Sizes::For(settings);
  const Streams streams = MakeStreams(sizes.keys, sizes.requests);

  SpillwayEngine ours(sizes.entries, "score");
  SpillwayEngine by_table(sizes.entries, "documented");
  SpillwayEngine by_use(sizes.entries, "lru");
  MutexLru plain(sizes.entries);
  Mixed<SpillwayEngine> ours_mixed{&ours, &streams};
  Mixed<SpillwayEngine> by_table_mixed{&by_table, &streams};
  Mixed<SpillwayEngine> by_use_mixed{&by_use, &streams};
  Mixed<MutexLru> plain_mixed{&plain, &streams};
  std::vector<Contestant> all;
  all.push_back(ours_mixed.AsContestant("Spillway, score (the default)"));
  all.push_back(by_table_mixed.AsContestant("Spillway, documented"));
  all.push_back(by_use_mixed.AsContestant("Spillway, lru"));
#if defined(SPILLWAY_HAVE_ROCKSDB)
  RocksEngine hyper = RocksEngine::HyperClock(sizes.entries);
  RocksEngine lru = RocksEngine::Lru(sizes.entries, 4);
  Mixed<RocksEngine> hyper_mixed{&hyper, &streams};
  Mixed<RocksEngine> lru_mixed{&lru, &streams};
  all.push_back(hyper_mixed.AsContestant(std::string(kPeer)));
  all.push_back(lru_mixed.AsContestant("RocksDB LRUCache, 16 shards"));
#endif
  all.push_back(plain_mixed.AsContestant("mutex + list + unordered_map"));
  RunRounds(settings, sizes, report, &all);

  std::vector<double> ratios = {ours_mixed.HitRatio(), by_table_mixed.HitRatio(),
                                by_use_mixed.HitRatio()};
#if defined(SPILLWAY_HAVE_ROCKSDB)
  ratios.push_back(hyper_mixed.HitRatio());
  ratios.push_back(lru_mixed.HitRatio());
#endif
  ratios.push_back(plain_mixed.HitRatio());
  report->Table(fmt::format("mix: get, insert on a miss; Zipf {} over {} keys of 16 B, {} entries "
                            "(entries_max)",
                            kExponent, sizes.keys, sizes.entries),
                [] {
                  auto columns = Columns();
                  columns.emplace_back("hit ratio");
                  return columns;
                }());
  PrintRows(all, "mix", report, &ratios);
  AddAgainstPeer("get-or-insert", all, report);
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  using namespace spillway::bench;
  const Settings settings =
      ParseArguments(argc, argv, "Measures the index beside its peers: hit, mix, plan, bytes.");
  Report report(settings);
  report.Begin("index");
  if (settings.Runs("hit")) MeasureHits(settings, &report);
  if (settings.Runs("mix")) MeasureMix(settings, &report);
  if (settings.Runs("plan")) MeasurePlans(settings, &report);
  if (settings.Runs("bytes")) MeasureEntryBytes(settings, &report);
  report.End();
  return 0;
}
