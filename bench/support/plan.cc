// SPDX-License-Identifier: Apache-2.0
#include "bench/support/plan.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "bench/support/engines.h"
#include "bench/support/measure.h"
#include "cache/core.h"

namespace spillway::bench {

namespace {

constexpr Bytes kValueBytes = 64;
constexpr double kPressure = 0.90;  // In PRESSURE; its target is 0.85 - 0.02.

// A pressure source that gives the card's own readings, except one reading of kPressure on request.
// Measures from that reading to the next: the pass in between, plus at most one sample period.
class OnePressure final : public PressureSource {
 public:
  explicit OnePressure(Bytes total) : total_(total) {}

  Result<Reading> Read() override {
    const double now = Now();
    const State state = state_.load();
    if (state == State::kPassing) {
      pass_ms_ = (now - began_) * 1e3;
      state_.store(State::kDone);
    } else if (state == State::kAsked) {
      began_ = now;
      state_.store(State::kPassing);
      return Reading{total_, FreeAt(kPressure)};
    }
    return Reading{total_, FreeAt(0.5)};
  }
  std::string_view name() const override { return "bench"; }

  // Milliseconds of the pass.
  double Press() {
    state_.store(State::kAsked);
    while (state_.load() != State::kDone) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    return pass_ms_;
  }

 private:
  enum class State : int { kQuiet, kAsked, kPassing, kDone };
  Bytes FreeAt(double pressure) const {
    return static_cast<Bytes>(static_cast<double>(total_) * (1 - pressure));
  }
  const Bytes total_;
  std::atomic<State> state_{State::kQuiet};
  double began_ = 0;
  double pass_ms_ = 0;
};

struct Outcome {
  double plan_ms = 0;
  std::size_t left = 0;
  Histogram quiet;   // Gets while nothing else runs.
  Histogram during;  // Gets while the plan runs.
};

std::unique_ptr<Cache> Fill(std::size_t entries, std::string_view policy,
                            std::shared_ptr<PressureSource> pressure) {
  Options options;
  options.policy = policy;
  options.pressure = std::move(pressure);
  options.sample_period = std::chrono::milliseconds(1);
  // The card is as large as its values: going from a pressure of 0.90 to below 0.83 evicts 7 % of
  // them.
  options.capacity = entries * kValueBytes;
  options.entries_max = entries + 1;
  options.token_budget.reset();
  auto cache = OpenOrStop(options);
  Random random(7);
  const std::string value(kValueBytes, 'v');
  for (std::size_t rank = 0; rank < entries; ++rank) {
    SetOptions set;
    set.tokens = static_cast<Tokens>(1 + random.Next() % 4096);
    if (!cache->Set(RequestFor(rank).key(), Source(value), set)) {
      std::fprintf(stderr, "filling for the plan: a set was refused\n");
      std::exit(1);
    }
  }
  return cache;
}

// Gets in a loop; the phase selects the histogram.
enum class Phase : int { kWarm, kQuiet, kPlan, kEnd };

void ReadAll(Cache* cache, const std::vector<Request>& stream, const std::atomic<Phase>& phase,
             Outcome* outcome) {
  for (std::size_t i = 0;; i = (i + 1) % stream.size()) {
    const Phase now = phase.load(std::memory_order_relaxed);
    if (now == Phase::kEnd) return;
    const std::uint64_t before = Ticks();
    {
      const auto got = cache->Get(stream[i].key());
    }
    const std::uint64_t took = Ticks() - before;
    if (now == Phase::kQuiet) outcome->quiet.Add(took);
    if (now == Phase::kPlan) outcome->during.Add(took);
  }
}

enum class Way : int { kDecided, kSampled, kListed };

struct Case {
  bool all_read;  // Each entry was read once since it was set.
  Way way;
  std::string_view policy = "documented";

