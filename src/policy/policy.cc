// SPDX-License-Identifier: Apache-2.0
#include "policy/policy.h"

#include <fmt/format.h>

namespace spillway {

Result<Policy> MakePolicy(std::string_view name, const RuleSettings& settings,
                          const Ranked& ranked) {
  if (name == "seed") {
    return Policy{"seed", MakeSeedRule(), MakeDocumentedOrder(ranked)};
  }
  if (name == "documented") {
    return Policy{"documented", MakeDocumentedRule(settings), MakeDocumentedOrder(ranked)};
  }
  RuleSettings by_other_order = settings;
  by_other_order.order_reason = Reason::kOrder;
  if (name == "lru") {
    return Policy{"lru", MakeDocumentedRule(by_other_order), MakeLruOrder(ranked)};
  }
  if (name == "hybrid") {
    return Policy{"hybrid", MakeDocumentedRule(by_other_order), MakeHybridOrder(ranked)};
  }
  if (name == "workflow") {
    // Known next uses come first (`WorkflowOrder`); this order ranks the other entries.
    return Policy{"workflow", MakeDocumentedRule(by_other_order), MakeLruOrder(ranked)};
  }
  if (name == "score") {
    return Policy{"score", MakeDocumentedRule(by_other_order), MakeScoreOrder(ranked)};
  }
  return Error{
      Code::kInvalidArgument,
      fmt::format("policy: '{}' is not known; known: documented, lru, hybrid, workflow, score, "
                  "seed",
                  name)};
}

}  // namespace spillway
