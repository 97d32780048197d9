// SPDX-License-Identifier: Apache-2.0
// Pages of this process, for a pool of host memory: reserve addresses first,
// put memory behind them later, and return it to the kernel. Keeps no state.
#pragma once

#include <cstddef>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr Bytes kHostPage = 4 * kKiB;
inline constexpr Bytes kHostHugePage = 2 * kMiB;

// Reserves addresses without memory, aligned to `align` (a power of two),
// suited to huge pages if `huge`. NoMemory, with the system's message.
Result<std::byte*> ReservePages(Bytes bytes, Bytes align, bool huge);
void ReleasePages(std::byte* at, Bytes bytes);

// Makes the pages usable; memory comes with the first touch of each page.
// NoMemory: nothing has changed.
Status OpenPages(std::byte* at, Bytes bytes);
// Fetches the memory of usable pages without changing any byte, even of a page
// that is being written. NoMemory: some pages may have memory.
Status PopulatePages(std::byte* at, Bytes bytes);
// The same for kernels without that call (before 5.14). If there is no memory
// the process is killed, as with any touch.
void TouchPages(std::byte* at, Bytes bytes);
// When this returns the kernel has the memory and the pages can no longer be used.
void ReturnPages(std::byte* at, Bytes bytes, bool huge);

}  // namespace spillway
