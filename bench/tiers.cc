// SPDX-License-Identifier: Apache-2.0
// The tiers together: how much of a shared card the cache uses beside a neighbour, how many
// contexts survive a squeeze through all tiers, and what write-back costs concurrent clients.
// docs/bench.md explains the figures.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/parse.h"
#include "bench/support/card_neighbour.h"
#include "bench/support/measure.h"
#include "bench/support/report.h"
#include "bench/support/scratch.h"
#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway::bench {
namespace {

using Steady = std::chrono::steady_clock;  // real world: a bench

double SecondsSince(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

void Pause(Duration duration) { std::this_thread::sleep_for(duration); }  // real world: a bench

[[noreturn]] void Fail(const std::string& why) {
  fmt::print(stderr, "tiers: {}\n", why);
  std::exit(1);
}

std::unique_ptr<Cache> Open(const Options& options) {
  auto cache = Cache::Open(options);
  if (!cache) Fail(cache.error().message);
  if (Status ok = (*cache)->Start(); !ok) Fail(ok.error().message);
  return std::move(*cache);
}

// Content that identifies its context and its position in it.
void Write(std::uint64_t owner, std::vector<std::uint64_t>* words) {
  for (std::size_t i = 0; i < words->size(); ++i) (*words)[i] = owner * 0x9e3779b97f4a7c15ULL + i;
}
bool IsFrom(std::uint64_t owner, const Lease& lease) {
  const std::size_t words = lease.size() / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, lease.data() + i * sizeof word, sizeof word);
    if (word != owner * 0x9e3779b97f4a7c15ULL + i) return false;
  }
  return true;
}
std::string Key(std::uint64_t number) { return fmt::format("context:{:06}", number); }

// --- beside a neighbour ---

void Share(const Settings& settings, Report* report) {
  const Scratch scratch;  // Holds the card's file until the end.
  ::setenv("SPILLWAY_RUN_DIR", scratch.path().c_str(), 1);
  const std::string card = "bench";
  constexpr Bytes kTotal = kGiB;
  constexpr Bytes kEntry = kMiB;
  const double hold = settings.quick ? 3 : 30;
  CardNeighbour neighbour(card, kTotal);  // Forks, so it is made before any thread.

  Options options;
  options.card = card;
  options.host_capacity = 2 * kGiB;
  options.host_pressure_source = "fixed:0.1";
  options.reserve_bytes_min = 0;  // A large card's share: 4 %.
  std::atomic<std::uint64_t> changes{0};
  std::atomic<std::uint64_t> destroyed{0};
  options.on_level = [&](const LevelChange& change) { changes += change.tier == "device" ? 1 : 0; };
  options.on_event = [&](const Event& event) {
    destroyed += event.action == Action::kDestroy && event.reason != Reason::kReplaced ? 1 : 0;
  };
  auto cache = Open(options);

  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> sets{0};
  std::thread agents([&] {
    std::vector<std::uint64_t> words(kEntry / sizeof(std::uint64_t));
    for (std::uint64_t i = 0; !stop; ++i) {
      Write(i % 1600, &words);
      if (!cache->Set(Key(i % 1600), Source(words.data(), kEntry), {.tokens = 100})) ++refused;
      ++sets;
      Pause(std::chrono::milliseconds(10));
    }
  });
  Pause(std::chrono::seconds(settings.quick ? 3 : 15));

  report->Table(
      "our share of what is idle less the reserve, beside a neighbour",
      {"neighbour", "its wait ms", "ours MiB", "of MiB", "share", "level", "changes while held"});
  for (const double share : {0.0, 0.5, 0.8, 0.92}) {
    const double waited = neighbour.Hold(static_cast<Bytes>(share * kTotal));
    Pause(std::chrono::seconds(3));  // Until levels and the tier's size have adapted.
    const std::uint64_t before = changes;
    double ours = 0;
    double idle = 0;
    const auto start = Steady::now();
    int samples = 0;
    Level level = Level::kRelaxed;
    while (SecondsSince(start) < hold) {
      const Stats stats = cache->stats();
      ours += static_cast<double>(stats.device.held);
      idle += kTotal * (1 - share) - static_cast<double>(stats.device.reserve);
      level = stats.device.level;
      ++samples;
      Pause(std::chrono::milliseconds(50));
    }
    const double ratio = ours / idle;
    report->Row({fmt::format("{:.0f} %", 100 * share), fmt::format("{:.1f}", waited),
                 fmt::format("{:.0f}", ours / samples / kMiB),
                 fmt::format("{:.0f}", idle / samples / kMiB), fmt::format("{:.3f}", ratio),
                 std::string(Name(level)), fmt::format("{}", changes - before)});
    report->Add({fmt::format("share used beside {:.0f} %", 100 * share), ratio, 0, 0.85, true, ""});
    report->Add({fmt::format("level changes beside {:.0f} %", 100 * share),
                 static_cast<double>(changes - before), 1, 1, false, ""});
  }
  stop = true;
  agents.join();
  report->Note(fmt::format("{} sets, {} refused, {} contexts destroyed", sets.load(),
                           refused.load(), destroyed.load()));
}

