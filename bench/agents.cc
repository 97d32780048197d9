// SPDX-License-Identifier: Apache-2.0
// Agents beside a neighbour process, on a machine with virtual time: the real engine on a card of
// 139 GiB, of which the neighbour takes half again and again, and 40 GiB of host memory below it.
// The contexts of 32 agents are more than both can hold at such times. bench/gpu/py/agents.py runs
// the same on a real machine. Here a policy or a setting can be tried in a second, with the same
// figures on every machine. docs/bench.md explains them and the options.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/report.h"
#include "cache/testing/virtual_machine.h"

namespace spillway::bench {
namespace {

using testing::VirtualMachine;

constexpr Bytes kCard = 139 * kGiB;
constexpr Bytes kModel = 30 * kGiB;  // Weights, and memory that torch keeps.
constexpr Bytes kTheirStep = 2 * kGiB;
constexpr int kChunkTokens = 256;
constexpr Bytes kTokenBytes = 128 * kKiB;
constexpr Bytes kChunk = kChunkTokens * kTokenBytes;
constexpr int kSystemTokens = 2048;
// Measured on an H200 (docs/gpu-results.md).
constexpr double kLink = 50e9;      // Bytes a second, into a model's tensors.
constexpr double kOnCard = 1.2e12;  // The same from the card itself.
constexpr double kOperations = 4.6e14;
constexpr double kDecode = 0.09;  // A few tokens.

// What the command line chooses.
struct Choice {
  double seconds = 30;
  std::uint64_t worlds = 6;
  std::vector<std::string> policies = {"lru", "documented", "score"};
  std::vector<std::string> levels = {"table", "late"};
  std::vector<std::string> arrivals = {"burst"};
  std::vector<Bytes> neighbours = {0, 70 * kGiB};
  Bytes host = 40 * kGiB;
  int agents = 32;
  bool json = false;
};

Thresholds LevelsCalled(const std::string& name) {
  return name == "late" ? Thresholds{0.93, 0.94, 0.96, 0.98} : Thresholds{};
}

// Seconds to compute the rest of a prompt after a known prefix: an 8B model in transformers, whose
// attention is slower after a prefix.
double Prefill(double known, double tokens) {
  constexpr double kToken = 2 * 7e9;
  constexpr double kPair = 4.0 * 32 * 128 * 32;
  const double left = tokens - known;
  return (left * kToken + left * tokens * kPair * (known > 0 ? 4.0 : 0.4)) / kOperations;
}

// Quantiles of the pauses between turns in WEKA's trace of coding agents: after a tool, and after a
// human (one in twenty).
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
  return std::min(seconds, 60.0) / 2;  // Time passes twice as fast.
}

// The neighbour: takes its share in steps, holds it for 4 s, frees it for 3 s.
class Neighbour {
 public:
  Neighbour(VirtualMachine* machine, Bytes most) : machine_(machine), most_(most) {
    machine->Others(kModel);
  }

  void Enter(bool here) { here_ = here && most_ > 0; }
  void Act(double now) {
    if (!here_ || now < rests_until_) return;
    if (now < holds_until_) return;
    if (holds_until_ > 0) {
      has_ = 0;
      holds_until_ = 0;
      rests_until_ = now + 3;
    } else if (has_ >= most_) {
      holds_until_ = now + 4;
      // The neighbour's driver takes some memory, too.
    } else if (machine_->free() < kTheirStep + kGiB / 2) {
      ++failed_;
      rests_until_ = now + 0.05;
    } else {
      if (has_ == 0) {
        at_bursts_.push_back(static_cast<double>(machine_->free() + machine_->AtOnce()) / 1e9);
      }
      has_ += kTheirStep;
      rests_until_ = now + 0.02;
    }
    machine_->Others(kModel + has_);
  }
  std::size_t failed() const { return failed_; }
  // Gigabytes free or droppable without a copy, at the moment each burst began.
  const std::vector<double>& at_bursts() const { return at_bursts_; }

