#include "demo/review.h"

#include <unordered_set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway::demo {

std::size_t InMemory(std::span<const std::string> keys, std::string_view contexts_json) {
  const nlohmann::json page = nlohmann::json::parse(contexts_json, nullptr, false);
  const auto rows = page.is_object() ? page.find("contexts") : page.end();
  if (!page.is_object() || rows == page.end() || !rows->is_array()) return 0;
  std::unordered_set<std::string> up;
  for (const nlohmann::json& row : *rows) {
    const std::string tier = row.value("tier", std::string());
    if (tier == "device" || tier == "host") up.insert(row.value("key", std::string()));
  }
  std::size_t count = 0;
  for (const std::string& key : keys) count += up.count(key);
  return count;
}

void Reviews::Look(const Agent& reviewer) {
  std::vector<std::string> own;
  for (const Block& block : reviewer.blocks()) {
    if (block.key.starts_with(reviewer.name() + "/")) own.push_back(block.key);
  }
  const Result<std::string> page =
      http_.Get(fmt::format("/api/v1/contexts?search={}/&limit=1000", reviewer.name()));
  if (!page) return;
  Review review{reviewer.name(), own.size(), InMemory(own, *page), chronicle_->HeldByLru(own)};
  const std::lock_guard lock(mutex_);
  ++sum_.reviews;
  sum_.blocks += review.blocks;
  sum_.in_memory += review.in_memory;
  sum_.in_lru += review.in_lru;
  sum_.last = std::move(review);
}

ReviewSum Reviews::sum() const {
  const std::lock_guard lock(mutex_);
  return sum_;
}

void Reviews::Begin() {
  const std::lock_guard lock(mutex_);
  sum_ = {};
}

}  // namespace spillway::demo
