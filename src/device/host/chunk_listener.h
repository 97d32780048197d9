// SPDX-License-Identifier: Apache-2.0
// Receives notice of each chunk of host memory: a GPU driver registers the
// chunks, so that copies from and to them are direct.
#pragma once

#include <cstddef>

#include "spillway/units.h"

namespace spillway {

// Calls for one chunk come one after another, Added first; calls for different
// chunks may overlap. They come from the engine's strand, from the pool's own
// thread, and from callers of SetGrowth(false). They must not call the pool.
class ChunkListener {
 public:
  virtual ~ChunkListener() = default;

  // [base, base + bytes) can be used from now on; no block is in it yet.
  virtual void Added(std::byte* base, Bytes bytes) = 0;
  // The chunk is about to be returned; no block is in it any more.
  virtual void Removed(std::byte* base, Bytes bytes) = 0;
};

}  // namespace spillway