 private:
  VirtualMachine* const machine_;
  const Bytes most_;
  bool here_ = false;
  Bytes has_ = 0;
  double holds_until_ = 0;
  double rests_until_ = 0;
  std::size_t failed_ = 0;
  std::vector<double> at_bursts_;
};

constexpr std::array<std::string_view, 5> kLevelNames = {"RELAXED", "NORMAL", "PRESSURE",
                                                         "CRITICAL", "EMERGENCY"};

// Of one phase of one world.
struct Figures {
  double turns = 0;
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
  double reused = 0;
  double copied = 0;                        // Gigabytes to the host.
  std::map<std::string, double> destroyed;  // Gigabytes whose last copy went, by reason.
  double failed = 0;                        // Failed allocations of the neighbour.
  double at_once = 0;                       // Gigabytes droppable without a copy, at the end.
  std::vector<double> at_bursts;            // See Neighbour.
  std::array<double, kLevelNames.size()> levels{};  // Seconds at each level of the device.

  double all_destroyed() const {
    double sum = 0;
    for (const auto& [reason, gigabytes] : destroyed) sum += gigabytes;
    return sum;
  }
  std::pair<double, double> LeastAndMedianAtBurst() const {
    if (at_bursts.empty()) return {0, 0};
    std::vector<double> sorted = at_bursts;
    std::sort(sorted.begin(), sorted.end());
    return {sorted.front(), sorted.at(sorted.size() / 2)};
  }
};

class World {
 public:
  World(const Choice& choice, const std::string& policy, const Thresholds& thresholds,
        Bytes neighbour, std::uint64_t seed)
      : choice_(choice),
        machine_(SettingsOf(policy, thresholds)),
        neighbour_(&machine_, neighbour),
        seed_(seed) {
    for (int number = 0; number < choice_.agents; ++number) {
      Agent agent{number, std::mt19937_64(static_cast<std::uint64_t>(number) + 1000 * seed)};
      agent.tokens = kSystemTokens + 8192 + static_cast<int>(agent.random() % 16384);
      agents_.push_back(agent);
    }
    for (Agent& agent : agents_) {  // Every agent has had a turn before.
      Pass(FirstToken(agent));
      Save(agent);
    }
  }

  // Agents' first turns come within two seconds, or spread over the phase.
  Figures Phase(bool neighbour, bool spread) {
    neighbour_.Enter(neighbour);
    const double start = now();
    const Bytes copied = machine_.stats().moves.bytes_down;
    const std::size_t failed = neighbour_.failed();
    destroyed_.clear();
    levels_ = {};
    reused_ = all_ = 0;
    std::mt19937_64 random(11 + seed_);
    using Due = std::pair<double, std::size_t>;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
    std::uniform_real_distribution<double> soon(0, spread ? choice_.seconds : 2);
    for (std::size_t at = 0; at < agents_.size(); ++at) due.emplace(soon(random), at);
    std::vector<double> ttft;
    while (!due.empty()) {
      const auto [at, number] = due.top();
      due.pop();
      if (std::max(at, now() - start) > choice_.seconds) break;
      if (at > now() - start) Pass(at - (now() - start));
      Agent& agent = agents_[number];
      if (agent.tokens < 32768) {
        agent.tokens += 400;
      } else {  // It starts again after the system prompt.
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
    if (ttft.empty()) throw std::runtime_error("no agent had a turn: --seconds is too short");
    figures.turns = static_cast<double>(ttft.size());
    for (const double each : ttft) figures.mean += each / figures.turns;
    figures.p50 = ttft.at(ttft.size() / 2);
    figures.p99 = ttft.at(ttft.size() * 99 / 100);
    figures.reused = reused_ / all_;
    figures.copied = static_cast<double>(machine_.stats().moves.bytes_down - copied) / 1e9;
    figures.destroyed = destroyed_;
    figures.failed = static_cast<double>(neighbour_.failed() - failed);
    figures.at_once = static_cast<double>(machine_.AtOnce()) / 1e9;
    figures.at_bursts = neighbour_.at_bursts();
    figures.levels = levels_;
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
    settings.host = choice_.host;
    settings.reserve = kCard / 25;
    settings.write_back_after = std::chrono::milliseconds(50);
    settings.thresholds = thresholds;
    settings.on_event = [this](const Event& event) {
      if (event.action != Action::kDestroy) return;
      destroyed_[std::string(Name(event.reason))] += static_cast<double>(event.bytes) / 1e9;
    };
    return settings;
  }

  double now() const {
    return std::chrono::duration<double>(machine_.now().time_since_epoch()).count();
  }
  void Pass(double seconds) {
    for (const double until = now() + seconds; now() < until - 1e-9;) {
      neighbour_.Act(now());
      machine_.RunBackground(std::chrono::milliseconds(10));
      levels_.at(static_cast<std::size_t>(machine_.core().engine().level())) += 0.01;
    }
  }

  static std::string Key(const Agent& agent, int chunk) {
    if (chunk < kSystemTokens / kChunkTokens) return fmt::format("system/{}", chunk);
    return fmt::format("{}.{}/{}", agent.number, agent.lives, chunk);
  }

  // Returns how long it takes.
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
      return false;  // It is refused now.
    }
  }

