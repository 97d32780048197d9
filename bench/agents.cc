// Agents beside a neighbour, on a machine of virtual time: the real engine on a card
// of 140 GiB of which somebody else takes half, again and again, and 40 GiB of host
// memory below it; contexts of 32 agents that are more than both together can hold
// then. bench/gpu/py/agents.py is the same on a real one. Here a policy or a setting
// can be tried in a second, and the same figures come out on every machine.
// docs/bench.md says how to read it.
#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/report.h"
#include "cache/testing/virtual_machine.h"

namespace spillway::bench {
namespace {

using testing::VirtualMachine;

constexpr Bytes kCard = 139 * kGiB;
constexpr Bytes kHost = 40 * kGiB;
constexpr Bytes kModel = 30 * kGiB;  // Weights, and what torch keeps.
constexpr Bytes kTheirs = 70 * kGiB;
constexpr Bytes kTheirStep = 2 * kGiB;
constexpr int kChunkTokens = 256;
constexpr Bytes kTokenBytes = 128 * kKiB;
constexpr Bytes kChunk = kChunkTokens * kTokenBytes;
constexpr int kSystemTokens = 2048;
constexpr int kAgents = 32;
constexpr double kPhase = 30;
// As measured on an H200 (docs/gpu-results.md).
constexpr double kLink = 50e9;      // Bytes a second, into a model's tensors.
constexpr double kOnCard = 1.2e12;  // The same from the card itself.
constexpr double kOperations = 4.6e14;
constexpr double kDecode = 0.09;  // A few tokens.

// Seconds for the rest of a prompt behind what is known of it: an 8B model in
// transformers, whose attention is slower behind a prefix.
double Prefill(double known, double tokens) {
  constexpr double kToken = 2 * 7e9;
  constexpr double kPair = 4.0 * 32 * 128 * 32;
  const double left = tokens - known;
  return (left * kToken + left * tokens * kPair * (known > 0 ? 4.0 : 0.4)) / kOperations;
}

// Quantiles of the pauses between turns in WEKA's trace of coding agents: after a
// tool, and after a human (one of twenty).
double DrawPause(std::mt19937_64* random) {
  using Table = std::array<std::pair<double, double>, 6>;
  static constexpr Table kTool = {
      {{0, 2}, {0.1, 3.9}, {0.5, 8.5}, {0.9, 70}, {0.99, 611}, {1, 1000}}};
  static constexpr Table kHuman = {
      {{0, 3}, {0.1, 5.7}, {0.5, 210}, {0.9, 2981}, {0.99, 39529}, {1, 50000}}};
  std::uniform_real_distribution<double> uniform(0, 1);
  const Table& table = uniform(*random) < 0.05 ? kHuman : kTool;
  const double at = uniform(*random);
  std::size_t upper = 1;
  while (upper + 1 < table.size() && table.at(upper).first < at) ++upper;
  const auto [q0, v0] = table.at(upper - 1);
  const auto [q1, v1] = table.at(upper);
  const double seconds =
      std::exp(std::log(v0) + (at - q0) / (q1 - q0) * (std::log(v1) - std::log(v0)));
  return std::min(seconds, 60.0) / 2;  // Time goes twice as fast.
}

// In another process: takes its share in steps, holds it for 4 s, leaves for 3 s.
class Neighbour {
 public:
  explicit Neighbour(VirtualMachine* machine) : machine_(machine) { machine->Others(kModel); }

  void Enter(bool here) { here_ = here; }
  void Act(double now) {
    if (!here_ || now < rests_until_) return;
    if (now < holds_until_) return;
    if (holds_until_ > 0) {
      has_ = 0;
      holds_until_ = 0;
      rests_until_ = now + 3;
    } else if (has_ >= kTheirs) {
      holds_until_ = now + 4;
    } else if (machine_->free() < kTheirStep + kGiB / 2) {  // Its driver takes some, too.
      ++failed_;
      rests_until_ = now + 0.05;
    } else {
      has_ += kTheirStep;
      rests_until_ = now + 0.02;
    }
    machine_->Others(kModel + has_);
  }
  std::size_t failed() const { return failed_; }

 private:
  VirtualMachine* const machine_;
  bool here_ = false;
  Bytes has_ = 0;
  double holds_until_ = 0;
  double rests_until_ = 0;
  std::size_t failed_ = 0;
};

struct Figures {
  double turns = 0;
  double p50 = 0;
  double p99 = 0;
  double reused = 0;
  double copied = 0;     // Gigabytes to the host.
  double destroyed = 0;  // Gigabytes of which nothing is left.
  double failed = 0;     // Of the neighbour's allocations.
  double at_once = 0;    // Gigabytes that could leave without a copy, at the end.

