// SPDX-License-Identifier: Apache-2.0
// Policies by name: a rule and the order that goes with it.
#pragma once

#include <memory>
#include <string_view>

#include "policy/order.h"
#include "policy/rule.h"
#include "spillway/result.h"

namespace spillway {

// A named policy.
struct Policy {
  std::string_view name;
  std::unique_ptr<Rule> rule;
  std::unique_ptr<Order> order;
};

// Makes a policy: "documented", "lru", "hybrid", "workflow", "score" or "seed". Any other name is
// InvalidArgument, and the message lists these.
Result<Policy> MakePolicy(std::string_view name, const RuleSettings& settings,
                          const Ranked& ranked = {});

std::unique_ptr<Rule> MakeDocumentedRule(const RuleSettings& settings);
std::unique_ptr<Rule> MakeSeedRule();

}  // namespace spillway
