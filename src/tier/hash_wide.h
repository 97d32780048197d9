// SPDX-License-Identifier: Apache-2.0
// XXH3-128 with wide vector registers: the same hashes, faster, on processors
// that have them. The two sources are compiled for those processors only, so
// they must contain no inline function that the linker could merge into code
// for other processors.
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
