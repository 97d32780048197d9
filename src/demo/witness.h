// Who is told of every turn an agent takes: to record it, and to compare.
#pragma once

#include <span>
#include <string>

#include "demo/context.h"
#include "spillway/units.h"

namespace spillway::demo {

// Called from the agents' threads, several at a time.
class Witness {
 public:
  virtual ~Witness() = default;

  // It has looked for its context: of `blocks` the first `found` were there.
  virtual void Began(const std::string& agent, std::span<const Block> blocks,
                     std::size_t found) = 0;
  // It has done its turn, and its context is `blocks` now. When it began it asked
  // for `asked` tokens, of which `found` were there.
  virtual void Ended(const std::string& agent, std::span<const Block> blocks, Tokens asked,
                     Tokens found) = 0;
  // Nobody will want these any more.
  virtual void Forgot(std::span<const std::string> keys) = 0;
};

}  // namespace spillway::demo
