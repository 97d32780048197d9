// SPDX-License-Identifier: Apache-2.0
// Properties that hold for every graph.
#include <algorithm>
#include <random>
#include <set>
#include <span>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/testing/one_run.h"

namespace spillway {
namespace {

using testing::OneRun;

struct Shape {
  std::vector<Join> joins;
  std::vector<std::pair<int, int>> edges;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  int Pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Shape Acyclic() {
    Shape shape;
    const int steps = 3 + Pick(15);
    for (int i = 0; i < steps; ++i) shape.joins.push_back(Pick(2) == 0 ? Join::kAll : Join::kAny);
    std::set<std::pair<int, int>> edges;
    for (int i = 0; i < 2 * steps; ++i) {
      const int a = Pick(steps);
      const int b = Pick(steps);
      if (a != b) edges.emplace(std::min(a, b), std::max(a, b));
    }
    shape.edges.assign(edges.begin(), edges.end());
    return shape;
  }
  std::vector<int> Shuffled(int n) {
    std::vector<int> all(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = i;
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

 private:
  std::mt19937_64 random_;
};

std::string Id(int at) { return fmt::format("s{}", at); }

void Build(OneRun* r, const Shape& shape) {
  for (int i = 0; i < static_cast<int>(shape.joins.size()); ++i) {
    r->Add({Id(i), Id(i), shape.joins[static_cast<std::size_t>(i)]});
  }
  for (const auto& [from, to] : shape.edges) r->Edge(Id(from), Id(to));
}

TEST(Invariant, AnEdgeIntoAllNeverLowersAndIntoAnyNeverRaises) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const Shape shape = random.Acyclic();
    OneRun r;
    Build(&r, shape);
    const int steps = static_cast<int>(shape.joins.size());
    const int to = 1 + random.Pick(steps - 1);
    const int from = random.Pick(to);
    const bool known = std::ranges::find(shape.edges, std::pair(from, to)) != shape.edges.end();
    const bool root = std::ranges::none_of(shape.edges, [&](auto& e) { return e.second == to; });
    if (known) continue;
    const std::uint32_t before = *r.Steps(Id(to));
    r.Edge(Id(from), Id(to));
    const std::uint32_t after = *r.Steps(Id(to));
    if (shape.joins[static_cast<std::size_t>(to)] == Join::kAll) {
      EXPECT_GE(after, before) << "seed " << seed;
    } else if (!root) {
      EXPECT_LE(after, before) << "seed " << seed;
    }
  }
}

TEST(Invariant, RenamingChangesNothing) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const Shape shape = random.Acyclic();
    const int steps = static_cast<int>(shape.joins.size());
    const std::vector<int> names = random.Shuffled(steps);
    OneRun plain;
    Build(&plain, shape);
    OneRun renamed;  // The same run, built in another order and with other names.
    for (const int i : random.Shuffled(steps)) {
      const std::string id = Id(names[static_cast<std::size_t>(i)]);
      renamed.Add({id, id, shape.joins[static_cast<std::size_t>(i)]});
    }
    for (const auto& [from, to] : shape.edges) {
      renamed.Edge(Id(names[static_cast<std::size_t>(from)]),
                   Id(names[static_cast<std::size_t>(to)]));
    }
    plain.Do(Id(0));
    renamed.Do(Id(names[0]));
    for (int i = 0; i < steps; ++i) {
      const StepFacts a = plain.Of(Id(i));
      const StepFacts b = renamed.Of(Id(names[static_cast<std::size_t>(i)]));
      EXPECT_EQ(a.steps, b.steps) << "seed " << seed;
      EXPECT_EQ(a.state, b.state);
      EXPECT_DOUBLE_EQ(a.eta_ms, b.eta_ms);
      EXPECT_DOUBLE_EQ(a.p, b.p);
    }
  }
}

TEST(Invariant, OrderListsEveryKeyOnceAndNoParentBeforeItsChild) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const Shape shape = random.Acyclic();
    OneRun r;
    Build(&r, shape);
    const int steps = static_cast<int>(shape.joins.size());
    std::vector<std::string> parent(30);
    for (int key = 0; key < 30; ++key) {
      r.Bind(Id(random.Pick(steps)), fmt::format("k{:02}", key));
      if (key == 0 || random.Pick(4) == 0) continue;
      parent[static_cast<std::size_t>(key)] = fmt::format("k{:02}", random.Pick(key));
      ASSERT_TRUE(
          r.graph().Link(fmt::format("k{:02}", key), parent[static_cast<std::size_t>(key)]));
    }
    for (int turn = 0; turn < 6; ++turn) {
      const std::string at = Id(random.Pick(steps));
      r.now += std::chrono::seconds(random.Pick(5));
      if (r.State(at) != StepState::kDone) random.Pick(3) == 0 ? r.Skip(at) : r.Do(at);
      if (turn == 3) {
        ASSERT_TRUE(r.graph().Advise("k07", std::chrono::seconds(random.Pick(100)), 0.5, r.now));
      }
      const std::vector<std::string> order = r.Order();
      EXPECT_EQ(std::set<std::string>(order.begin(), order.end()).size(), 30U);
      ASSERT_EQ(order.size(), 30U);
      for (int key = 0; key < 30; ++key) {
        const std::string& above = parent[static_cast<std::size_t>(key)];
        if (above.empty()) continue;
        EXPECT_LT(std::ranges::find(order, fmt::format("k{:02}", key)),
                  std::ranges::find(order, above))
            << "seed " << seed;
      }
      const std::vector<std::string> first = r.graph().eviction_order(7, r.now);
      EXPECT_TRUE(std::ranges::equal(first, std::span(order).first(7)));
    }
  }
}

}  // namespace
}  // namespace spillway
