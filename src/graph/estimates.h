// What runs teach: how long an agent's step takes, and which branch a workflow
// takes how often. Means are published in steps of an eighth and shares when
// they have moved by a 64th, so that a steady workflow makes nobody compute
// anew; `version` rises when shares are published. Bounded: beyond kNamesMax names
// newcomers share one mean, and branches are no longer learnt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spillway/units.h"

namespace spillway {

// A running mean: of all samples up to 64, then with a weight of 1/64 for each.
class RunningMean {
 public:
  // True: what is published has changed.
  bool Observe(Duration sample);
  bool known() const { return count_ > 0; }
  Duration published() const { return published_; }

 private:
  std::uint32_t count_ = 0;
  double mean_ns_ = 0;
  Duration published_{};
};

class Estimates {
 public:
  using MeanIndex = std::uint32_t;
  using CountIndex = std::uint32_t;
  static constexpr std::uint32_t kNone = 0xffffffffU;
  static constexpr std::size_t kNamesMax = 65'536;
  static constexpr std::size_t kCountsMax = 1'000'000;

  Estimates() : means_(1) {}

  MeanIndex MeanOf(std::string_view client, std::string_view agent);
  const RunningMean& mean(MeanIndex index) const { return means_[index]; }
  // True: what is published has changed.
  bool Observe(MeanIndex index, Duration took) { return means_[index].Observe(took); }

  // How often `from` went to `to` in that choice; kNone: not learnt.
  CountIndex CountOf(std::string_view workflow, std::string_view from, std::string_view choice,
                     std::string_view to, bool back);
  std::uint64_t count(CountIndex index) const { return index == kNone ? 0 : counts_[index]; }
  void Count(CountIndex index) {
    if (index != kNone) ++counts_[index];
  }

  std::uint64_t version() const { return version_; }
  void Publish() { ++version_; }

 private:
  std::vector<RunningMean> means_;  // The first is shared by those beyond the bound.
  std::unordered_map<std::string, MeanIndex> mean_names_;
  std::vector<std::uint64_t> counts_;
  std::unordered_map<std::string, CountIndex> count_names_;
  std::uint64_t version_ = 0;
};

}  // namespace spillway