// --- through all tiers ---

void History(const Settings& settings, Report* report) {
  const Bytes scale = settings.quick ? 16 : 1;
  const Scratch scratch;
  auto pressure = std::make_shared<testing::ManualPressure>(256 * kMiB / scale);
  Options options;
  options.capacity = 256 * kMiB / scale;
  options.host_capacity = 512 * kMiB / scale;
  options.disk_dir = scratch.disk();
  options.disk_capacity = 4 * kGiB / scale;
  options.pressure = pressure;
  options.host_pressure_source = "fixed:0.1";
  options.room_wait = std::chrono::seconds(60);
  std::array<std::atomic<std::uint64_t>, kActions> actions{};
  options.on_event = [&](const Event& event) { ++actions[static_cast<std::size_t>(event.action)]; };
  auto cache = Open(options);
  const Bytes goal = 2 * kGiB / scale;
  Bytes set = 0;
  std::uint64_t count = 0;
  std::vector<std::size_t> sizes;
  const auto start = Steady::now();
  while (set < goal) {
    // From RELAXED to EMERGENCY and back, once a second.
    pressure->Set(0.58 + 0.4 * std::sin(6.28318 * SecondsSince(start)));
    const std::size_t bytes = (1U + count * 7 % 16) * kMiB / scale;
    std::vector<std::uint64_t> words(bytes / sizeof(std::uint64_t));
    Write(count, &words);
    if (Status ok = cache->Set(Key(count), Source(words.data(), bytes), {.tokens = 1000}); !ok) {
      Fail(ok.error().message);
    }
    sizes.push_back(bytes);
    set += bytes;
    ++count;
  }
  const double setting = SecondsSince(start);
  const Stats full = cache->stats();
  std::uint64_t right = 0;
  std::map<std::string, int> from;
  const auto reading = Steady::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string text = cache->Explain(Key(i));
    const std::size_t at = text.find(" is in the ");
    ++from[at == std::string::npos ? "nowhere"
                                   : text.substr(at + 11, text.find(" tier", at) - at - 11)];
    const auto got = cache->Get(Key(i));
    if (!got) Fail(got.error().message);
    if (*got && (*got)->size() == sizes[i] && IsFrom(i, **got)) ++right;
  }
  report->Table("2 GiB of contexts through 256 MiB, 512 MiB and 4 GiB",
                {"contexts", "set s", "read back s", "right", "destroyed", "in device MiB",
                 "host MiB", "disk MiB"});
  const auto destroyed = actions[static_cast<std::size_t>(Action::kDestroy)].load();
  report->Row({fmt::format("{}", count), fmt::format("{:.1f}", setting),
               fmt::format("{:.1f}", SecondsSince(reading)), fmt::format("{}", right),
               fmt::format("{}", destroyed), fmt::format("{}", full.device.bytes / kMiB),
               fmt::format("{}", full.host.bytes / kMiB),
               fmt::format("{}", full.disk.bytes / kMiB)});
  for (const auto& [place, many] : from) report->Note(fmt::format("{} were in: {}", many, place));
  report->Note("one of them:\n" + cache->Explain(Key(1)));
  report->Add(
      {"contexts not read back bit-exact", static_cast<double>(count - right), 0, 0, false, ""});
  report->Add({"contexts destroyed", static_cast<double>(destroyed), 0, 0, false, ""});
}

// --- write-back ---

struct Front {
  std::unique_ptr<Cache> cache;
  double busy = 0;
  std::uint64_t operations = 0;
};

// Busy half of the time: sets and gets of 1 MiB contexts.
void Work(Front* front, double seconds, std::uint64_t first, std::uint64_t keys,
          std::vector<std::uint64_t>* words) {
  const auto start = Steady::now();
  std::uint64_t at = first;
  while (SecondsSince(start) < seconds) {
    const auto began = Steady::now();
    while (SecondsSince(began) < 0.005) {
      const std::uint64_t key = at++ % keys;
      if (key % 4 == 0) {
        Write(key, words);
        const Source source(words->data(), words->size() * sizeof(std::uint64_t));
        if (Status ok = front->cache->Set(Key(key), source); !ok) Fail(ok.error().message);
      } else if (auto got = front->cache->Get(Key(key)); got && *got) {
        // A reader reads what it gets: here one word per page.
        std::uint64_t sum = 0;
        for (Bytes i = 0; i < (*got)->size(); i += 4096) {
          sum += static_cast<std::uint64_t>((*got)->data()[i]);
        }
        if (sum == ~std::uint64_t{0}) std::abort();
      }
      ++front->operations;
    }
    front->busy += SecondsSince(began);
    Pause(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(SecondsSince(began))));
  }
}

