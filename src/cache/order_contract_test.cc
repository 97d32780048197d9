// SPDX-License-Identifier: Apache-2.0
// What holds for every policy: an evicted entry is present, not leased and not
// continued by another; each is evicted once; all are evicted in the end; the same seed
// gives the same evictions.
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cache/testing/cache_fixture.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class EveryPolicy : public testing::CacheTest,
                    public ::testing::WithParamInterface<std::string_view> {
 protected:
  EveryPolicy() {
    options_.policy = GetParam();
    options_.ttl.reset();
    options_.token_budget.reset();
  }

  // Chains of blocks, as conversations make them, in a cache with room for a part; some
  // with hints, some leased. Checks each eviction as it happens.
  std::vector<std::string> Live(std::uint64_t seed, int requests) {
    std::vector<std::string> log;
    std::map<std::string, int> leases;
    std::map<std::string, std::string> parents;
    std::map<std::string, std::set<std::string>> children;
    options_.capacity = 64 * kKiB;
    Options options = WithWorld();
    options.on_event = [&](const Event& event) {
      const std::string key(event.key);
      log.push_back(fmt::format("{} {} {}", key, Name(event.reason), event.order));
      if (event.reason == Reason::kReplaced) {  // Its children have no parent now.
        for (const std::string& child : children[key]) parents[child] = "-";
        children[key].clear();
        children[parents[key]].erase(key);
        return;
      }
      EXPECT_TRUE(parents.contains(key)) << key << " was not there";
      EXPECT_EQ(leases[key], 0) << key << " is leased";
      EXPECT_TRUE(children[key].empty()) << key << " is continued";
      children[parents[key]].erase(key);
      parents.erase(key);
    };
    cache_ = std::move(Cache::Open(options).value());
    if (GetParam() == "workflow") Follow();
    std::mt19937_64 dice(seed);
    std::vector<std::pair<std::string, Lease>> held;
    for (int i = 0; i < requests; ++i) {
      clock_->Advance(milliseconds(dice() % 3000));
      const std::uint64_t session = dice() % 30;
      const std::size_t length = 1 + dice() % 8;
      std::vector<std::string> names;
      for (std::size_t at = 0; at < length; ++at)
        names.push_back(fmt::format("{}.{}", session, at));
      const std::vector<std::string_view> keys(names.begin(), names.end());
      std::vector<Lease> run = cache_->GetChain(keys);
      for (std::size_t at = 0; at < run.size(); ++at) ++leases[names[at]];
      for (std::size_t at = run.size(); at < length; ++at) {
        SetOptions set;
        set.tokens = 100;
        if (at > 0) set.parent = keys[at - 1];
        if (at + 1 == length) set.hint = dice() % 3 == 0 ? Hint::kDone : Hint::kNone;
        const std::string value(500 + dice() % 500, 'v');
        // Its parent may have been evicted: then it begins a chain of its own.
        const bool linked = at > 0 && parents.contains(names[at - 1]);
        const Status set_it = cache_->Set(keys[at], Source(value), set);
        if (!set_it) break;
        const std::string parent =
            linked && parents.contains(names[at - 1]) ? names[at - 1] : std::string("-");
        parents[names[at]] = parent;
        if (parent != "-") children[parent].insert(names[at]);
      }
      if (dice() % 4 == 0) {
        for (std::size_t at = 0; at < run.size(); ++at) {
          held.emplace_back(names[at], std::move(run[at]));
        }
      } else {
        for (std::size_t at = 0; at < run.size(); ++at) --leases[names[at]];
      }
      run.clear();
      while (held.size() > 20) {
        --leases[held.front().first];
        held.erase(held.begin());
      }
    }
    CheckOrder(parents, leases);
    for (const auto& [key, lease] : held) --leases[key];
    held.clear();
    clock_->Advance(seconds(40));
    (void)cache_->Apply(0.99);
    EXPECT_EQ(cache_->size(), 0U) << "EMERGENCY lets all leave that are idle";
    EXPECT_TRUE(parents.empty());
    cache_.reset();
    return log;
  }
  void Follow() {
    const auto graph = cache_->step_graph();
    EXPECT_TRUE(graph->BeginRun("r", {}, cache_->now()));
    for (int step = 0; step < 10; ++step) {
      const std::string name = fmt::format("s{}", step);
      EXPECT_TRUE(graph->AddStep("r", {name, name}, cache_->now()));
      if (step > 0) {
        EXPECT_TRUE(graph->AddEdge("r", {fmt::format("s{}", step - 1), name}, cache_->now()));
      }
      for (int at = 0; at < 3; ++at) {
        const std::string key = fmt::format("{}.{}", step, at);
        EXPECT_TRUE(graph->Bind("r", name, key, KeyKind::kHistory, cache_->now()));
      }
    }
  }
  // Evicts all that can be evicted: each once, none before its children.
  void CheckOrder(const std::map<std::string, std::string>& parents,
                  const std::map<std::string, int>& leases) {
    std::set<std::string> listed;
    for (const std::string& key : cache_->EvictionOrder()) {
      EXPECT_TRUE(listed.insert(key).second) << key << " is listed twice";
      ASSERT_TRUE(parents.contains(key)) << key << " is not there";
      const auto at = leases.find(key);
      EXPECT_TRUE(at == leases.end() || at->second == 0) << key << " is leased";
      EXPECT_FALSE(listed.contains(parents.at(key))) << key << " comes after its parent";
    }
    EXPECT_GT(listed.size(), 10U);
  }
};

TEST_P(EveryPolicy, KeepsTheContract) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_GT(Live(seed, 2500).size(), 1000U);
  }
}

TEST_P(EveryPolicy, DoesTheSameEveryTime) {
  const std::vector<std::string> once = Live(7, 1500);
  clock_ = std::make_shared<testing::ManualClock>();
  EXPECT_EQ(once, Live(7, 1500));
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy,
                         ::testing::Values("documented", "hybrid", "lru", "workflow", "score"),
                         [](const auto& policy) { return std::string(policy.param); });

}  // namespace
}  // namespace spillway
