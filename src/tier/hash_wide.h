// XXH3-128 by wide registers, for processors that have them: the same figures,
// sooner. The sources behind it are compiled for those processors and must
// contain nothing that others could be handed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

using Hash128Into = void(const void* data, std::size_t bytes, std::uint64_t* low,
                         std::uint64_t* high);
#if defined(__x86_64__)
Hash128Into Hash128Avx2;
Hash128Into Hash128Avx512;
#endif

}  // namespace spillway
