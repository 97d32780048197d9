// SPDX-License-Identifier: Apache-2.0
// The commands that clients of a simulated daemon send.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serversim/plan.h"
#include "serversim/resp.h"
#include "sim/rng.h"

namespace spillway::serversim {

// Weights of all kinds of requests, as a seed draws them.
std::vector<std::uint32_t> DrawCommands(sim::Rng& rng, const std::set<std::string>& without,
                                        bool roomy);
// That weight for one kind of request, and none for the others.
std::vector<std::uint32_t> WeightsOf(std::string_view form, std::uint32_t weight);

class Requests {
 public:
  Requests(const Plan* plan, sim::Rng* rng) : plan_(*plan), rng_(*rng) {}

  // The next request of a client, or several that belong together. `unix_ms`: now.
  std::vector<Words> Next(std::int64_t unix_ms);
  // A number for a command's name, whatever else the list of forms holds.
  static std::uint64_t IdOf(std::string_view command);
  // Whether its reply is for people to read.
  static bool AnswersInWords(std::string_view command);
  std::string AnyKey() { return plan_.keys[rng_.Below(plan_.keys.size())]; }

 private:
  Words One(std::int64_t unix_ms, bool in_multi);
  Words FromForm(std::string_view form, std::int64_t unix_ms);
  std::string NewValue();
  std::vector<Words> Pieces();
  std::vector<Words> Bulk();

  const Plan& plan_;
  sim::Rng& rng_;
  std::uint64_t values_ = 0;
};

}  // namespace spillway::serversim
