// SPDX-License-Identifier: Apache-2.0
// Reserves address space; zeroed memory comes as pages are touched: small pages
// for the first 128 KiB, large ones (if the kernel provides them) beyond.
#pragma once

#include <cstddef>
#include <functional>

namespace spillway {

inline constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;
// This much of it lies before the border of the first large page.
inline constexpr std::size_t kSmallPagesBytes = std::size_t{128} << 10;

enum class Pages { kLargeBeyondFirst, kSmall };

// Returns null if the system refuses. Pages read as zero until they are written.
void* ReserveZeroed(std::size_t bytes, Pages pages = Pages::kLargeBeyondFirst);
void UnreserveZeroed(void* base, std::size_t bytes);

// Returns the memory of all pages that lie entirely in the range: they read as
// zero again. No thread may write to them meanwhile.
void ForgetZeroed(void* from, std::size_t bytes);

// The same for ranges to which other threads may still write: `look` sees the
// contents including the very last write before the swap; later writes go to
// the zeroed pages. Both ends must be page borders. Returns false, without a
// change, if the kernel does not support it.
bool SwapForZeroed(void* from, std::size_t bytes,
                   const std::function<void(const std::byte* was)>& look);

}  // namespace spillway
