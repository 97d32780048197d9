// SPDX-License-Identifier: Apache-2.0
#include "stress/board.h"

#include <cstdio>

#include <fmt/format.h>

namespace spillway::stress {

// Short keys are in the slot, long ones beside it, and some name an agent.
Keys::Keys() {
  for (std::size_t id = 0; id < kAll; ++id) {
    switch (id % 4) {
      case 0:
        names.push_back(fmt::format("a key that does not fit into its slot, number {}", id));
        break;
      case 1:
        names.push_back(fmt::format("context:{}", id));
        break;
      default:
        names.push_back(fmt::format("k{}", id));
        break;
    }
  }
}

std::int64_t TokensOf(std::uint64_t key, std::uint64_t count) {
  return static_cast<std::int64_t>(key % 97 + count % 13);
}

Board::Board(const Settings& given)
    : settings(given), issued_(std::make_unique<std::atomic<std::uint64_t>[]>(Keys::kAll)) {}

void Board::OnEvent(const Event& event) {
  // A mark is no eviction: preset seed's offloaded entries stay.
  if (event.action == Action::kDemote) return;
  ++events_;
  if (event.generation >= left_.size()) left_.resize(event.generation * 2 + 1024);
  if (left_[event.generation]) {
    Fail(fmt::format("generation {} of '{}' left twice", event.generation, event.key));
  }
  left_[event.generation] = true;
}

void Board::Fail(const std::string& what) {
  const std::uint64_t number = failures_.fetch_add(1);
  const std::lock_guard lock(mutex_);
  if (number < 20) fmt::print(stderr, "FAILED: {}\n", what);
}

}  // namespace spillway::stress
