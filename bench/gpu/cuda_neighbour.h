// SPDX-License-Identifier: Apache-2.0
// A neighbour process on a GPU, for benches: plain device memory by the driver API, loaded with
// dlopen, so that it builds without CUDA.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::bench {

class CudaNeighbour {
 public:
  // Opens a context on the first device. Unavailable: the message says what is missing.
  static Result<CudaNeighbour> Open();

  // Makes one allocation. False: the card has not enough memory left.
  bool Take(Bytes bytes);
  // Frees the last allocation; returns its size.
  Bytes GiveLast();
  // Allocates or frees until the memory used on the card, by all processes, is within half a block
  // of `used`.
  void Settle(Bytes used);

  Bytes total() const { return total_; }
  Bytes Free() const;
  const std::string& pci() const { return pci_; }

 private:
  using Address = unsigned long long;
  struct Driver {
    int (*init)(unsigned) = nullptr;
    int (*device_get)(int*, int) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*set_current)(void*) = nullptr;
    int (*pci)(char*, int, int) = nullptr;
    int (*info)(std::size_t*, std::size_t*) = nullptr;
    int (*alloc)(Address*, std::size_t) = nullptr;
    int (*free)(Address) = nullptr;
  };
  struct Block {
    Address at;
    Bytes bytes;
  };

  Driver driver_;
  Bytes total_ = 0;
  std::string pci_;
  std::vector<Block> blocks_;
};

}  // namespace spillway::bench
