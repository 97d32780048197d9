// Where an agent's contexts are kept, as the agent knows it: blocks by key, read
// and set and forgotten. A daemon's socket is behind it in the demo, a cache in
// tests.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "demo/context.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

// One block that was read.
struct Found {
  bool there = false;
  Tokens tokens = 0;
  std::span<const std::byte> bytes;  // Until the next is told.
};

// One thread at a time.
class Contexts {
 public:
  virtual ~Contexts() = default;
  using Each = std::function<void(std::size_t i, const Found& found)>;

  // All of them, each told in its turn.
  virtual Status Read(std::span<const std::string_view> keys, const Each& each) = 0;
  // How many, from the first on, are there as a chain without a gap.
  virtual Result<std::size_t> Match(std::span<const std::string_view> keys) = 0;
  // kBlocked: it was refused, and the agent goes on without.
  virtual Status Set(const Block& block, std::string_view agent,
                     std::span<const std::byte> bytes) = 0;
  // Where they are kept has gone and come again: what is remembered of the way
  // there is of no use.
  virtual void Renew() {}
  // Nobody will want them any more.
  virtual Status Forget(std::span<const std::string_view> keys) = 0;
};

}  // namespace spillway::demo
