// Contexts in a cache of this process, for tests of agents.
#pragma once

#include <string_view>

#include "demo/contexts.h"
#include "spillway/cache.h"

namespace spillway::demo::testing {

class CacheContexts final : public Contexts {
 public:
  // `cache` is borrowed.
  explicit CacheContexts(Cache* cache) : cache_(cache) {}

  Status Read(std::span<const std::string_view> keys, const Each& each) override {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto got = cache_->Get(keys[i]);
      if (!got) return got.error();
      Found found;
      if (*got) found = {true, (*got)->tokens(), {(*got)->data(), (*got)->size()}};
      each(i, found);
    }
    return {};
  }
  Result<std::size_t> Match(std::span<const std::string_view> keys) override {
    return cache_->Match({keys.begin(), keys.end()});
  }
  Status Set(const Block& block, std::string_view agent,
             std::span<const std::byte> bytes) override {
    return cache_->Set(block.key, Source(bytes.data(), bytes.size()),
                       {.tokens = block.tokens, .agent = agent, .parent = block.parent});
  }
  Status Forget(std::span<const std::string_view> keys) override {
    for (const std::string_view key : keys) (void)cache_->Erase(key);
    return {};
  }

 private:
  Cache* const cache_;
};

}  // namespace spillway::demo::testing