  std::string name() const {
    constexpr std::array kWays = {"decided", "sampled", "listed by Apply"};
    return fmt::format("{}{}, {}", policy == "documented" ? "" : "by score, ",
                       all_read ? "all read" : "untouched",
                       kWays.at(static_cast<std::size_t>(way)));
  }
};

// Only chooses the entries to evict, up to the target. Ends the use of the cache: chosen entries
// are no longer in its rankings.
double Decide(Cache& cache, std::size_t entries) {
  Core& core = *Core::Of(cache);
  double ms = 0;
  RunOn(core.strand(), [&] {
    const double start = Now();
    for (std::size_t i = 0; i < entries * 7 / 100; ++i) {
      if (!core.engine().order().Next(Level::kPressure)) std::abort();
    }
    ms = (Now() - start) * 1e3;
  });
  return ms;
}

Outcome OnePlan(std::size_t entries, const Case& what, const std::vector<Request>& stream) {
  const auto pressure = std::make_shared<OnePressure>(entries * kValueBytes);
  const auto cache = Fill(entries, what.policy, pressure);
  if (what.all_read) {
    for (std::size_t rank = 0; rank < entries; ++rank) cache->Touch(RequestFor(rank).key());
  }
  Outcome outcome;
  std::atomic<Phase> phase{Phase::kWarm};
  if (what.way == Way::kSampled) {
    if (Status started = cache->Start(); !started) {
      std::fprintf(stderr, "starting the sampler: %s\n", started.error().message.c_str());
      std::exit(1);
    }
  }
  std::thread reader([&] { ReadAll(cache.get(), stream, phase, &outcome); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  phase.store(Phase::kQuiet);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  phase.store(Phase::kPlan);
  if (what.way == Way::kDecided) {
    outcome.plan_ms = Decide(*cache, entries);
  } else if (what.way == Way::kListed) {
    const double start = Now();
    static_cast<void>(cache->Apply(kPressure));
    outcome.plan_ms = (Now() - start) * 1e3;
  } else {
    outcome.plan_ms = pressure->Press();
  }
  phase.store(Phase::kEnd);
  reader.join();
  outcome.left = entries - cache->stats().entries;
  return outcome;
}

}  // namespace

void MeasurePlans(const Settings& settings, Report* report) {
  const std::size_t entries = settings.quick ? 100'000 : 1'000'000;
  const int repeats = settings.quick ? 1 : 5;
  // The reader mostly requests few keys, and these stay recently used.
  const std::vector<Request> stream = Stream(Zipf(entries, 0.99), 1 << 20, 11);
  report->Table(fmt::format("plan: {} entries, pressure {} -> under 0.83, one reader; median of {}",
                            entries, kPressure, repeats),
                {"entries", "plan ms", "(best)", "left", "get p50 ns", "p99 ns", "p99.9 us",
                 "max us", "quiet p99.9 us", "quiet max us"});
  for (const Case what : {Case{false, Way::kDecided},
                          {true, Way::kDecided},
                          {false, Way::kSampled},
                          {true, Way::kSampled},
                          {false, Way::kListed},
                          {true, Way::kListed},
                          {false, Way::kDecided, "score"},
                          {true, Way::kDecided, "score"},
                          {false, Way::kSampled, "score"},
                          {true, Way::kSampled, "score"}}) {
    std::vector<double> ms, p50, p99, p999, most, quiet999, quiet_most;
    std::size_t left = 0;
    for (int i = 0; i < repeats; ++i) {
      const Outcome outcome = OnePlan(entries, what, stream);
      ms.push_back(outcome.plan_ms);
      p50.push_back(outcome.during.Quantile(0.5));
      p99.push_back(outcome.during.Quantile(0.99));
      p999.push_back(outcome.during.Quantile(0.999) / 1e3);
      most.push_back(outcome.during.Max() / 1e3);
      quiet999.push_back(outcome.quiet.Quantile(0.999) / 1e3);
      quiet_most.push_back(outcome.quiet.Max() / 1e3);
      left = outcome.left;
    }
    const std::string name = what.name();
    report->Row({name, fmt::format("{:.1f}", Median(ms)), fmt::format("{:.1f}", Least(ms)),
                 std::to_string(left), fmt::format("{:.0f}", Median(p50)),
                 fmt::format("{:.0f}", Median(p99)), fmt::format("{:.1f}", Median(p999)),
                 fmt::format("{:.0f}", Median(most)), fmt::format("{:.1f}", Median(quiet999)),
                 fmt::format("{:.0f}", Median(quiet_most))});
    report->data()["plan"].push_back({{"entries", entries},
                                      {"case", name},
                                      {"left", left},
                                      {"plan_ms", ms},
                                      {"get_p999_us", p999},
                                      {"get_max_us", most},
                                      {"quiet_p999_us", quiet999}});
    report->Add({"plan, " + name, Median(ms), 50, 20, false, "ms"});
    report->Add({"get p99.9 meanwhile, " + name, Median(p999) / 1e3, 1, 1, false, "ms"});
  }
}

}  // namespace spillway::bench
