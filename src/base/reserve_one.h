// SPDX-License-Identifier: Apache-2.0
// Makes room first: before an item moves from one container to another, reserve
// its place, while running out of memory still changes nothing.
#pragma once

#include <vector>

namespace spillway {

// Afterwards one push_back needs no memory. Throws bad_alloc.
template <typename T>
void ReserveOne(std::vector<T>& in) {
  if (in.size() == in.capacity()) in.reserve(2 * in.size() + 16);
}

}  // namespace spillway
