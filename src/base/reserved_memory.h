// Address space now, zeroed memory as it is touched.
#pragma once

#include <cstddef>

namespace spillway {

// Null when the system refuses. Pages read as zero until written.
void* ReserveZeroed(std::size_t bytes);
void UnreserveZeroed(void* base, std::size_t bytes);

}  // namespace spillway