  void Add(const Figures& other) {
    turns += other.turns;
    p50 += other.p50;
    p99 += other.p99;
    reused += other.reused;
    copied += other.copied;
    destroyed += other.destroyed;
    failed += other.failed;
    at_once += other.at_once;
  }
};

class World {
 public:
  World(const std::string& policy, const Thresholds& thresholds, std::uint64_t seed)
      : machine_(SettingsOf(policy, thresholds)), neighbour_(&machine_), seed_(seed) {
    for (int number = 0; number < kAgents; ++number) {
      Agent agent{number, std::mt19937_64(static_cast<std::uint64_t>(number) + 1000 * seed)};
      agent.tokens = kSystemTokens + 8192 + static_cast<int>(agent.random() % 16384);
      agents_.push_back(agent);
    }
    for (Agent& agent : agents_) {  // Everybody has been here before.
      Pass(FirstToken(agent));
      Save(agent);
    }
  }

  Figures Phase(bool neighbour) {
    neighbour_.Enter(neighbour);
    const double start = now();
    const Bytes copied = machine_.stats().moves.bytes_down;
    const Bytes destroyed = destroyed_;
    reused_ = all_ = 0;
    std::mt19937_64 random(11 + seed_);
    using Due = std::pair<double, std::size_t>;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
    std::uniform_real_distribution<double> soon(0, 2);
    for (std::size_t at = 0; at < agents_.size(); ++at) due.emplace(soon(random), at);
    std::vector<double> ttft;
    while (!due.empty()) {
      const auto [at, number] = due.top();
      due.pop();
      if (std::max(at, now() - start) > kPhase) break;
      if (at > now() - start) Pass(at - (now() - start));
      Agent& agent = agents_[number];
      if (agent.tokens < 32768) {
        agent.tokens += 400;
      } else {  // It begins anew behind the system prompt.
        ++agent.lives;
        agent.tokens = 2 * kSystemTokens;
      }
      Pass(FirstToken(agent));
      ttft.push_back(now() - start - at);
      Pass(kDecode);
      agent.tokens += 4;
      Save(agent);
      due.emplace(now() - start + DrawPause(&agent.random), number);
    }
    std::sort(ttft.begin(), ttft.end());
    Figures figures;
    figures.turns = static_cast<double>(ttft.size());
    figures.p50 = ttft.at(ttft.size() / 2);
    figures.p99 = ttft.at(ttft.size() * 99 / 100);
    figures.reused = reused_ / all_;
    figures.copied = static_cast<double>(machine_.stats().moves.bytes_down - copied) / 1e9;
    figures.destroyed = static_cast<double>(destroyed_ - destroyed) / 1e9;
    figures.failed = static_cast<double>(neighbour_.failed());
    figures.at_once = static_cast<double>(machine_.AtOnce()) / 1e9;
    return figures;
  }

 private:
  struct Agent {
    int number = 0;
    std::mt19937_64 random;
    int tokens = 0;
    int lives = 0;
  };

  VirtualMachine::Settings SettingsOf(const std::string& policy, const Thresholds& thresholds) {
    VirtualMachine::Settings settings;
    settings.policy = policy;
    settings.graph = false;
    settings.device = kCard;
    settings.host = kHost;
    settings.reserve = kCard / 25;
    settings.write_behind_after = std::chrono::milliseconds(50);
    settings.thresholds = thresholds;
    settings.on_event = [this](const Event& event) {
      if (event.action == Action::kDestroy) destroyed_ += event.bytes;
    };
    return settings;
  }

  double now() const {
    return std::chrono::duration<double>(machine_.now().time_since_epoch()).count();
  }
  void Pass(double seconds) {
    for (const double until = now() + seconds; now() < until - 1e-9;) {
      neighbour_.Act(now());
      machine_.Tend(std::chrono::milliseconds(10));
    }
  }

  static std::string Key(const Agent& agent, int chunk) {
    if (chunk < kSystemTokens / kChunkTokens) return fmt::format("system/{}", chunk);
    return fmt::format("{}.{}/{}", agent.number, agent.lives, chunk);
  }

