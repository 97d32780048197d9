// Address space now, zeroed memory as it is touched: small pages for the first
// 128 KiB, large ones (where the kernel gives them) beyond.
#pragma once

#include <cstddef>

namespace spillway {

// Null when the system refuses. Pages read as zero until written.
void* ReserveZeroed(std::size_t bytes);
void UnreserveZeroed(void* base, std::size_t bytes);

}  // namespace spillway