  const Choice& choice_;
  std::map<std::string, double> destroyed_;  // Gigabytes in this phase, by reason.
  std::array<double, kLevelNames.size()> levels_{};
  VirtualMachine machine_;
  Neighbour neighbour_;
  const std::uint64_t seed_;
  std::vector<Agent> agents_;
  double reused_ = 0;
  double all_ = 0;
};

nlohmann::ordered_json AsJson(const Figures& figures) {
  const auto [least, median] = figures.LeastAndMedianAtBurst();
  nlohmann::ordered_json levels;
  for (std::size_t at = 0; at < kLevelNames.size(); ++at) {
    levels[std::string(kLevelNames.at(at))] = figures.levels.at(at);
  }
  return {{"p50_s", figures.p50},
          {"p99_s", figures.p99},
          {"mean_s", figures.mean},
          {"turns", figures.turns},
          {"reused", figures.reused},
          {"destroyed_gb", figures.all_destroyed()},
          {"destroyed_by_reason", figures.destroyed},
          {"copied_gb", figures.copied},
          {"neighbour_failures", figures.failed},
          {"droppable_gb_at_burst", {{"least", least}, {"median", median}}},
          {"droppable_gb_at_end", figures.at_once},
          {"seconds_at_level", levels}};
}

// One line of the table: means over the worlds, but all failures and the least of all bursts.
void AddRow(std::vector<std::string> cells, const std::vector<Figures>& worlds, Report* report) {
  const auto mean = [&](auto&& of) {
    double sum = 0;
    for (const Figures& each : worlds) sum += of(each);
    return sum / static_cast<double>(worlds.size());
  };
  Figures all;
  for (const Figures& each : worlds) {
    all.failed += each.failed;
    all.at_bursts.insert(all.at_bursts.end(), each.at_bursts.begin(), each.at_bursts.end());
    for (const auto& [reason, gigabytes] : each.destroyed) {
      all.destroyed[reason] += gigabytes / static_cast<double>(worlds.size());
    }
  }
  std::string reasons;
  for (const auto& [reason, gigabytes] : all.destroyed) {
    reasons += fmt::format("{}{} {:.0f}", reasons.empty() ? "" : ", ", reason, gigabytes);
  }
  const auto [least, median] = all.LeastAndMedianAtBurst();
  const auto numbers = {
      fmt::format("{:.0f}", mean([](const Figures& one) { return one.turns; })),
      fmt::format("{:.2f}", mean([](const Figures& one) { return one.p50; })),
      fmt::format("{:.2f}", mean([](const Figures& one) { return one.p99; })),
      fmt::format("{:.3f}", mean([](const Figures& one) { return one.reused; })),
      fmt::format("{:.0f}", mean([](const Figures& one) { return one.copied; })),
      reasons.empty() ? std::string("0") : reasons,
      fmt::format("{:.0f}", all.failed),
      all.at_bursts.empty() ? std::string("-") : fmt::format("{:.1f}/{:.1f}", least, median),
      fmt::format("{:.1f}/{:.1f}", mean([](const Figures& one) { return one.levels[3]; }),
                  mean([](const Figures& one) { return one.levels[4]; }))};
  cells.insert(cells.end(), numbers.begin(), numbers.end());
  report->Row(std::move(cells));
}

void Measure(const Choice& choice, Report* report) {
  report->Table(fmt::format("{} agents, {} GiB of host memory; {} worlds of {} s, means",
                            choice.agents, choice.host / kGiB, choice.worlds, choice.seconds),
                {"policy", "levels", "arrivals", "neighbour GiB", "turns", "TTFT p50 s", "p99 s",
                 "reused", "GB copied down", "GB destroyed", "its failures",
                 "GB at burst least/median", "s CRITICAL/EMERGENCY"});
  const Bytes most = *std::max_element(choice.neighbours.begin(), choice.neighbours.end());
  for (const std::string& levels : choice.levels) {
    for (const std::string& arrivals : choice.arrivals) {
      for (const std::string& policy : choice.policies) {
        std::map<Bytes, std::vector<Figures>> all;
        for (std::uint64_t seed = 0; seed < choice.worlds; ++seed) {
          // Each world begins with a phase in which the neighbour is not there.
          World world(choice, policy, LevelsCalled(levels), most, seed);
          for (const Bytes neighbour : {Bytes{0}, most}) {
            if (neighbour != 0 && most == 0) continue;
            const Figures figures = world.Phase(neighbour != 0, arrivals == "spread");
            if (std::ranges::find(choice.neighbours, neighbour) == choice.neighbours.end()) {
              continue;
            }
            all[neighbour].push_back(figures);
            if (!choice.json) continue;
            nlohmann::ordered_json one = {{"policy", policy},
                                          {"levels", levels},
                                          {"arrivals", arrivals},
                                          {"world", seed},
                                          {"seconds", choice.seconds},
                                          {"agents", choice.agents},
                                          {"host_gib", choice.host / kGiB},
                                          {"neighbour_gib", neighbour / kGiB}};
            one.update(AsJson(figures));
            fmt::print("{}\n", one.dump());
          }
        }
        for (const auto& [neighbour, worlds] : all) {
          AddRow({policy, levels, arrivals, fmt::format("{}", neighbour / kGiB)}, worlds, report);
        }
      }
    }
  }
}

constexpr std::string_view kUsage =
    "Measures what agents keep beside a neighbour, on a machine of virtual time.\n"
    "usage: agents [--quick] [--json] [--seconds S] [--worlds N] [--policy lru|documented|score]\n"
    "              [--levels table|late] [--arrivals burst|spread] [--neighbour SHARE|GiB]\n"
    "              [--host-gib N] [--agents N]\n"
    "--neighbour: up to 1 a share of the card of 139 GiB, above it GiB. --json: one object a line\n"
    "for each world and setting.\n";

Choice ChoiceOf(int argc, char** argv) {
  Choice choice;
  const auto stop = [](int code) {
    fmt::print(code == 0 ? stdout : stderr, "{}", kUsage);
    std::exit(code);
  };
  for (int at = 1; at < argc; ++at) {
    const std::string_view name = argv[at];
    if (name == "--help") stop(0);
    if (name == "--json") {
      choice.json = true;
      continue;
    }
    if (name == "--quick") {
      choice.worlds = 1;
      continue;
    }
    if (++at == argc) stop(2);
    const std::string value = argv[at];
    const auto one_of = [&](std::initializer_list<std::string_view> names) {
      if (std::ranges::find(names, value) == names.end()) stop(2);
      return std::vector<std::string>{value};
    };
    const auto number = [&](double least) {
      char* end = nullptr;
      const double parsed = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != '\0' || !(parsed >= least) || parsed > 1e6) stop(2);
      return parsed;
    };
    if (name == "--seconds") {
      choice.seconds = number(1);
    } else if (name == "--worlds") {
      choice.worlds = static_cast<std::uint64_t>(number(1));
    } else if (name == "--policy") {
      choice.policies = one_of({"lru", "documented", "score", "hybrid", "workflow"});
    } else if (name == "--levels") {
      choice.levels = one_of({"table", "late"});
    } else if (name == "--arrivals") {
      choice.arrivals = one_of({"burst", "spread"});
    } else if (name == "--neighbour") {
      const double most = number(0);
      choice.neighbours = {static_cast<Bytes>(most <= 1 ? most * static_cast<double>(kCard)
                                                        : most * static_cast<double>(kGiB))};
    } else if (name == "--host-gib") {
      choice.host = static_cast<Bytes>(number(1)) * kGiB;
    } else if (name == "--agents") {
      choice.agents = static_cast<int>(number(1));
    } else {
      stop(2);
    }
  }
  return choice;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) try {
  using namespace spillway::bench;
  const Choice choice = ChoiceOf(argc, argv);
  Settings settings;
  settings.json = choice.json;
  Report report(settings);
  report.Begin("agents");
  Measure(choice, &report);
  if (!choice.json) report.End();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "agents: {}\n", error.what());
  return 1;
}