  // How long it takes.
  double FirstToken(const Agent& agent) {
    int known = 0;
    Bytes from_host = 0;
    Bytes from_card = 0;
    for (; (known + 1) * kChunkTokens < agent.tokens; ++known) {
      const std::string key = Key(agent, known);
      if (!machine_.core().Contains(key)) break;
      (machine_.OnDevice(key) ? from_card : from_host) += kChunk;
    }
    const double behind = Prefill(known * kChunkTokens, agent.tokens);
    const double anew = Prefill(0, agent.tokens);
    all_ += agent.tokens;
    if (anew <= behind) return anew;
    for (int chunk = 0; chunk < known; ++chunk) machine_.core().Touch(Key(agent, chunk));
    reused_ += known * kChunkTokens;
    return static_cast<double>(from_host) / kLink + static_cast<double>(from_card) / kOnCard +
           behind;
  }

  void Save(const Agent& agent) {
    const int whole = agent.tokens / kChunkTokens;
    for (int chunk = 0; chunk < whole; ++chunk) {
      if (machine_.core().Contains(Key(agent, chunk))) continue;
      if (!Set(Key(agent, chunk), kChunk, chunk > 0 ? Key(agent, chunk - 1) : "")) return;
    }
    const int rest = agent.tokens % kChunkTokens;
    if (rest == 0) return;
    Set(fmt::format("{}.{}/tail{}", agent.number, agent.lives, agent.tokens),
        static_cast<Bytes>(rest) * kTokenBytes, Key(agent, whole - 1));
  }
  bool Set(const std::string& key, Bytes bytes, const std::string& parent) {
    try {
      machine_.Set(key, bytes, parent, Place::kDevice);
      return true;
    } catch (const std::runtime_error&) {
      return false;  // It is not taken now.
    }
  }

  Bytes destroyed_ = 0;
  VirtualMachine machine_;
  Neighbour neighbour_;
  const std::uint64_t seed_;
  std::vector<Agent> agents_;
  double reused_ = 0;
  double all_ = 0;
};

void Measure(const Settings& settings, Report* report) {
  const std::uint64_t seeds = settings.quick ? 1 : 6;
  const Thresholds table;
  const Thresholds late{0.93, 0.94, 0.96, 0.98};
  report->Table(
      fmt::format("{} agents, 77 GiB of contexts, {} GiB of host memory, half of the card a "
                  "neighbour's; {} worlds of {} s, means",
                  kAgents, kHost / kGiB, seeds, kPhase),
      {"policy", "levels", "neighbour", "turns", "TTFT p50 s", "p99 s", "reused", "GB copied down",
       "GB destroyed", "its failures", "GB at once"});
  for (const auto& [levels, thresholds] :
       {std::pair<const char*, const Thresholds&>{"table", table}, {"late", late}}) {
    for (const char* policy : {"lru", "documented", "score"}) {
      std::array<Figures, 2> sum;
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        World world(policy, thresholds, seed);
        for (const bool neighbour : {false, true}) sum.at(neighbour).Add(world.Phase(neighbour));
      }
      for (const bool neighbour : {false, true}) {
        const Figures& all = sum.at(neighbour);
        const auto n = static_cast<double>(seeds);
        report->Row({policy, levels, neighbour ? "half" : "none",
                     fmt::format("{:.0f}", all.turns / n), fmt::format("{:.2f}", all.p50 / n),
                     fmt::format("{:.2f}", all.p99 / n), fmt::format("{:.3f}", all.reused / n),
                     fmt::format("{:.0f}", all.copied / n),
                     fmt::format("{:.0f}", all.destroyed / n), fmt::format("{:.0f}", all.failed),
                     fmt::format("{:.1f}", all.at_once / n)});
        report->data()["agents"].push_back({{"policy", policy},
                                            {"levels", levels},
                                            {"neighbour", neighbour},
                                            {"ttft_p50_s", all.p50 / n},
                                            {"reused", all.reused / n},
                                            {"copied_gb", all.copied / n},
                                            {"destroyed_gb", all.destroyed / n},
                                            {"failed", all.failed},
                                            {"at_once_gb", all.at_once / n}});
      }
    }
  }
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) try {
  using namespace spillway::bench;
  const Settings settings = ParseArguments(
      argc, argv, "Measures what agents keep beside a neighbour, on a machine of virtual time.");
  Report report(settings);
  report.Begin("agents");
  Measure(settings, &report);
  report.End();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "agents: {}\n", error.what());
  return 1;
}
