// A neighbour on a GPU, for benches: plain device memory by the driver API,
// found by dlopen, so that it builds where no CUDA is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::bench {

class CudaNeighbour {
 public:
  // Context on the first device. Unavailable says what is missing.
  static Result<CudaNeighbour> Open();

  // One allocation. False: the card has not enough left.
  bool Take(Bytes bytes);
  // Gives back the last one; the bytes it had.
  Bytes GiveLast();
  // Takes or gives until all of the card that is used, by anybody, is within
  // half a block of `used`.
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