void Behind(const Settings& settings, Report* report) {
  const Scratch with_dir;
  const Scratch without_dir;
  constexpr std::uint64_t kKeys = 400;
  std::vector<std::uint64_t> words(kMiB / sizeof(std::uint64_t));
  const auto open = [&](const Scratch& scratch, bool behind) {
    Options options;
    options.capacity = 512 * kMiB;
    options.host_capacity = kGiB;
    options.host_pressure_source = "fixed:0.1";
    options.disk_dir = scratch.disk();
    options.disk_capacity = 4 * kGiB;
    if (!behind) options.write_back_after.reset();
    return Front{.cache = Open(options)};
  };
  Front with = open(with_dir, true);
  Front without = open(without_dir, false);
  for (Front* front : {&with, &without}) {
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      Write(i, &words);
      if (Status ok = front->cache->Set(Key(i), Source(words.data(), kMiB)); !ok) {
        Fail(ok.error().message);
      }
    }
  }
  const int rounds = settings.quick ? 2 : 10;
  std::vector<double> ratios;
  double least_backed = 1;
  for (int round = 0; round < rounds; ++round) {
    std::array<double, 2> rates{};
    for (Front* front : {&without, &with}) {
      front->busy = 0;
      front->operations = 0;
      Work(front, settings.quick ? 0.5 : 2, static_cast<std::uint64_t>(round) * 97, kKeys, &words);
      rates[front == &with ? 1 : 0] = static_cast<double>(front->operations) / front->busy;
      if (front != &with) continue;
      double idle = 0;
      double backed = 0;
      front->cache->ForEach([&](const Cache::EntryInfo& info) {
        if (info.idle <= std::chrono::seconds(1)) return;
        idle += static_cast<double>(info.bytes);
        backed += info.backed || info.tier != "device" ? static_cast<double>(info.bytes) : 0;
      });
      if (idle > 0) least_backed = std::min(least_backed, backed / idle);
    }
    ratios.push_back(rates[1] / rates[0]);
  }
  Pause(std::chrono::seconds(settings.quick ? 2 : 10));
  const Stats quiet = with.cache->stats();
  // Entries that can be dropped at once were clean; then they are read from a lower tier.
  const Reclaimed dropped = with.cache->Reclaim(quiet.device.held, Duration::zero());
  const Stats after = with.cache->stats();
  const double share =
      1 - static_cast<double>(after.device.bytes) / static_cast<double>(quiet.device.bytes);
  std::uint64_t right = 0;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    const auto got = with.cache->Get(Key(i));
    if (got && *got && IsFrom(i, **got)) ++right;
  }
  report->Table("copying behind, at 50 % load in front",
                {"throughput with / without", "idle bytes backed under load",
                 "after quiet: dropped at once", "read back right", "to disk too"});
  report->Row(
      {fmt::format("{:.3f}", Median(ratios)), fmt::format("{:.3f}", least_backed),
       fmt::format("{:.3f} ({})", share, FormatBytes(dropped.freed)),
       fmt::format("{} of {}", right, kKeys),
       fmt::format("{:.3f}", static_cast<double>(quiet.host.clean) /
                                 static_cast<double>(std::max<Bytes>(1, quiet.host.bytes)))});
  report->Add({"foreground with write-back / without", Median(ratios), 0.95, 0.95, true, ""});
  report->Add({"idle bytes backed under load (by account)", least_backed, 0.9, 0.9, true, ""});
  report->Add(
      {"idle bytes backed after 10 s quiet (dropped, read back)", share, 0.9, 0.9, true, ""});
  report->Add({"contexts read back wrong", static_cast<double>(kKeys - right), 0, 0, false, ""});
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  using namespace spillway::bench;
  const Settings settings =
      ParseArguments(argc, argv, "the tiers together: share, journey, behind");
  Report report(settings);
  report.Begin("tiers");
  if (settings.Runs("share")) Share(settings, &report);
  if (settings.Runs("journey")) History(settings, &report);
  if (settings.Runs("behind")) Behind(settings, &report);
  report.End();
  return 0;
}
