// Who wants to know which chunks of host memory there are: a GPU driver that
// registers each of them, so that copies to and from it are direct.
#pragma once

#include <cstddef>

#include "spillway/units.h"

namespace spillway {

// Calls for one chunk come one after another, Added first; those for different
// chunks may overlap. They come from the engine's strand, from the pool's own
// thread, and from whoever says that the pool shall not grow. They must not call
// the pool.
class ChunkListener {
 public:
  virtual ~ChunkListener() = default;

  // [base, base + bytes) can be used, and no block is in it yet.
  virtual void Added(std::byte* base, Bytes bytes) = 0;
  // It is about to go; no block is in it any more.
  virtual void Removed(std::byte* base, Bytes bytes) = 0;
};

}  // namespace spillway
