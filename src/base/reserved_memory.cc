#include "base/reserved_memory.h"

#include <sys/mman.h>

namespace spillway {

void* ReserveZeroed(std::size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  return base;
}

void UnreserveZeroed(void* base, std::size_t bytes) {
  if (base != nullptr) munmap(base, bytes);
}

}  // namespace spillway
