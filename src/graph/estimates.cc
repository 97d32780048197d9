// SPDX-License-Identifier: Apache-2.0
#include "graph/estimates.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace spillway {
namespace {

// Joins names with their lengths in front, so that different lists never give the same key.
std::string Joined(std::initializer_list<std::string_view> names) {
  std::string key;
  for (const std::string_view name : names) {
    key += std::to_string(name.size());
    key += ':';
    key += name;
  }
  return key;
}

}  // namespace

bool RunningMean::Observe(Duration sample) {
  count_ = std::min(count_ + 1, 64U);
  mean_ns_ += (static_cast<double>(sample.count()) - mean_ns_) / count_;
  const auto published = static_cast<double>(published_.count());
  if (count_ > 1 && std::abs(mean_ns_ - published) <= published / 8) return false;
  const Duration before = published_;
  published_ = Duration(std::llround(mean_ns_));
  return count_ == 1 || published_ != before;
}

Estimates::MeanIndex Estimates::MeanOf(std::string_view client, std::string_view agent) {
  const std::string key = Joined({client, agent});
  const auto found = mean_names_.find(key);
  if (found != mean_names_.end()) return found->second;
  if (mean_names_.size() >= kNamesMax) return 0;
  means_.emplace_back();
  const auto index = static_cast<MeanIndex>(means_.size() - 1);
  mean_names_.emplace(key, index);
  return index;
}

Estimates::CountIndex Estimates::CountOf(std::string_view workflow, std::string_view from,
                                         std::string_view choice, std::string_view to, bool back) {
  if (workflow.empty() || choice.empty()) return kNone;
  const std::string key = Joined({workflow, from, choice, to, back ? "back" : ""});
  const auto found = count_names_.find(key);
  if (found != count_names_.end()) return found->second;
  if (counts_.size() >= kCountsMax) return kNone;
  counts_.push_back(0);
  const auto index = static_cast<CountIndex>(counts_.size() - 1);
  count_names_.emplace(key, index);
  return index;
}

}  // namespace spillway
