// SPDX-License-Identifier: Apache-2.0
// One run of the whole cache, about 60 operations, in which one thing fails: opened on
// three tiers, filled, read, replaced, erased, squeezed, closed, opened again, read
// again. Errors are valid answers; wrong bytes are not.
#pragma once

#include <cstdint>
#include <string>

namespace spillway::sweep {

enum class Kind : std::uint8_t { kNothing, kFileIo, kFileFull, kNew, kMap };

struct Fault {
  Kind kind = Kind::kNothing;
  std::uint64_t number = 0;  // Which call of that kind, from 0.
  bool for_good = false;     // And all calls after it.
};

// The findings of a run; all 0: it was as it should be.
struct Verdict {
  std::uint64_t wrong = 0;  // Bytes that were never set, or not last.
  // After a reopen: an older value of a key, whose writer was told by Close that this
  // may happen, or was not told.
  std::uint64_t stale_told = 0;
  std::uint64_t stale = 0;
  std::uint64_t left = 0;     // Bytes in tiers after Clear, or files left open.
  std::uint64_t escaped = 0;  // Exceptions out of Set, Get or Open.
  std::uint64_t thrown = 0;   // Out of calls that can't return an error.
  std::uint64_t lost = 0;     // The healed cache could not be opened or used.
  std::uint64_t found = 0;    // Values that the healed cache still has.
  std::uint64_t calls = 0;    // Of the fault's kind.
};

Verdict RunScript(const std::string& dir, const Fault& fault);

}  // namespace spillway::sweep
