// SPDX-License-Identifier: Apache-2.0
// Memory that is refused: this program's operator new throws when it is told to.
// Allocations of the test itself are not counted.
#pragma once

#include <cstdint>

namespace spillway::sweep {

// From now on allocation `number` (from 0) fails, or it and all after it.
void FailNewAt(std::uint64_t number, bool for_good);
// The first failing allocation prints where it was called, for addr2line.
void ShowFirstRefused();
void HealNew();
std::uint64_t CountedNews();

// While it exists, this thread's allocations always succeed.
class Exempt {
 public:
  Exempt();
  ~Exempt();
  Exempt(const Exempt&) = delete;
  Exempt& operator=(const Exempt&) = delete;
};

// Inside an Exempt: counts and fails allocations again, for a call into the product.
class Counted {
 public:
  Counted();
  ~Counted();
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  const int before_;
};

}  // namespace spillway::sweep
