// Pages of this process, as a pool of host memory needs them: addresses first,
// memory behind them later, and back to the kernel. No account, no state.
#pragma once

#include <cstddef>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr Bytes kHostPage = 4 * kKiB;
inline constexpr Bytes kHostHugePage = 2 * kMiB;

// Addresses without memory, aligned to `align` (a power of two) and fit for
// huge pages if `huge`. NoMemory, in the system's words.
Result<std::byte*> ReservePages(Bytes bytes, Bytes align, bool huge);
void ReleasePages(std::byte* at, Bytes bytes);

// From now on they can be used; each page comes with its first touch. NoMemory:
// nothing has changed.
Status OpenPages(std::byte* at, Bytes bytes);
// Fetches the memory of open pages, and changes no byte of them, not even of
// one that is being written. NoMemory: some may be there, some not.
Status PopulatePages(std::byte* at, Bytes bytes);
// The same for kernels that cannot (before 5.14). Who has no memory for it is
// killed, as with any touch.
void TouchPages(std::byte* at, Bytes bytes);
// The kernel has the memory when this returns, and nobody can use the pages.
void ReturnPages(std::byte* at, Bytes bytes, bool huge);

}  // namespace spillway
