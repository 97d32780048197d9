// SPDX-License-Identifier: Apache-2.0
// Gives back the memory of a list that was once much longer: after very many entries were removed
// at once, but not after everyday changes in length.
#pragma once

#include <cstddef>
#include <vector>

namespace spillway {

// True: memory was given back. Does nothing if there is no memory for the copy. Never throws.
template <typename T>
bool GiveSpareBack(std::vector<T>* list) noexcept {
  constexpr std::size_t kLeast = std::size_t{1} << 16;
  constexpr std::size_t kShare = 8;
  const std::size_t room = list->capacity();
  if (room < kLeast || room / kShare < list->size()) return false;
  list->shrink_to_fit();
  return list->capacity() < room;
}

}  // namespace spillway
