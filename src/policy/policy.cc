#include "policy/policy.h"

#include <fmt/format.h>

namespace spillway {

Result<Policy> MakePolicy(std::string_view name, const RuleSettings& settings,
                          const FactReader* reader, Ranking* idle) {
  if (name == "seed") {
    return Policy{"seed", MakeSeedRule(), MakeDocumentedOrder(reader, idle)};
  }
  if (name == "documented") {
    return Policy{"documented", MakeDocumentedRule(settings), MakeDocumentedOrder(reader, idle)};
  }
  RuleSettings by_other_order = settings;
  by_other_order.order_reason = Reason::kOrder;
  if (name == "lru") {
    return Policy{"lru", MakeDocumentedRule(by_other_order), MakeLruOrder(reader, idle)};
  }
  if (name == "hybrid") {
    return Policy{"hybrid", MakeDocumentedRule(by_other_order), MakeHybridOrder(reader, idle)};
  }
  return Error{
      Code::kInvalidArgument,
      fmt::format("policy: '{}' is not known; known: documented, lru, hybrid, seed", name)};
}

}  // namespace spillway
