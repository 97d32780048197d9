// SPDX-License-Identifier: Apache-2.0
// What the graph learns from finished runs: how long an agent's step takes, and how often a
// workflow takes each branch.
//
// To save work, small changes are not published: a mean is published when it has moved by an
// eighth, a branch's share when it has moved by a 64th. A steady workflow then causes no new
// evaluation. `version` rises when shares are published.
//
// Bounded: agents beyond kNamesMax share one mean, and branches beyond kCountsMax are not learned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/name_hash.h"
#include "spillway/units.h"

namespace spillway {

// A running mean: of all samples up to 64, then with a weight of 1/64 for each new one.
class RunningMean {
 public:
  // Adds a sample. True: the published mean has changed.
  bool Observe(Duration sample);
  bool known() const { return count_ > 0; }
  Duration published() const { return published_; }

 private:
  std::uint32_t count_ = 0;
  double mean_ns_ = 0;
  Duration published_{};
};

// Owned by one step graph; called under its lock.
class Estimates {
 public:
  using MeanIndex = std::uint32_t;
  using CountIndex = std::uint32_t;
  static constexpr std::uint32_t kNone = 0xffffffffU;
  static constexpr std::size_t kNamesMax = 65'536;
  static constexpr std::size_t kCountsMax = 1'000'000;

  Estimates() : means_(1) {}

  // Where the mean duration of this agent's steps is kept.
  MeanIndex MeanOf(std::string_view client, std::string_view agent);
  const RunningMean& mean(MeanIndex index) const { return means_[index]; }
  // Adds the duration of one step. True: the published mean has changed.
  bool Observe(MeanIndex index, Duration took) { return means_[index].Observe(took); }

  // Where it is counted how often `from` went to `to` at that choice. kNone: not learned.
  CountIndex CountOf(std::string_view workflow, std::string_view from, std::string_view choice,
                     std::string_view to, bool back);
  std::uint64_t count(CountIndex index) const { return index == kNone ? 0 : counts_[index]; }
  void Count(CountIndex index) {
    if (index != kNone) ++counts_[index];
  }

  std::uint64_t version() const { return version_; }
  void Publish() { ++version_; }

 private:
  std::vector<RunningMean> means_;  // The first is shared by all agents beyond the bound.
  std::unordered_map<std::string, MeanIndex, NameHash> mean_names_;
  std::vector<std::uint64_t> counts_;
  std::unordered_map<std::string, CountIndex, NameHash> count_names_;
  std::uint64_t version_ = 0;
};

}  // namespace spillway
